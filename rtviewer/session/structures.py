"""From structures without inputs to a world, and back: what captures, folders, blobs and the copy verbs share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from rtviewer.accel.structure import Structure
from rtviewer.dxr.descs import AabbsGeometry, BlasInputs, Geometry, InstanceInputs, TrianglesGeometry
from rtviewer.dxr.flags import GeometryFlag, InstanceFlag
from rtviewer.dxr.layouts import high_8, low_24
from rtviewer.dxr.limits import ACCELERATION_STRUCTURE_BYTE_ALIGNMENT
from rtviewer.errors import StructureError
from rtviewer.io.structure_set import StructureSet
from rtviewer.scene.hit_groups import hit_group_warnings
from rtviewer.scene.scene import Instance, Scene
from rtviewer.session.document import FIRST_ADDRESS, World
from rtviewer.session.state import BuildSettings

MAX_RECOVERED = 1 << 20
"""Primitives that are recovered from any structure; beyond, at most four for each of its bytes, so that a count in a
damaged header cannot ask for memory without end."""


def recovered_inputs(blas: Structure, names: tuple[str, ...] = ()) -> BlasInputs:
    """The build inputs that a bottom level's own leaves give back: geometries in order, flags as built.

    Triangles are not indexed and have their transform applied; what is not in the tree is inactive. ``names``: of the
    geometries. Raises StructureError when the structure states far more primitives than its bytes can account for.
    """
    from rtviewer.copymode.decode import decoded_boxes, decoded_triangles

    count = int(blas.header["input_count"])
    if count > max(MAX_RECOVERED, 4 * blas.size):
        raise StructureError(f"{blas.name}: states {count:,} primitives in {blas.size:,} bytes and is not opened")
    primitives = decoded_boxes(blas) if blas.is_procedural else decoded_triangles(blas)
    geometries: list[Geometry] = []
    for index, row in enumerate(blas.geometries):
        first, length = int(row["first_primitive"]), int(row["primitive_count"])
        part = np.ascontiguousarray(primitives[first : first + length])
        flags = GeometryFlag(int(row["flags"]))
        name = names[index] if index < len(names) else ""
        if blas.is_procedural:
            geometries.append(AabbsGeometry(part, flags, name))
        else:
            geometries.append(TrianglesGeometry(part.reshape(-1, 3), flags=flags, name=name))
    return BlasInputs(tuple(geometries), blas.name)


def recovered_scene(content: StructureSet, source: str = "") -> Scene:
    """The scene that a set of structures shows: inputs from the bottom levels, instances from the top level's descs."""
    assert content.tlas is not None
    names = content.geometry_names
    blases = tuple(
        recovered_inputs(blas, names[index] if index < len(names) else ()) for index, blas in enumerate(content.blases)
    )
    position = {blas.address: index for index, blas in enumerate(content.blases)}
    scene = Scene(
        content.name, blases, instances_of(content.tlas, position, content.instance_names), content.cameras,
        content.any_hit, content.intersection, content.warnings, source, content.hit_groups,
    )  # fmt: skip
    return replace(scene, warnings=(*scene.warnings, *hit_group_warnings(scene)))


def instances_of(tlas: Structure, position: Mapping[int, int], names: tuple[str, ...] = ()) -> tuple[Instance, ...]:
    """The instances of a top level; ``position``: address to index of the bottom level."""
    descs = tlas.instance_descs
    words, flags = descs["InstanceIDAndMask"], descs["InstanceContributionAndFlags"]
    rows = zip(
        descs["AccelerationStructure"].tolist(), descs["Transform"].copy(), low_24(words).tolist(),
        high_8(words).tolist(), low_24(flags).tolist(), high_8(flags).tolist(), strict=True,
    )  # fmt: skip
    return tuple(
        Instance(
            position.get(address, -1), transform, number, mask, contribution, InstanceFlag(flag),
            names[index] if index < len(names) else "",
        )
        for index, (address, transform, number, mask, contribution, flag) in enumerate(rows)
    )  # fmt: skip


