"""Alpha masks of glTF materials: alphaMode, alphaCutoff, baseColorFactor, baseColorTexture and its coordinates.

Only non-opaque geometry gets a material, because any-hit runs nowhere else. A material of mode BLEND can be masked as
well, with glTF's default cut-off, but only a file with MASK opens with ALPHA_MASK. Nothing here stops a file from
loading: what is damaged or missing is left out with a warning, and the material does without it, as glTF has it for a
texture that is not given. Alpha is linear whatever the image's colours are.
"""

from __future__ import annotations

import io
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtviewer.errors import FileFormatError
from rtviewer.io.gltf_data import GltfData
from rtviewer.io.gltf_document import Material as GltfMaterial
from rtviewer.io.gltf_document import Primitive
from rtviewer.scene.material import AlphaTexture, Material, Wrap

WRAPS = {10497: Wrap.REPEAT, 33071: Wrap.CLAMP_TO_EDGE, 33648: Wrap.MIRRORED_REPEAT}
NEAREST = (9728, 9984, 9986)
"""magFilter or minFilter values that take one texel of a level."""
MAX_PIXELS = 1 << 28
DEFAULT_CUTOFF = 0.5
TRANSFORM = "KHR_texture_transform"
IMAGE_EXTENSIONS = ("EXT_texture_webp", "KHR_texture_basisu", "MSFT_texture_dds")


class _Unusable(Exception):
    """Why a part of a material is left out."""


class AlphaMaterials:
    """Materials of one document; images are decoded once."""

    def __init__(self, source: GltfData, warnings: list[str]) -> None:
        self._source, self._warnings = source, warnings
        self._alphas: dict[int, NDArray[np.uint8] | None] = {}
        self._said: set[str] = set()
        self.met_mask = False
        """Whether a geometry of mode MASK was met."""

    def of(
        self, primitive: Primitive, place: str, corners: NDArray[np.integer[Any]], vertex_count: int
    ) -> Material | None:
        """The material of a primitive whose triangles have vertices ``corners`` (m, 3); None where it is opaque."""
        number = primitive.material
        if number is None or not len(corners):
            return None
        model = self._source.document.materials[number]
        if model.alpha_mode == "OPAQUE":
            return None
        where = f"materials.{number}"
        surface = model.surface if isinstance(model.surface, dict) else {}
        cutoff = self._number(
            model.cutoff if model.alpha_mode == "MASK" else None, DEFAULT_CUTOFF, f"{where}.alphaCutoff"
        )
        factor = self._factor(surface.get("baseColorFactor"), f"{where}.pbrMetallicRoughness.baseColorFactor")
        texture_info = surface.get("baseColorTexture")
        texture, texcoords = None, None
        try:
            if texture_info is not None:
                texture = self._texture(texture_info, f"{where}.pbrMetallicRoughness.baseColorTexture")
        except (_Unusable, FileFormatError) as error:
            self._say(f"{error}; the mask does without it")
        info = texture_info if isinstance(texture_info, dict) else {}
        try:
            texcoords = self._texcoords(primitive, info, place, corners, vertex_count)
        except (_Unusable, FileFormatError) as error:
            self._say(f"{error}; the texture plays no part")
        return Material(self._has_mask(model, where), cutoff, factor, texture, texcoords)

    def _has_mask(self, model: GltfMaterial, where: str) -> bool:
        self.met_mask = self.met_mask or model.alpha_mode == "MASK"
        known = model.alpha_mode in ("MASK", "BLEND")
        if not known:
            self._say(f"{where}.alphaMode: {model.alpha_mode[:20]!r} is neither OPAQUE, MASK nor BLEND: no mask")
        return known

    def _say(self, text: str) -> None:
        name = self._source.path.name
        line = text if text.startswith((str(self._source.path), f"{name}:")) else f"{name}: {text}"
        if line not in self._said:
            self._said.add(line)
            self._warnings.append(line)

    def _number(self, value: Any, default: float, where: str) -> float:
        if _is_number(value):
            return float(value)
        if value is not None:
            self._say(f"{where} is not a number: {default} is used")
        return default

    def _factor(self, value: Any, where: str) -> float:
        if value is None:
            return 1.0
        if isinstance(value, list) and len(value) == 4 and _is_number(value[3]):
            return float(value[3])
        self._say(f"{where} is not four numbers: 1 is used")
        return 1.0

    def _texture(self, info: Any, where: str) -> AlphaTexture | None:
        """None where the image has no alpha."""
        textures, index = self._source.document.textures, _index(info, "index", where)
        texture = _item(textures, index, "texture", where)
        image = texture.get("source")
        for name in IMAGE_EXTENSIONS:
            other = texture.get("extensions", {})
            other = other.get(name) if isinstance(other, dict) else None
            if image is None and isinstance(other, dict):
                image = other.get("source")
        if image is None:
            return None
        alpha = self._alpha(_index({"source": image}, "source", f"textures.{index}"), f"textures.{index}")
        if alpha is None:
            return None
        sampler: dict[str, Any] = {}
        if texture.get("sampler") is not None:
            number = _index(texture, "sampler", f"textures.{index}")
            sampler = _item(self._source.document.samplers, number, "sampler", f"textures.{index}")
        wraps = [self._wrap(sampler.get(key, 10497), f"{key} of textures.{index}") for key in ("wrapS", "wrapT")]
        nearest = sampler.get("magFilter") in NEAREST
        return AlphaTexture(alpha, wraps[0], wraps[1], nearest)

    def _wrap(self, value: Any, where: str) -> Wrap:
        if isinstance(value, int) and value in WRAPS:
            return WRAPS[value]
        self._say(f"{where} is {str(value)[:20]}, which is no wrap mode: it repeats")
        return Wrap.REPEAT

    def _alpha(self, index: int, where: str) -> NDArray[np.uint8] | None:
        image = _item(self._source.document.images, index, "image", where)
        if index not in self._alphas:
            self._alphas[index] = None  # a second reference to a damaged image is not read again
            self._alphas[index] = self._decode(image, f"images.{index}")
        return self._alphas[index]

    def _decode(self, image: dict[str, Any], where: str) -> NDArray[np.uint8] | None:
        uri, view = image.get("uri"), image.get("bufferView")
        if isinstance(uri, str):
            data = self._source.file_or_data(uri, where)
        elif view is not None:
            data = self._source.view_bytes(_index(image, "bufferView", where), where)
        else:
            raise _Unusable(f"{where} has neither a uri nor a bufferView")
        return decode_alpha(data, where)

    def _texcoords(
        self,
        primitive: Primitive,
        info: dict[str, Any],
        place: str,
        corners: NDArray[np.integer[Any]],
        vertex_count: int,
    ) -> NDArray[np.float32] | None:
        """(m, 3, 2) float32 of every corner, moved by KHR_texture_transform."""
        extensions = info.get("extensions")
        transform = extensions.get(TRANSFORM) if isinstance(extensions, dict) else None
        transform = transform if isinstance(transform, dict) else {}
        which = transform.get("texCoord", info.get("texCoord", 0))
        if not isinstance(which, int) or isinstance(which, bool):
            raise _Unusable(f"{place}: texCoord {str(which)[:20]!r} is not a number")
        accessor = primitive.attributes.get(f"TEXCOORD_{which}")
        if accessor is None:
            if info:
                raise _Unusable(f"{place}: its texture needs TEXCOORD_{which}, which is not there")
            return None
        values = self._source.floats(accessor, f"{place}.TEXCOORD_{which}", ("VEC2",))
        if len(values) < vertex_count:
            counts = f"{len(values)} for {vertex_count} vertices"
            raise _Unusable(f"{place}: TEXCOORD_{which} is too short, {counts}")
        self._source.charge(24 * len(corners), place)
        with np.errstate(all="ignore"):
            uv = self._moved(values, transform, place)[corners.astype(np.int64)].astype(np.float32)
        bad = ~np.isfinite(uv)
        if bad.any():
            self._say(f"{place}: TEXCOORD_{which} holds numbers that are not finite: 0 is used")
            uv[bad] = 0
        return np.ascontiguousarray(uv)

    def _moved(self, uv: NDArray[np.float64], transform: dict[str, Any], place: str) -> NDArray[np.float64]:
        """KHR_texture_transform: scale, then turn, then offset."""
        if not transform:
            return uv
        offset, scale = (
            self._pair(transform.get(key), default, f"{place}: {TRANSFORM}.{key}")
            for key, default in (("offset", 0.0), ("scale", 1.0))
        )
        angle = self._number(transform.get("rotation"), 0.0, f"{place}: {TRANSFORM}.rotation")
        cosine, sine = math.cos(angle), math.sin(angle)
        x, y = uv[:, 0] * scale[0], uv[:, 1] * scale[1]
        return np.stack([cosine * x + sine * y + offset[0], -sine * x + cosine * y + offset[1]], axis=1)

    def _pair(self, value: Any, default: float, where: str) -> tuple[float, float]:
        if isinstance(value, list) and len(value) == 2 and all(_is_number(part) for part in value):
            return float(value[0]), float(value[1])
        if value is not None:
            self._say(f"{where} is not two numbers: {default} is used")
        return default, default


