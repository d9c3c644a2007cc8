"""The legend of a picture as pixels below it, for files: title, unit, and the palette with ticks or named colours."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rtviewer.shade.legend import Legend, scale_image

if TYPE_CHECKING:
    from PIL.ImageDraw import ImageDraw
    from PIL.ImageFont import FreeTypeFont, ImageFont

    Font = FreeTypeFont | ImageFont

PAPER = (24, 26, 30)
INK = (222, 224, 228)
MUTED = (150, 154, 162)
TEXT_SIZE = 13
MARGIN = 10
BAR_HEIGHT = 12
LINE = 20
LEAST_WIDTH = 320
"""A legend is not narrower than this, so that its texts have room; a narrower picture gets margins."""


def with_legend(rgba: NDArray[np.uint8], legend: Legend, caption: str = "") -> NDArray[np.uint8]:
    """A picture (height, width, 4) uint8 with its legend below: (more rows, width or LEAST_WIDTH, 4) uint8, opaque.

    ``caption``: a line more, such as the scene and the flag word. The picture's own pixels stay as they are.
    """
    from PIL import Image, ImageDraw, ImageFont

    height, width = rgba.shape[:2]
    font = ImageFont.load_default(TEXT_SIZE)
    full = max(width, LEAST_WIDTH)
    rows = _entry_rows(legend, font, full - 2 * MARGIN)
    below = BAR_HEIGHT + LINE if legend.palette else LINE * len(rows)
    strip = MARGIN + LINE + below + (LINE if caption else 0) + MARGIN // 2
    sheet = Image.new("RGBA", (full, height + strip), (*PAPER, 255))
    sheet.paste(Image.fromarray(np.ascontiguousarray(rgba)), ((full - width) // 2, 0))
    draw = ImageDraw.Draw(sheet)
    y = height + MARGIN
    draw.text((MARGIN, y), legend.title, INK, font)
    if legend.unit:
        draw.text((MARGIN + draw.textlength(f"{legend.title}  ", font), y), f"({legend.unit})", MUTED, font)
    y += LINE
    if legend.palette:
        _scale(sheet, draw, font, legend, y, full)
    else:
        _entries(draw, font, rows, y)
    if caption:
        draw.text((MARGIN, y + below), caption, MUTED, font)
    return np.array(sheet)


def _scale(sheet: object, draw: ImageDraw, font: Font, legend: Legend, y: int, width: int) -> None:
    from PIL import Image

    length = width - 2 * MARGIN
    sheet.paste(Image.fromarray(scale_image(legend.palette, length, BAR_HEIGHT)), (MARGIN, y))  # type: ignore[attr-defined]
    free_from = 0.0
    for tick in sorted(legend.ticks, key=lambda tick: tick.position not in (0.0, 1.0)):  # the ends are never left out
        x = MARGIN + round(tick.position * (length - 1))
        text = draw.textlength(tick.text, font)
        left = min(max(x - text / 2, MARGIN), width - MARGIN - text)
        is_end = tick.position in (0.0, 1.0)
        if not is_end and (left < free_from or left + text + 6 > _last_left(draw, font, legend, width)):
            continue
        draw.line([(x, y + BAR_HEIGHT), (x, y + BAR_HEIGHT + 3)], MUTED)
        draw.text((left, y + BAR_HEIGHT + 3), tick.text, INK, font)
        if tick.position < 1.0:
            free_from = left + text + 6


def _last_left(draw: ImageDraw, font: Font, legend: Legend, width: int) -> float:
    """Where the text of the high end begins."""
    return width - MARGIN - draw.textlength(legend.ticks[-1].text, font)


Entry = tuple[float, str, tuple[int, int, int] | None]
"""Where it begins, its text, and its colour; None for a text alone."""


def _entry_rows(legend: Legend, font: Font, width: int) -> list[list[Entry]]:
    """Named colours, and the note, set in rows of ``width`` pixels."""
    texts: list[tuple[str, tuple[int, int, int] | None]] = [*legend.entries]
    if legend.note:
        texts.append((legend.note, None))
    rows: list[list[Entry]] = [[]]
    x = 0.0
    for text, colour in texts:
        taken = font.getlength(text) + (18 if colour is not None else 0)
        if rows[-1] and x + taken > width:
            rows.append([])
            x = 0.0
        rows[-1].append((x, text, colour))
        x += taken + 16
    return [row for row in rows if row]


def _entries(draw: ImageDraw, font: Font, rows: list[list[Entry]], y: int) -> None:
    for row in rows:
        for x, text, colour in row:
            left = MARGIN + x
            if colour is not None:
                draw.rectangle([left, y + 2, left + 11, y + 13], colour)
                left += 18
            draw.text((left, y), text, INK if colour is not None else MUTED, font)
        y += LINE
