"""Read AG's News (Zhang et al. 2015): titles and descriptions of articles in four classes.

One of every twenty training documents is for validation.
"""

import csv
from collections.abc import Iterator
from pathlib import Path

from raretokens.errors import UserError
from reproduction.corpora.splits import Document, hold_out, require_file

SERVES = {"documents": ("ag-news",)}
LANGUAGES = {"text": "en"}
CLASSES = ("world", "sports", "business", "sci-tech")  # classes 1 to 4 of the files
EVERY = 20  # one of this number of training documents is for validation


def documents(raw: Path, corpus: str) -> dict[str, list[Document]]:
    """Return split -> (class, text) of each article."""
    return hold_out(*(_rows(raw / corpus / f"{split}.csv") for split in ("train", "test")), EVERY)


def _rows(file: Path) -> Iterator[Document]:
    with require_file(file).open(encoding="utf-8", newline="") as stream:
        for number, row in enumerate(csv.reader(stream), 1):
            if len(row) != 3 or row[0] not in ("1", "2", "3", "4"):
                raise UserError(f"{file}: row {number} is not a class from 1 to 4, a title and a description")
            # The files have a backslash for each line break of the web page.
            yield CLASSES[int(row[0]) - 1], f"{row[1]} {row[2]}".replace("\\", " ")
