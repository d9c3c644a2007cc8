"""Addresses, buffers and what the device remembers of them."""

from __future__ import annotations

import numpy as np
import pytest

from rtviewer.device.address_space import AddressSpace
from rtviewer.device.buffers import AS, SRV, UAV
from rtviewer.device.checks_inputs import counts_of
from rtviewer.device.device import Device
from rtviewer.dxr.flags import BuildFlag
from rtviewer.dxr.raw_descs import BuildInputs, GeometryDesc, InstanceDesc
from rtviewer.errors import InvalidInputError
from tests.unit.device.scenes import TRIANGLE, Lab


def test_addresses_are_the_same_in_every_run_and_never_given_out_twice() -> None:
    runs = []
    for _ in range(2):
        device = Device()
        buffers = [device.create_buffer(size) for size in (1, 255, 256, 257, 1 << 20)]
        device.free(buffers[2])
        buffers.append(device.create_buffer(256))
        runs.append([b.address for b in buffers])
    assert runs[0] == runs[1]
    assert len(set(runs[0])) == 6
    assert all(address % 256 == 0 for address in runs[0])


def test_every_address_finds_its_buffer_and_no_other() -> None:
    device = Device()
    sizes = (1, 300, 4096)
    buffers = [device.create_buffer(size, name=str(size)) for size in sizes]
    for buffer in buffers:
        assert device.find(buffer.address) == (buffer, 0)
        assert device.find(buffer.address + buffer.size - 1) == (buffer, buffer.size - 1)
        assert device.find(buffer.address + buffer.size) == (buffer, buffer.size)  # an empty range may start there
        assert device.find(buffer.address + buffer.size + 1) is None
        assert device.find(buffer.address - 1) is None
    assert device.find(0) is None
    assert list(device.buffers) == buffers
    device.free(buffers[1])
    assert device.find(buffers[1].address) is None
    assert list(device.buffers) == [buffers[0], buffers[2]]
    with pytest.raises(ValueError, match="freed already"):
        device.free(buffers[1])


def test_memory_starts_zeroed_and_is_aligned_for_structures() -> None:
    space = AddressSpace()
    for size in (1, 1000, 65536):
        heap = space.allocate(size)
        assert heap.size == size
        assert not heap.data.any()
        assert heap.data.ctypes.data % 64 == 0


def test_views_are_the_memory() -> None:
    device = Device()
    buffer = device.create_buffer(64)
    buffer.write(np.float32([1, 2, 3]), 8)
    assert buffer.view(np.float32, 8, 3).tolist() == [1, 2, 3]
    buffer.view(np.uint16, 2, 1)[0] = 0xABCD
    assert buffer.read(4) == b"\0\0\xcd\xab"
    assert len(buffer.view()) == 64
    assert len(buffer.view(np.float64, 4)) == 7
    for call in (
        lambda: buffer.view(offset=65),
        lambda: buffer.view(np.uint32, 0, 17),
        lambda: buffer.view(offset=-4),
        lambda: buffer.write(bytes(60), 8),
        lambda: buffer.read(1, 64),
    ):
        with pytest.raises(ValueError):
            call()


def test_buffers_placed_on_one_heap_share_its_bytes() -> None:
    device = Device()
    heap = device.create_heap(1024, "heap")
    a = device.create_buffer(512, UAV, heap=heap)
    b = device.create_buffer(512, SRV, heap=heap, heap_offset=256)
    assert a.address != b.address
    a.write(b"\7" * 8, 256)
    assert b.read(8) == b"\7" * 8
    device.free(a)
    assert b.read(8) == b"\7" * 8


def test_a_structure_must_lie_in_the_buffer_that_names_it() -> None:
    lab = Lab()
    heap = lab.device.create_heap(1 << 16)
    large = lab.device.create_buffer(1 << 14, AS, "large", heap=heap)
    small = lab.device.create_buffer(512, AS, "small", heap=heap)
    lab.build(BuildInputs.bottom_level([lab.triangles(TRIANGLE)]), dest=large.address)
    lab.structure(large.address)
    with lab.refused("BLD-10") as error:
        lab.structure(small.address)
    assert "runs past the end of buffer 'small'" in str(error[0])


