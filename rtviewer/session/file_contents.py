"""What a file contains, as plain dicts: ``rtviewer info`` and the panes that look into files ask the same function."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rtviewer.accel.structure import Structure
from rtviewer.dxr.descs import Geometry, TrianglesGeometry
from rtviewer.dxr.flags import DriverMatchingIdentifierStatus, GeometryType, format_flags
from rtviewer.dxr.profile import DEFAULT_PROFILE, Profile
from rtviewer.dxr.programs import program_name
from rtviewer.errors import RtviewerError
from rtviewer.io.structure_set import StructureSet
from rtviewer.scene.inputs import scene_statistics
from rtviewer.scene.scene import Scene

if TYPE_CHECKING:
    from rtviewer.copymode.read_decode import DecodedBlas, DecodedTlas
    from rtviewer.io.bottom_level_files import BottomLevelFile


def file_contents(
    path: Path | str,
    profile: Profile = DEFAULT_PROFILE,
    *,
    bottom_levels: Sequence[BottomLevelFile] = (),
    base_address: int | None = None,
) -> tuple[dict[str, Any], Scene | None]:
    """A description of any file that opens, and the scene where there is one.

    Scenes: the fields of SceneStatistics. Everything else has ``kind``: ``structures`` (captures and folders),
    ``blob`` or ``dump``; those two are described alone, without what would be needed to trace them.
    Raises what ``io.registry.load_source`` raises.
    """
    from rtviewer.io.blob_file import read_blob
    from rtviewer.io.dump import DUMP_SUFFIX, read_decoded
    from rtviewer.io.registry import ForeignBlob, is_blob_file, load_source, resolve

    file = resolve(path)
    if file.suffix.lower() == DUMP_SUFFIX or base_address is not None:
        return dump_contents(read_decoded(file, base_address)), None
    if is_blob_file(file):
        return blob_contents(file, read_blob(file)), None
    source = load_source(file, profile, bottom_levels=bottom_levels)
    assert not isinstance(source, ForeignBlob)
    if isinstance(source, Scene):
        return scene_statistics(source).as_json(), source
    return set_contents(source), None


def structure_facts(structure: Structure) -> dict[str, Any]:
    """One structure from its header: name, level, flags, sizes, counts."""
    header = structure.header
    return {
        "name": structure.name,
        "level": "top" if structure.is_top_level else "bottom",
        "flags": format_flags(structure.build_flags),
        "address": structure.address,
        "size": structure.size,
        "used_size": structure.used_size,
        "inputs": int(header["input_count"]),
        "active": int(header["active_count"]),
        "degenerate": int(header["degenerate_count"]),
        "depth": int(header["depth"]),
    }


def set_contents(content: StructureSet) -> dict[str, Any]:
    """A capture or a folder."""
    return {
        "kind": "structures",
        "name": content.name,
        "structures": [structure_facts(structure) for structure in content.structures],
        "instances": len(content.tlas.instance_descs) if content.tlas is not None else 0,
        "cameras": [camera.name for camera in content.cameras],
        "any_hit": program_name(content.any_hit),
        "intersection": program_name(content.intersection),
        "hit_groups": None if content.hit_groups is None else [record.name for record in content.hit_groups.records],
        "warnings": list(content.warnings),
    }


def blob_contents(path: Path, data: bytes) -> dict[str, Any]:
    """A serialized structure of any driver; ``structure`` is None where the payload is not ours or not sound."""
    from rtviewer.copymode.deserialize import deserialize
    from rtviewer.io.blob_file import description_of

    description = description_of(data)
    structure, problems = None, list(description.problems)
    if description.status is DriverMatchingIdentifierStatus.COMPATIBLE_WITH_DEVICE:
        try:
            structure = structure_facts(deserialize(data, name=path.stem))
        except RtviewerError as error:
            problems.append(str(error))
    return {
        "kind": "blob",
        "fields": [
            {"offset": field.offset, "size": field.size, "name": field.name, "value": field.value}
            for field in description.fields
        ],
        "guid": str(description.guid),
        "status": description.status.name,
        "serialized_size": description.serialized_size,
        "deserialized_size": description.deserialized_size,
        "pointer_count": description.pointer_count,
        "pointers": [int(pointer) for pointer in description.pointers],
        "payload": list(description.payload),
        "problems": problems,
        "structure": structure,
    }


def dump_contents(decoded: DecodedTlas | DecodedBlas) -> dict[str, Any]:
    """A tools-visualization buffer."""
    from rtviewer.copymode.read_decode import DecodedTlas

    if isinstance(decoded, DecodedTlas):
        descs = decoded.descs
        return {
            "kind": "dump",
            "level": "top",
            "instances": len(descs),
            "addresses": sorted({int(address) for address in descs["AccelerationStructure"]} - {0}),
        }
    return {
        "kind": "dump",
        "level": "bottom",
        "base_address": decoded.base_address,
        "is_base_certain": decoded.is_base_certain,
        "geometries": [_geometry_facts(geometry) for geometry in decoded.geometries],
    }


def _geometry_facts(geometry: Geometry) -> dict[str, Any]:
    triangles = geometry if isinstance(geometry, TrianglesGeometry) else None
    return {
        "type": GeometryType(int(geometry.type)).name,
        "flags": format_flags(geometry.flags),
        "primitives": geometry.primitive_count,
        "vertex_format": triangles.vertex_format.name if triangles is not None else None,
        "index_format": triangles.index_format.name
        if triangles is not None and triangles.indices is not None
        else None,
    }