def decode_alpha(data: bytes, where: str) -> NDArray[np.uint8] | None:
    """(height, width) uint8 of an image's alpha, None where it has none. Raises _Unusable for a damaged image."""
    import warnings

    from PIL import Image

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            with Image.open(io.BytesIO(data)) as image:
                if image.width * image.height > MAX_PIXELS:
                    raise _Unusable(f"{where}: {image.width} x {image.height} is too large")
                image.load()
                if not image.has_transparency_data:
                    return None
                alpha = np.asarray(image.convert("RGBA").getchannel("A"), np.uint8)
    except _Unusable:
        raise
    except Exception as error:  # Pillow raises whatever its decoders meet
        raise _Unusable(f"{where}: not an image that can be read: {' '.join(str(error).split())[:120]}") from error
    return np.ascontiguousarray(alpha)


def _is_number(value: Any) -> bool:
    return (
        isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and (abs(value) < 1e30)
    )


def _index(table: Any, key: str, where: str) -> int:
    value = table.get(key) if isinstance(table, dict) else None
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise _Unusable(f"{where}.{key} is not a number of an item")
    return value


def _item(items: Any, index: int, what: str, where: str) -> dict[str, Any]:
    count = len(items) if isinstance(items, list) else 0
    if index >= count or not isinstance(items[index], dict):
        raise _Unusable(f"{where} refers to {what} {index}, there are {count}")
    found: dict[str, Any] = items[index]
    return found