def test_what_stood_on_a_heap_is_gone_with_its_last_buffer() -> None:
    lab = Lab()
    heap = lab.device.create_heap(1 << 14)
    inputs = BuildInputs.bottom_level([lab.triangles(TRIANGLE)])
    one, two = (lab.device.create_buffer(1 << 14, AS, heap=heap) for _ in range(2))
    lab.build(inputs, dest=one.address)
    lab.device.free(one)
    lab.structure(two.address)
    lab.device.free(two)
    three = lab.device.create_buffer(1 << 14, AS, heap=heap)
    assert lab.device.record_at(three.address) is None
    with lab.refused("CP-7"):
        lab.structure(three.address)


def test_a_structure_read_from_the_device_cannot_be_written() -> None:
    lab = Lab()
    blas = lab.blas()
    structure = lab.structure(blas)
    assert not structure.data.flags.writeable
    assert structure.address == blas
    assert structure.name == "BLAS"
    buffer = lab.buffer_at(blas)
    assert buffer.read() == structure.data.tobytes()


def test_names_say_where_in_a_buffer() -> None:
    lab = Lab()
    room = lab.buffer(1 << 16, AS, "room").address
    inputs = BuildInputs.bottom_level([lab.triangles(TRIANGLE)])
    lab.build(inputs, dest=room + 512)
    assert lab.structure(room + 512).name == "room+0x200"


def test_two_devices_know_nothing_of_each_other() -> None:
    one, two = Lab(), Lab()
    blas = one.blas()
    two.blas()
    with two.refused("BLD-10"):
        two.trace(blas)


def test_counts_treat_one_desc_given_often_as_often() -> None:
    desc = GeometryDesc.from_bytes(Lab().triangles(TRIANGLE).to_bytes())
    copies = [GeometryDesc.from_bytes(desc.to_bytes()) for _ in range(3)]
    for flags in (BuildFlag.NONE, BuildFlag.MINIMIZE_MEMORY):
        same, apart = (BuildInputs.bottom_level(d, flags) for d in ([desc] * 3, copies))
        assert counts_of(same) == counts_of(apart)
        assert counts_of(same).triangles == 3


def test_a_scattered_array_is_gathered_from_several_buffers() -> None:
    lab = Lab()
    blas = lab.blas()
    descs = [InstanceDesc(instance_id=i, acceleration_structure=blas) for i in range(7)]
    first = lab.put(b"".join(d.to_bytes() for d in descs[:4]))
    second = lab.put(b"".join(d.to_bytes() for d in descs[4:]))
    places = [first + 64 * i for i in range(4)] + [second + 64 * i for i in range(3)]
    order = [6, 0, 3, 3, 5]
    pointers = lab.put(np.uint64([places[i] for i in order]))
    tlas = lab.build(BuildInputs.top_level(5, pointers, layout=1))  # type: ignore[arg-type]
    rows = lab.structure(tlas).instance_descs["InstanceIDAndMask"] & 0xFFFFFF
    assert rows.tolist() == order
    past = lab.build_desc(BuildInputs.top_level(1, lab.put(np.uint64([second + 3 * 64])), layout=1))  # type: ignore[arg-type]
    with lab.refused("GEO-6"):
        lab.device.build(past)
    high = lab.build_desc(BuildInputs.top_level(1, lab.put(np.uint64([(1 << 64) - 16])), layout=1))  # type: ignore[arg-type]
    with lab.refused("GEO-6"):
        lab.device.build(high)


@pytest.mark.parametrize("size", [0, -1, 1 << 60, 1 << 80])
def test_sizes_that_cannot_be_are_refused_and_use_up_no_address(size: int) -> None:
    device = Device()
    for create in (device.create_buffer, device.create_heap):
        with pytest.raises(InvalidInputError) as caught:
            create(size)
        assert caught.value.rules == ("GEO-6",)
    assert list(device.buffers) == []
    assert device.create_buffer(16).address == Device().create_buffer(16).address


def test_a_size_is_an_integer() -> None:
    device = Device()
    for size in (1.5, "x"):
        with pytest.raises(TypeError):
            device.create_buffer(size)  # type: ignore[arg-type]
    buffer = device.create_buffer(np.int64(16))  # type: ignore[arg-type]
    assert (buffer.address, type(device.create_buffer(16).address)) == (Device().create_buffer(16).address, int)


def test_a_freed_buffer_is_neither_written_nor_read() -> None:
    device = Device()
    buffer = device.create_buffer(16)
    device.free(buffer)
    with pytest.raises(ValueError, match="was freed"):
        buffer.write(bytes(16))
    with pytest.raises(ValueError, match="was freed"):
        buffer.read()
