"""Figures on the page, as data addresses."""

import base64
import io
from pathlib import Path
from typing import Any

from PIL import Image

LARGEST_SVG = 30_000  # bytes; a larger drawing stands on the page as pixels, so that the page stays below 2 MB
COLOURS = 64


def section(figure: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The picture in an image, so that the names inside two drawings cannot clash."""
    drawing = folder / f"{figure['id']}.svg"
    small = drawing.stat().st_size <= LARGEST_SVG
    with Image.open(folder / f"{figure['id']}.png") as pixels:
        width, height = pixels.size
        data = drawing.read_bytes() if small else _webp(pixels)
    return {
        **figure,
        "width": width,
        "height": height,
        "drawn": len((folder / f"{figure['id']}.csv").read_bytes().splitlines()) > 1,
        "image": f"data:image/{'svg+xml' if small else 'webp'};base64,{base64.b64encode(data).decode('ascii')}",
    }


def _webp(pixels: Image.Image) -> bytes:
    """The pixels in a third of the bytes of PNG: of the many shades of overlapping points the nearest of COLOURS."""
    packed = io.BytesIO()
    few = pixels.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    few.convert("RGB").save(packed, "WEBP", lossless=True, quality=80)
    return packed.getvalue()
