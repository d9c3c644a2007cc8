"""Speed beside Embree and tinybvh: ``./run bench [NAME ...] [--quick] [--json FILE] [--rounds N] [--tinybvh DIR]``.

All contenders get the same rays and meshes, in one process, in interleaved rounds. One thread is measured in CPU
seconds, which other load changes little; all threads by the wall clock, which wants an idle machine. The product's rays
go through ``Dispatcher.trace`` with everything around the kernels ("in kernels" says how much of the time they are) and
through a top level of one instance; the peers' loops are C++. A full run takes about a quarter of an hour, ``--quick``
less than a minute. ``--markdown FILE`` makes the README's section of what ``--json`` wrote.
"""
