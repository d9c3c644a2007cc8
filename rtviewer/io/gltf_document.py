"""The parts of a glTF 2.0 document that matter for geometry, as models: what is read, its types and defaults.

Unknown keys are left alone, as glTF asks; a wrong type or a missing key names its place.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Number = Annotated[float, Field(allow_inf_nan=True)]
Position = Annotated[int, Field(ge=0, lt=1 << 31)]
"""An index into another list."""
Bytes = Annotated[int, Field(ge=0, lt=1 << 53)]
Vector3 = tuple[Number, Number, Number]
Vector4 = tuple[Number, Number, Number, Number]


class GltfModel(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, populate_by_name=True)
    extensions: dict[str, Any] = {}


class Asset(GltfModel):
    version: str = "2.0"


class Buffer(GltfModel):
    byte_length: Bytes = Field(alias="byteLength")
    uri: str | None = None


class BufferView(GltfModel):
    buffer: Position
    byte_length: Bytes = Field(alias="byteLength")
    byte_offset: Bytes = Field(0, alias="byteOffset")
    byte_stride: Annotated[int, Field(ge=1, le=1 << 16)] | None = Field(None, alias="byteStride")


class SparseIndices(GltfModel):
    buffer_view: Position = Field(alias="bufferView")
    byte_offset: Bytes = Field(0, alias="byteOffset")
    component_type: int = Field(alias="componentType")


class SparseValues(GltfModel):
    buffer_view: Position = Field(alias="bufferView")
    byte_offset: Bytes = Field(0, alias="byteOffset")


class Sparse(GltfModel):
    count: Bytes
    indices: SparseIndices
    values: SparseValues


class Accessor(GltfModel):
    count: Bytes
    type: str
    component_type: int = Field(alias="componentType")
    buffer_view: Position | None = Field(None, alias="bufferView")
    byte_offset: Bytes = Field(0, alias="byteOffset")
    normalized: bool = False
    sparse: Sparse | None = None


class Primitive(GltfModel):
    attributes: dict[str, Position]
    indices: Position | None = None
    material: Position | None = None
    mode: int = 4
    targets: list[Any] = []


class Mesh(GltfModel):
    primitives: list[Primitive]
    name: str = ""


class Material(GltfModel):
    alpha_mode: str = Field("OPAQUE", alias="alphaMode")
    double_sided: bool = Field(False, alias="doubleSided")
    # What masks are made of is judged in ``gltf_materials``: no mistake there keeps a file from loading.
    cutoff: Any = Field(None, alias="alphaCutoff")
    surface: Any = Field(None, alias="pbrMetallicRoughness")


class Node(GltfModel):
    name: str = ""
    children: list[Position] = []
    mesh: Position | None = None
    camera: Position | None = None
    skin: Position | None = None
    matrix: Annotated[list[Number], Field(min_length=16, max_length=16)] | None = None
    translation: Vector3 = (0.0, 0.0, 0.0)
    rotation: Vector4 = (0.0, 0.0, 0.0, 1.0)
    scale: Vector3 = (1.0, 1.0, 1.0)


class Perspective(GltfModel):
    yfov: Number


class Orthographic(GltfModel):
    ymag: Number


class Camera(GltfModel):
    type: Literal["perspective", "orthographic"]
    name: str = ""
    perspective: Perspective | None = None
    orthographic: Orthographic | None = None


class Scene(GltfModel):
    nodes: list[Position] = []
    name: str = ""


class Document(GltfModel):
    asset: Asset = Asset()
    accessors: list[Accessor] = []
    buffers: list[Buffer] = []
    buffer_views: list[BufferView] = Field([], alias="bufferViews")
    cameras: list[Camera] = []
    images: Any = None
    materials: list[Material] = []
    meshes: list[Mesh] = []
    nodes: list[Node] = []
    samplers: Any = None
    scenes: list[Scene] = []
    scene: Position | None = None
    textures: Any = None
    extensions_used: list[str] = Field([], alias="extensionsUsed")
    extensions_required: list[str] = Field([], alias="extensionsRequired")
