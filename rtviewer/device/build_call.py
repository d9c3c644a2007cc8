"""BuildRaytracingAccelerationStructure: judge everything, build in private memory, then write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from rtviewer.accel.sizes import result_size, scratch_size, update_scratch_size
from rtviewer.accel.structure import Structure
from rtviewer.build.builder import build_blas, build_tlas
from rtviewer.build.references import check_instances, primitive_references
from rtviewer.build.refit import check_blas_update, check_tlas_update, update_blas, update_tlas
from rtviewer.copymode.dehydrate import dehydrate
from rtviewer.device import postbuild
from rtviewer.device.buffers import AS, UAV
from rtviewer.device.checks_inputs import check_inputs, check_prebuild, counts_of
from rtviewer.device.contents import Record
from rtviewer.device.device_memory import DeviceMemory
from rtviewer.device.memory_access import Access, Range, check_overlaps
from rtviewer.device.read_inputs import INSTANCE_SECTION, Memory, read_geometries, read_instances
from rtviewer.dxr.descs import BlasInputs, InstanceInputs
from rtviewer.dxr.flags import BuildFlag, InstanceFlag
from rtviewer.dxr.limits import ACCELERATION_STRUCTURE_BYTE_ALIGNMENT
from rtviewer.dxr.raw_descs import BuildDesc, BuildInputs, PostbuildInfoDesc, PrebuildInfo
from rtviewer.dxr.rules import require
from rtviewer.errors import InvalidInputError, Violation, violation
from rtviewer.scene.primitives import invert_transforms

CALL = "BuildRaytracingAccelerationStructure"
SECTION = "D3D12_BUILD_RAYTRACING_ACCELERATION_STRUCTURE_DESC"
UPDATE_SECTION = "Acceleration structure update constraints"
DEST, SOURCE = "DestAccelerationStructureData", "SourceAccelerationStructureData"
SCRATCH = "ScratchAccelerationStructureData"

NO_SIZES = frozenset({"AST-1", "LIM-1", "LIM-2", "LIM-3", "GEO-6", "GF-4"})
"""Broken rules of the inputs' fields after which sizes mean nothing."""
NO_CONTENT = NO_SIZES | {"EL-1", "VF-1", "IX-1", "GEO-2", "GF-1", "BLD-2"}
"""Those after which the buffers cannot be read, or would be judged twice."""


def prebuild_info(memory: DeviceMemory, inputs: BuildInputs) -> PrebuildInfo:
    """Sizes from counts, flags and formats alone [PRE-1 to PRE-11]; raises InvalidInputError (PRE-10)."""
    require(check_prebuild(inputs, memory.profile), "GetRaytracingAccelerationStructurePrebuildInfo")
    return _sizes(inputs)


def _sizes(inputs: BuildInputs) -> PrebuildInfo:
    counts, flags = counts_of(inputs), BuildFlag(int(inputs.flags))
    return PrebuildInfo(result_size(counts, flags), scratch_size(counts, flags), update_scratch_size(counts, flags))


