"""Read MNIST (LeCun and Cortes), handwritten digits of 28 x 28 pixels, from the files of LeCun's web page.

`mnist` is the whole data set, with the last 5,000 training images for validation. `mnist-t10k` has the 10,000 test images only.
Of every ten of these images, eight are for training, one for validation and one for testing.
"""

import struct
from pathlib import Path

import numpy as np

from raretokens.corpora.splits import require_file
from raretokens.errors import UserError

SERVES = {"images": ("mnist", "mnist-t10k")}
LANGUAGES = {"text": "digits"}
VALID = 5000
PARTS = {"train": (0, 1, 2, 3, 4, 5, 6, 7), "valid": (8,), "test": (9,)}  # split -> index of an image, modulo 10
Images = tuple[np.ndarray, list[str]]  # pixels (images x pixels, 0 to 255) and classes


def images(raw: Path, corpus: str) -> dict[str, Images]:
    """Return split -> (pixels, classes); pixels: images x pixels, 0 to 255."""
    folder = raw / corpus
    pixels, classes = _images(folder, "t10k")
    if corpus == "mnist-t10k":
        positions = np.arange(len(pixels)) % 10
        return {name: _some(pixels, classes, np.isin(positions, part)) for name, part in PARTS.items()}
    first, labels = _images(folder, "train")
    is_valid = np.arange(len(first)) >= len(first) - VALID
    splits = {name: _some(first, labels, kept) for name, kept in (("train", ~is_valid), ("valid", is_valid))}
    return splits | {"test": (pixels, classes)}


def _some(pixels: np.ndarray, classes: list[str], kept: np.ndarray) -> Images:
    return pixels[kept], [classes[i] for i in np.flatnonzero(kept)]


def _images(folder: Path, name: str) -> Images:
    pixels = _array(folder / f"{name}-images-idx3-ubyte", 3)
    labels = _array(folder / f"{name}-labels-idx1-ubyte", 1)
    return pixels.reshape(len(pixels), -1), labels.astype(str).tolist()


def _array(file: Path, dimensions: int) -> np.ndarray:
    """Read an idx file of bytes.

    The header has the bytes 0, 0, 8 (type: byte) and the number of dimensions, then each dimension as big-endian uint32.
    """
    content = require_file(file).read_bytes()
    start = 4 + 4 * dimensions
    shape = struct.unpack(f">{dimensions}I", content[4:start]) if len(content) >= start else ()
    if content[:4] != bytes((0, 0, 8, dimensions)) or len(content) - start != int(np.prod(shape)):
        raise UserError(f"{file}: not an idx file of bytes in {dimensions} dimensions")
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)
