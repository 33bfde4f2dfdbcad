"""Read 1,797 handwritten digits of 8 x 8 pixels (Alpaydin and Kaynak, UCI) from scikit-learn's package.

Of every ten images, seven are for training, one for validation and two for testing.
"""

import gzip
from pathlib import Path

import numpy as np

from raretokens.corpora.splits import require_file
from raretokens.errors import UserError

SERVES = {"images": ("digits",)}
LANGUAGES = {"text": "digits"}
PIXELS, LEVELS = 64, 16
PARTS = {"train": (0, 1, 2, 3, 4, 5, 6), "valid": (7,), "test": (8, 9)}  # split -> index of an image, modulo 10


def images(raw: Path, corpus: str) -> dict[str, tuple[np.ndarray, list[str]]]:
    """Return split -> (pixels, classes); pixels: images x pixels, 0 to 255."""
    file = raw / corpus / "digits.csv.gz"
    with gzip.open(require_file(file), "rt", encoding="ascii") as stream:
        rows = np.array([_row(file, number, line) for number, line in enumerate(stream, 1)])
    pixels, classes = np.round(rows[:, :PIXELS] * 255 / LEVELS), rows[:, PIXELS].astype(str).tolist()
    kept = {name: np.flatnonzero(np.isin(np.arange(len(rows)) % 10, part)) for name, part in PARTS.items()}
    return {name: (pixels[ids], [classes[i] for i in ids]) for name, ids in kept.items()}


def _row(file: Path, number: int, line: str) -> list[int]:
    try:
        row = [int(value) for value in line.split(",")]
    except ValueError:
        row = []
    if len(row) != PIXELS + 1 or not all(0 <= value <= LEVELS for value in row):
        raise UserError(f"{file}: line {number} is not {PIXELS} pixels from 0 to {LEVELS} and a digit")
    return row