@dataclass
class BuildCall:
    """One call while it is judged. What is None was not found or does not apply. ``is_complete``: every buffer that the
    inputs name was read."""

    memory: DeviceMemory
    desc: BuildDesc
    outputs: Sequence[PostbuildInfoDesc]
    violations: list[Violation] = field(default_factory=list)
    source: Record | None = None
    dest: Range | None = None
    scratch: Range | None = None
    output_ranges: list[Range | None] = field(default_factory=list)
    reads: list[Range] = field(default_factory=list)
    geometries: BlasInputs | None = None
    instances: InstanceInputs | None = None
    is_complete: bool = False
    blases: dict[int, Structure] = field(default_factory=dict)
    blas_generations: dict[int, int | None] = field(default_factory=dict)

    @property
    def inputs(self) -> BuildInputs:
        return self.desc.inputs

    @property
    def flags(self) -> BuildFlag:
        return BuildFlag(int(self.inputs.flags))

    @property
    def is_update(self) -> bool:
        return bool(self.flags & BuildFlag.PERFORM_UPDATE)

    def run(self) -> Structure:
        """Check, build, write; raises InvalidInputError with every violation found before anything was written."""
        self._check_source()
        broken = self._check_inputs()
        self._check_destinations(sizes_are_known=not broken & NO_SIZES)
        if not broken & NO_CONTENT:
            self._read()
        self._check_overlaps()
        if any(not v.warning for v in self.violations):
            self._add_content_violations()
        require(self.violations, CALL)
        structure = self._build()
        self.memory.warn(self.violations)
        return self._write(structure)

    # --- judging --------------------------------------------------------------------------------------------------

    def _check_source(self) -> None:
        address = self.desc.source_acceleration_structure_data
        if not address or not self.is_update:
            return  # BLD-1 is among the rules of flags
        self.source, found = self.memory.live(address, SOURCE, "UPD-1", UPDATE_SECTION)
        if self.source is not None:
            if self.source.is_dehydrated:
                found.append(_dehydrated("updated", SOURCE, address))
            self.reads.append(self.memory.range_of(self.source, address, SOURCE))
        self.violations += found

    def _check_inputs(self) -> set[str]:
        """The rules of CPU-visible fields; returns those that are broken."""
        source_flags: BuildFlag | None = None
        if self.source is not None:
            source_flags = self.source.structure.build_flags
        elif self.desc.source_acceleration_structure_data:
            # Not live, which is reported: compare with flags that an update could have.
            source_flags = (self.flags | BuildFlag.ALLOW_UPDATE) & ~BuildFlag.PERFORM_UPDATE
        found = check_inputs(self.inputs, self.memory.profile, source_flags)
        if self.source is not None and self.source.structure.type != int(self.inputs.type):
            text = f"the source is a {self.source.structure.type.name} structure"
            found.append(
                violation("UPD-7", text, field="Inputs.Type", value=int(self.inputs.type), section=UPDATE_SECTION)
            )
        self.violations += found
        return {v.rule for v in found if not v.warning}

    def _check_destinations(self, sizes_are_known: bool) -> None:
        """ALIGN-1, ALIGN-2, BLD-8, ST-1 of destination and scratch, and the outputs' rules."""
        result = scratch = 0
        if sizes_are_known:
            sizes = _sizes(self.inputs)
            result, scratch = sizes.result_data_max_size_in_bytes, sizes.scratch_data_size_in_bytes
            if self.is_update:
                scratch = update_scratch_size(counts_of(self.inputs), self.flags | BuildFlag.ALLOW_UPDATE)
        if self.source is not None:
            result = self.source.structure.size  # UPD-6
        alignment = ACCELERATION_STRUCTURE_BYTE_ALIGNMENT
        address = self.desc.dest_acceleration_structure_data
        self.dest, found = self.memory.resolve(
            Access(DEST, address, result, AS, ((alignment, "ALIGN-1"),), "BLD-8", SECTION)
        )
        address = self.desc.scratch_acceleration_structure_data
        self.scratch, more = self.memory.resolve(
            Access(SCRATCH, address, scratch, UAV, ((alignment, "ALIGN-2"),), "BLD-8", SECTION)
        )
        self.output_ranges, others = postbuild.check_build_outputs(self.memory, self.outputs, self.flags)
        self.violations += found + more + others

    def _read(self) -> None:
        """Decode inputs; for a top level also find the bottom levels."""
        inputs_memory = Memory(self.memory.space)
        if self.inputs.is_top_level:
            self.instances = read_instances(self.inputs, inputs_memory)
        else:
            self.geometries = read_geometries(self.inputs, inputs_memory)
        self.is_complete = not inputs_memory.has_errors
        self.violations += inputs_memory.violations
        self.reads += inputs_memory.ranges
        if self.instances is not None:
            self._find_blases(self.instances)

    def _find_blases(self, instances: InstanceInputs) -> None:
        """BLD-10, and CP-7, XB-5, IF-3, INST-5 and what else instances say by themselves."""
        found: list[Violation] = []
        for address in map(int, np.unique(instances.blas_address[instances.blas_address != 0])):
            first = int(np.flatnonzero(instances.blas_address == address)[0])
            name = f"InstanceDescs[{first}].AccelerationStructure"
            record, violations = self.memory.live(address, name, "BLD-10", INSTANCE_SECTION)
            # What the table's own check below says is not said twice.
            found += [v for v in violations if v.rule not in ("BLD-10", "ALIGN-1")]
            if record is None:
                continue
            if record.is_dehydrated:
                found.append(_dehydrated("referenced by a top level", name, address))
                continue
            self.blases[address] = record.structure
            self.blas_generations[address] = record.generation
            self.reads.append(self.memory.range_of(record, address, name))
        found += check_instances(instances, self.blases, self.memory.profile)
        self.violations += found + self._omm_flags(instances) + _singular_transforms(instances)

    def _omm_flags(self, instances: InstanceInputs) -> list[Violation]:
        """IF-3."""
        found: list[Violation] = []
        if not self.memory.profile.known_instance_flags & InstanceFlag.DISABLE_OMMS:
            return found  # IF-1 is said already
        for i in np.flatnonzero(instances.flags & int(InstanceFlag.DISABLE_OMMS))[:8]:
            blas = self.blases.get(int(instances.blas_address[i]))
            if blas is not None and not blas.build_flags & BuildFlag.ALLOW_DISABLE_OMMS:
                text = "DISABLE_OMMS needs a bottom level built with ALLOW_DISABLE_OMMS"
                name = f"InstanceDescs[{i}].Flags"
                found.append(
                    violation("IF-3", text, field=name, value=int(instances.flags[i]), section=INSTANCE_SECTION)
                )
        return found

    def _check_overlaps(self) -> None:
        """BLD-9; between source and destination UPD-4."""
        written = [r for r in (self.dest, self.scratch, *self.output_ranges) if r is not None]
        reads = [r for r in self.reads if r.field != SOURCE]
        self.violations += check_overlaps(written, reads, "BLD-9", SECTION)
        source = next((r for r in self.reads if r.field == SOURCE), None)
        if source is None:
            return
        others = [r for r in written if r is not self.dest]
        self.violations += check_overlaps(others, [source], "BLD-9", SECTION)
        if self.dest is not None and self.dest.start != source.start:
            self.violations += check_overlaps([self.dest], [source], "UPD-4", UPDATE_SECTION)

    def _add_content_violations(self) -> None:
        """The call is refused anyway: say everything that the build itself would refuse too [ERR-3]."""
        if self.geometries is not None:
            if self.is_complete and self.source is not None and not self.source.structure.is_top_level:
                self.violations += check_blas_update(self.source.structure, self.geometries)
            try:
                primitive_references(self.geometries, self.memory.profile)
            except InvalidInputError as error:
                self.violations += error.violations
        if self.instances is not None and self.source is not None and self.source.structure.is_top_level:
            self.violations += check_tlas_update(self.source.structure, self.instances)
        self.violations = sorted(set(self.violations))

    # --- doing ----------------------------------------------------------------------------------------------------

    def _build(self) -> Structure:
        address = self.desc.dest_acceleration_structure_data
        name, profile = self.memory.name_at(address), self.memory.profile
        if self.geometries is not None:
            if self.source is not None:
                return update_blas(
                    self.source.structure, self.geometries, self.flags, name=name, address=address, profile=profile
                )
            flags = self.flags & ~BuildFlag.DEHYDRATE
            built = build_blas(self.geometries, flags, name=name, address=address, profile=profile)
            if self.flags & BuildFlag.DEHYDRATE:
                return dehydrate(built, self.geometries, name=name, address=address)
            return built
        assert self.instances is not None
        if self.source is not None:
            return update_tlas(
                self.source.structure, self.instances, self.flags, blases=self.blases, name=name, address=address,
                profile=profile,
            )  # fmt: skip
        return build_tlas(self.instances, self.flags, blases=self.blases, name=name, address=address, profile=profile)

    def _write(self, structure: Structure) -> Structure:
        address = self.desc.dest_acceleration_structure_data
        record = self.memory.store(address, structure, self.blas_generations)
        for desc, output in zip(self.outputs, self.output_ranges, strict=True):
            assert output is not None
            postbuild.write(output, desc, [record.structure])
        if self.scratch is not None:
            self.memory.scribble(self.scratch)
        return record.structure


def _dehydrated(verb: str, name: str, address: int) -> Violation:
    text = f"a dehydrated structure cannot be {verb}: rehydrate it first"
    section = "D3D12XBOX_RAYTRACING_ACCELERATION_STRUCTURE_BUILD_FLAG_DEHYDRATE"
    return violation("XB-5", text, field=name, value=f"{address:#x}", section=section)


def _singular_transforms(instances: InstanceInputs) -> list[Violation]:
    """INST-5 as a warning."""
    used = (instances.blas_address != 0) & np.isfinite(instances.transform).all((1, 2))
    singular = invert_transforms(instances.transform)[1]
    text = "the transform cannot be inverted: no ray can hit this instance"
    return [
        violation(
            "INST-5", text, field=f"InstanceDescs[{i}].Transform", value="singular", section=INSTANCE_SECTION,
            warning=True,
        )
        for i in np.flatnonzero(singular & used)[:8]
    ]  # fmt: skip
