"""Update experiments: a deformed bottom level brought up to date in three ways, and the numbers they give."""

from __future__ import annotations

import time
from dataclasses import replace

from rtviewer.accel.sizes import scratch_size, update_scratch_size
from rtviewer.accel.stats import half_areas
from rtviewer.accel.structure import Structure
from rtviewer.dxr.descs import BlasInputs
from rtviewer.dxr.profile import DEFAULT_PROFILE, Profile
from rtviewer.dxr.rules import check_update_flags
from rtviewer.errors import InvalidInputError, Violation
from rtviewer.scene.deform import deformed
from rtviewer.session.copies import counts_of_structure, free_address
from rtviewer.session.document import Document, World
from rtviewer.session.records import UpdateKind, UpdateRecord
from rtviewer.session.structures import with_structure

CALL = "BuildRaytracingAccelerationStructure (update)"


def check_update(world: World, index: int, kind: UpdateKind, profile: Profile = DEFAULT_PROFILE) -> list[Violation]:
    """Why a bottom level cannot be updated (BF-*, UPD-1); a rebuild always can."""
    if kind is UpdateKind.REBUILD:
        return []
    structure = world.structure(index)
    return check_update_flags(structure.build_flags, structure.type, profile)


def updated_document(
    document: Document, index: int, amount: float, kind: UpdateKind, profile: Profile = DEFAULT_PROFILE
) -> Document:
    """The document with bottom level ``index`` of its scene deformed by ``amount`` turns and brought up to date.

    The scene's mesh is deformed, not the last deformation, so amounts do not add up; updates do build on each other,
    as they do in an application. The top level is built anew over it (BLD-6). The first step of a structure is preceded
    by a record of how it was.

    Raises InvalidInputError for an update that a rule forbids (UPD-*).
    """
    world = document.world
    source = world.blases[index]
    if found := check_update(world, index, kind, profile):
        raise InvalidInputError(found, CALL)
    updates = document.updates
    if not any(record.structure == index for record in updates):
        updates = (*updates, _record(world, index, UpdateKind.AS_BUILT, 0.0, world.build_seconds(index), None))
    first = next(record for record in updates if record.structure == index)
    inputs = deformed(document.scene.blases[index], amount)
    start = time.perf_counter()
    target = _brought_up_to_date(world, source, inputs, kind, profile)
    seconds = time.perf_counter() - start
    scene = world.scene
    blases = (*scene.blases[:index], inputs, *scene.blases[index + 1 :])
    after = with_structure(replace(world, scene=replace(scene, blases=blases)), index, target)
    record = _record(after, index, kind, amount, seconds, first)
    return replace(document, world=after, updates=(*updates, record))


def _brought_up_to_date(
    world: World, source: Structure, inputs: BlasInputs, kind: UpdateKind, profile: Profile
) -> Structure:
    from rtviewer.build.builder import build_blas
    from rtviewer.build.refit import update_blas

    if kind is UpdateKind.REBUILD:
        flags = source.build_flags
        target = build_blas(inputs, flags, name=source.name, address=source.address, profile=profile)
        fits = target.size <= source.size  # a compacted source has less room than a build needs
        return target if fits else replace(target, address=free_address(world))
    address = source.address if kind is UpdateKind.UPDATE_IN_PLACE else free_address(world)
    return update_blas(source, inputs, source.build_flags, name=source.name, address=address, profile=profile)


def _record(
    world: World, index: int, kind: UpdateKind, amount: float, seconds: float, first: UpdateRecord | None
) -> UpdateRecord:
    structure, statistics, tree = world.structure(index), world.statistics(index), world.tree(index)
    counts, flags = counts_of_structure(world, index), structure.build_flags
    area = float(half_areas(tree.low, tree.high).sum())
    is_update = kind in (UpdateKind.UPDATE_IN_PLACE, UpdateKind.UPDATE_TO_NEW)
    return UpdateRecord(
        kind=kind,
        structure=index,
        amount=amount,
        seconds=seconds,
        address=structure.address,
        size=structure.size,
        scratch=update_scratch_size(counts, flags) if is_update else scratch_size(counts, flags),
        sah=statistics.sah,
        depth=statistics.depth,
        box_area=area,
        box_growth=area / first.box_area if first is not None and first.box_area > 0 else 1.0,
    )
