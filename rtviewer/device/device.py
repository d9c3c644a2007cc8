"""The D3D12 calls on acceleration structures by their own names, on simulated memory.

    device = Device()
    vertices = device.create_buffer(36, name="vertices")
    vertices.write(np.float32([[0, 0, 0], [0, 1, 0], [1, 0, 0]]))
    inputs = BuildInputs.bottom_level([GeometryDesc(triangles=TrianglesDesc(...))])
    info = device.get_prebuild_info(inputs)

Calls take effect at once. A call that breaks a rule raises InvalidInputError with every violation it found, sorted, and
has written nothing; what the rules only advise against is added to ``warnings``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from rtviewer.accel.structure import Structure
from rtviewer.copymode.identify import check_driver_matching_identifier
from rtviewer.device import build_call, copy_call, postbuild, rehydrate_call, trace_call
from rtviewer.device.address_space import Heap
from rtviewer.device.buffers import SRV, Buffer, HeapType
from rtviewer.device.contents import Record
from rtviewer.device.device_memory import DeviceMemory
from rtviewer.dxr.flags import DriverMatchingIdentifierStatus, ResourceState
from rtviewer.dxr.profile import DEFAULT_PROFILE, Profile
from rtviewer.dxr.raw_descs import BuildDesc, BuildInputs, PostbuildInfoDesc, PrebuildInfo
from rtviewer.dxr.rules import require
from rtviewer.errors import InvalidInputError, Violation, violation
from rtviewer.trace.request import RayBatch, TraceResult, TraceSettings


class Device:
    """A device with its own address space.

    ``profile``: tier and Xbox additions that calls are judged by. ``debug``: scratch memory is overwritten after every
    build, with another pattern each time (BLD-7).
    """

    def __init__(self, profile: Profile = DEFAULT_PROFILE, *, debug: bool = False) -> None:
        self._memory = DeviceMemory(profile, debug)
        self._in_bundle = False

    @property
    def profile(self) -> Profile:
        return self._memory.profile

    @property
    def warnings(self) -> list[Violation]:
        """Rules marked W that calls ran into, oldest first (ERR-4)."""
        return self._memory.warnings

    # --- buffers --------------------------------------------------------------------------------------------------

    def create_heap(self, size: int, name: str = "") -> Heap:
        """Memory to place several buffers on. Raises TypeError and InvalidInputError as :meth:`create_buffer`."""
        return self._memory.create_heap(size, name)

    def create_buffer(
        self,
        size: int,
        state: ResourceState = SRV,
        name: str = "buffer",
        *,
        heap_type: HeapType = HeapType.DEFAULT,
        unordered_access: bool = True,
        heap: Heap | None = None,
        heap_offset: int = 0,
    ) -> Buffer:
        """A zeroed buffer of ``size`` bytes at a 256-aligned address, in memory of its own or placed on ``heap``.

        Unlike the real thing there is no COMMON state that turns into whatever is needed: the state given is the state.
        Raises InvalidInputError: ST-1, ST-2, ST-3 when structures and other data would share memory, GEO-6 for a size
        below 1 or beyond the machine's memory. TypeError for a size that is no integer. No address is used up then.
        """
        return self._memory.create_buffer(size, state, name, heap_type, unordered_access, heap, heap_offset)

    def free(self, buffer: Buffer) -> None:
        """Release a buffer; its addresses are never given out again. Raises ValueError when it is freed already."""
        self._memory.free(buffer)

    def transition(self, buffer: Buffer, state: ResourceState) -> None:
        """Change the state of a buffer; raises InvalidInputError (ST-1, ST-2)."""
        self._memory.transition(buffer, state)

    def uav_barrier(self, buffer: Buffer | None = None) -> None:
        """Order writes before reads of a buffer, or of all. The device needs none; once one was given, missing ones are
        reported as warnings (ST-4)."""
        self._memory.barrier(buffer)

    def find(self, address: int) -> tuple[Buffer, int] | None:
        """The buffer that an address lies in and the offset in it; None where there is none."""
        return self._memory.space.find(address)

    @property
    def buffers(self) -> Iterable[Buffer]:
        """All live buffers, by address."""
        return tuple(self._memory.space)

    def record_at(self, address: int) -> Record | None:
        """What the device remembers of the structure it wrote at an address; None where there is none."""
        place = self.find(address)
        return self._memory.contents.at(place[0].place + place[1]) if place is not None else None

    def structure_at(self, address: int) -> Structure:
        """The live structure at an address, as views on its bytes; they change when the memory is written.

        Raises InvalidInputError: ALIGN-1, BLD-10, CP-7, ST-1.
        """
        record, found = self._memory.live(address, "address", "BLD-10", trace_call.SECTION)
        require(found, "structure_at")
        assert record is not None
        return record.structure

    # --- calls ----------------------------------------------------------------------------------------------------

    @contextmanager
    def bundle(self) -> Iterator[None]:
        """Record a bundle: builds, copies and postbuild infos are refused in it (BLD-15)."""
        before, self._in_bundle = self._in_bundle, True
        try:
            yield
        finally:
            self._in_bundle = before

    def get_prebuild_info(self, inputs: BuildInputs) -> PrebuildInfo:
        """GetRaytracingAccelerationStructurePrebuildInfo: sizes from counts, flags and formats alone (PRE-1 to PRE-11).

        Raises InvalidInputError (PRE-10).
        """
        return build_call.prebuild_info(self._memory, inputs)

    def build(self, desc: BuildDesc, postbuild: Sequence[PostbuildInfoDesc] = ()) -> Structure:
        """BuildRaytracingAccelerationStructure, first build or update; returns what was written.

        Raises InvalidInputError with every violation (sections 1 to 3, and 5 for ``postbuild``).
        """
        self._refuse_in_bundle(build_call.CALL)
        return build_call.BuildCall(self._memory, desc, postbuild).run()

    def emit_postbuild_info(self, desc: PostbuildInfoDesc, sources: Sequence[int]) -> None:
        """EmitRaytracingAccelerationStructurePostbuildInfo: one output per source address, in order.

        Raises InvalidInputError (POST-*, ALIGN-1, ALIGN-8, ST-1, CP-7, XB-5).
        """
        self._refuse_in_bundle(postbuild.CALL)
        postbuild.emit(self._memory, desc, sources)

    def copy(self, dest: int, source: int, mode: int) -> Structure | None:
        """CopyRaytracingAccelerationStructure; returns the structure written, None when a blob or a decode was.

        Raises InvalidInputError (CP-*, SER-*, ALIGN-9, ST-1, POST-4, XB-5, XB-15).
        """
        self._refuse_in_bundle(copy_call.CALL)
        return copy_call.copy(self._memory, dest, source, mode)

    def check_driver_matching_identifier(self, data_type: int, identifier: bytes) -> DriverMatchingIdentifierStatus:
        """CheckDriverMatchingIdentifier for 32 identifier bytes, for instance the first of a blob (SER-9, SER-10)."""
        return check_driver_matching_identifier(data_type, identifier)

    def rehydrate(self, descs: BuildDesc | Sequence[BuildDesc]) -> list[Structure]:
        """Xbox: RehydrateRaytracingAccelerationStructure(Batched)X (XB-7 to XB-13); returns what was written, in order.

        Raises InvalidInputError for the whole batch before anything is written (XB-*, ALIGN-1, BLD-8, ST-1).
        """
        batch = [descs] if isinstance(descs, BuildDesc) else list(descs)
        return rehydrate_call.rehydrate(self._memory, batch)

    def trace(
        self, tlas_address: int, rays: RayBatch, settings: TraceSettings | None = None, *, counters: bool = False
    ) -> TraceResult:
        """Trace rays against the top level at an address; address 0 misses (RAY-9).

        Rays that break RAY-2 or RAY-3 are marked invalid in the result (RAY-4). Raises InvalidInputError: a stale top
        level (BLD-6), a bottom level that is not there (BLD-10), foreign bytes (CP-7), illegal flags (RF-*).
        """
        return trace_call.trace(self._memory, tlas_address, rays, settings or TraceSettings(), counters)

    def _refuse_in_bundle(self, call: str) -> None:
        if self._in_bundle:
            text = "this call is recorded on graphics and compute lists, not in bundles"
            raise InvalidInputError(
                [violation("BLD-15", text, field="command list", value="bundle", section=call)], call
            )
