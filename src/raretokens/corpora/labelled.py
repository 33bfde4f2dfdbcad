"""Documents and images with a class each: reading what they come in, holding some out, and writing the splits."""

import json
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from raretokens.corpora.splits import lines
from raretokens.errors import UserError

Document = tuple[str, str]  # class, text


def held_out(rows: Iterable, every: int) -> dict[str, list]:
    """`train` and `valid`: of every so many rows the first is for validation."""
    parts: dict[str, list] = {"train": [], "valid": []}
    for number, row in enumerate(rows):
        parts["train" if number % every else "valid"].append(row)
    return parts


def rows_of(file: Path) -> Iterator[dict]:
    """Objects of a file with one in JSON a line. UserError where a line is none."""
    for number, line in enumerate(lines(file), 1):
        try:
            yield json.loads(line)
        except ValueError:
            raise UserError(f"{file}: line {number} is not JSON") from None


def archived(archive: Path, folders: tuple[str, ...], encoding: str) -> Iterator[tuple[str, str]]:
    """Path and text of each regular file of a tar archive that lies below one of the folders; nothing is unpacked."""
    try:
        with tarfile.open(archive, "r:*") as opened:
            for member in opened:
                name = member.name.removeprefix("./")
                if member.isreg() and name.startswith(folders):
                    yield name, opened.extractfile(member).read().decode(encoding)
    except (tarfile.TarError, OSError, EOFError, UnicodeDecodeError) as error:
        raise UserError(f"{archive}: not a readable archive ({type(error).__name__})") from None


def write_documents(out: Path, split: str, documents: Iterable[Document]) -> dict:
    """<split>.txt, a document a line with single blanks, and <split>.labels, its class; those without a word are dropped."""
    count = tokens = empty = 0
    with (
        (out / f"{split}.txt").open("w", encoding="utf-8", newline="\n") as texts,
        (out / f"{split}.labels").open("w", encoding="utf-8", newline="\n") as labels,
    ):
        for label, text in documents:
            words = text.split()
            if not words:
                empty += 1
                continue
            texts.write(" ".join(words) + "\n")
            labels.write(label + "\n")
            count, tokens = count + 1, tokens + len(words)
    if not count:
        raise UserError(f"{split}: no document in it")
    return {"lines": count, "tokens": {"text": tokens}, "dropped": {"empty": empty}}


def write_images(out: Path, split: str, pixels: np.ndarray, classes: list[str]) -> dict:
    """<split>.images, a byte a pixel (0 to 255), image after image and row after row, and <split>.txt, a class a line.

    pixels: images x pixels. The classes are the text: they are what a classifier has a table of.
    """
    if not len(pixels) or len(pixels) != len(classes):
        raise UserError(f"{split}: {len(pixels)} images and {len(classes)} classes; they must be equal, and some")
    (out / f"{split}.images").write_bytes(pixels.astype(np.uint8).tobytes())
    (out / f"{split}.txt").write_text("".join(f"{name}\n" for name in classes), encoding="utf-8", newline="\n")
    return {"lines": len(classes), "tokens": {"text": len(classes)}, "dropped": {}}
