"""A simulated D3D12 device: addresses, buffers with states, and the calls on acceleration structures by their names.

Everything that the specification leaves undefined is refused here, with the rule, before a byte is written.
"""
