"""Read images of handwritten digits: MNIST (LeCun and Cortes) and 1,797 digits of scikit-learn (Alpaydin and Kaynak, UCI).

`mnist` has 28 x 28 pixels, and the last 5,000 training images are for validation. `mnist-t10k` has its 10,000 test images only.
`digits` has 8 x 8 pixels. MOD_TEN splits the last two.
"""

import gzip
import struct
from pathlib import Path

import numpy as np

from raretokens.errors import UserError
from reproduction.corpora.splits import require_file

SERVES = {"images": ("digits", "mnist", "mnist-t10k")}
LANGUAGES = {"text": "digits"}
VALID = 5000  # validation images of mnist
# Corpus -> split -> number of an image, modulo 10.
MOD_TEN = {
    "digits": {"train": range(7), "valid": (7,), "test": (8, 9)},
    "mnist-t10k": {"train": range(8), "valid": (8,), "test": (9,)},
}
PIXELS, LEVELS = 64, 16  # pixels of an image of `digits`, and their largest value
Images = tuple[np.ndarray, np.ndarray]  # pixels (images x pixels, 0 to 255) and classes (strings)


def images(raw: Path, corpus: str) -> dict[str, Images]:
    """Return split -> (pixels, classes); pixels: images x pixels, 0 to 255."""
    folder = raw / corpus
    pixels, classes = _digits(folder / "digits.csv.gz") if corpus == "digits" else _mnist(folder, "t10k")
    if corpus in MOD_TEN:
        numbers = np.arange(len(pixels)) % 10
        kept = {name: np.isin(numbers, part) for name, part in MOD_TEN[corpus].items()}
        return {name: (pixels[rows], classes[rows]) for name, rows in kept.items()}
    first, labels = _mnist(folder, "train")
    train, valid = (first[:-VALID], labels[:-VALID]), (first[-VALID:], labels[-VALID:])
    return {"train": train, "valid": valid, "test": (pixels, classes)}


def _digits(file: Path) -> Images:
    with gzip.open(require_file(file), "rt", encoding="ascii") as stream:
        rows = np.array([_row(file, number, line) for number, line in enumerate(stream, 1)])
    return np.round(rows[:, :PIXELS] * 255 / LEVELS), rows[:, PIXELS].astype(str)


def _row(file: Path, number: int, line: str) -> list[int]:
    try:
        row = [int(value) for value in line.split(",")]
    except ValueError:
        row = []
    if len(row) != PIXELS + 1 or not all(0 <= value <= LEVELS for value in row):
        raise UserError(f"{file}: line {number} is not {PIXELS} pixels from 0 to {LEVELS} and a digit")
    return row


def _mnist(folder: Path, name: str) -> Images:
    pixels = _array(folder / f"{name}-images-idx3-ubyte", 3)
    labels = _array(folder / f"{name}-labels-idx1-ubyte", 1)
    return pixels.reshape(len(pixels), -1), labels.astype(str)


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