def world_of(content: StructureSet, source: str = "", generation: int = 0) -> World:
    """A world of finished structures; a bottom level alone gets one instance at the origin."""
    if content.tlas is None:
        content = _with_one_instance(content)
    assert content.tlas is not None
    settings = BuildSettings(content.blas_flags, content.tlas_flags)
    return World(recovered_scene(content, source), content.blases, content.tlas, settings, generation)


def _with_one_instance(content: StructureSet) -> StructureSet:
    from rtviewer.build.builder import build_tlas
    from rtviewer.scene.inputs import instance_inputs

    blas = content.blases[0]
    if blas.address == 0:
        blas = replace(blas, address=FIRST_ADDRESS)
    scene = Scene(content.name, (BlasInputs(),), (Instance(0),))
    tlas = build_tlas(
        instance_inputs(scene, [blas.address]), blases={blas.address: blas}, name="TLAS",
        address=next_address([blas]),
    )  # fmt: skip
    return replace(content, tlas=tlas, blases=(blas,))


def set_of(world: World) -> StructureSet:
    """What a capture or a folder of this world holds."""
    scene = world.scene
    return StructureSet(
        scene.name,
        world.tlas,
        world.blases,
        tuple(instance.name for instance in scene.instances),
        tuple(tuple(geometry.name for geometry in blas.geometries) for blas in scene.blases),
        scene.cameras or (scene.camera,),
        scene.any_hit,
        scene.intersection,
        world.settings.blas_flags,
        world.settings.tlas_flags,
        hit_groups=scene.hit_groups,
    )


def next_address(structures: list[Structure] | tuple[Structure, ...]) -> int:
    """The first aligned address beyond all structures."""
    end = max((structure.address + structure.size for structure in structures), default=FIRST_ADDRESS)
    alignment = ACCELERATION_STRUCTURE_BYTE_ALIGNMENT
    return -(-end // alignment) * alignment


def inputs_of(tlas: Structure, addresses: NDArray[np.uint64] | None = None) -> InstanceInputs:
    """A top level's own instances as build inputs, with other bottom-level addresses when given, (n,) uint64."""
    descs = tlas.instance_descs
    words, flags = descs["InstanceIDAndMask"], descs["InstanceContributionAndFlags"]
    given = descs["AccelerationStructure"] if addresses is None else addresses
    return InstanceInputs(
        np.ascontiguousarray(descs["Transform"]),
        np.ascontiguousarray(low_24(words)),
        high_8(words).astype(np.uint8),
        np.ascontiguousarray(low_24(flags)),
        high_8(flags).astype(np.uint8),
        np.ascontiguousarray(given, np.uint64),
    )


def with_structure(world: World, index: int, structure: Structure) -> World:
    """The world with one structure in the place of another.

    A bottom level at a new address has its top level updated or rebuilt over it, because nothing else would see it
    (CP-16, BLD-6); the top level keeps its flags, and its address where it has the room.
    """
    if structure.is_top_level:
        return replace(world, tlas=structure)
    old = world.blases[index].address
    blases = (*world.blases[:index], structure, *world.blases[index + 1 :])
    addresses = world.tlas.instance_descs["AccelerationStructure"].copy()
    addresses[addresses == old] = structure.address
    return replace(world, blases=blases, tlas=tlas_over(world.tlas, blases, addresses))


def tlas_over(tlas: Structure, blases: tuple[Structure, ...], addresses: NDArray[np.uint64]) -> Structure:
    """A top level of the same instances and flags over changed bottom levels, at the same address."""
    from rtviewer.build.builder import build_tlas

    table = {blas.address: blas for blas in blases}
    built = build_tlas(inputs_of(tlas, addresses), tlas.build_flags, blases=table, name=tlas.name, address=tlas.address)
    # A compacted one leaves less room than a build needs.
    return built if built.size <= tlas.size else replace(built, address=next_address([tlas, *blases]))
