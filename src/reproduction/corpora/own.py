"""Read a user's own corpus, from the plain-text files listed under `own` in params.yaml."""

import codecs
from collections.abc import Iterator
from pathlib import Path

from raretokens.errors import UserError
from raretokens.files import atomic_write
from raretokens.languages import estimated_words
from reproduction.corpora.splits import LongestAndRatio, lines, pairs

SERVES = {"text": ("own",), "bitext": ("own",)}
LANGUAGES = {"text": "own", "source": "own", "target": "own"}
SPLITS = ("train", "valid", "test")
LM = tuple(f"lm-{split}" for split in SPLITS)
NMT = tuple(f"nmt-{split}-{side}" for split in SPLITS for side in ("source", "target"))


def take(name: str, file: Path, into: Path) -> None:
    """Check a file listed under `own` and copy it without a byte-order mark.

    Raises:
        UserError: The file is missing or a folder, has no text, is not UTF-8 or contains NUL.
    """
    if not file.is_file():
        what = "is no file" if file.exists() else "no such file"
        raise UserError(f"own.{name}: {file}: {what}; allowed: a plain-text file")
    with atomic_write(into) as part:
        if not _copy_text(file, part, f"own.{name}: {file}"):
            raise UserError(f"own.{name}: {file}: no text in it")


def _copy_text(file: Path, into: Path, where: str) -> bool:
    """Copy the file without a byte-order mark, and return whether it contains any text."""
    offset, has_text = 0, False
    with file.open("rb") as stream, into.open("wb") as out:
        for line in stream:  # a newline byte is never part of another UTF-8 character
            try:
                has_text |= bool(line.decode("utf-8").strip("\ufeff \t\r\n"))
            except UnicodeDecodeError as error:
                raise UserError(f"{where}: not UTF-8 at byte {offset + error.start}") from None
            if b"\0" in line:  # valid UTF-8, but a sign of UTF-16, and subword models would drop it
                raise UserError(f"{where}: a NUL at byte {offset + line.index(0)}: no plain text, or UTF-16")
            out.write(line.removeprefix(codecs.BOM_UTF8) if offset == 0 else line)
            offset += len(line)
    return has_text


def text(raw: Path, corpus: str) -> dict[str, Iterator[str]]:
    files = _files(raw, LM)
    return {split: lines(files[f"lm-{split}"]) for split in SPLITS}


def bitext(raw: Path, corpus: str) -> dict[str, Iterator[tuple[str, str]]]:
    files = _files(raw, NMT)
    return {split: pairs(files[f"nmt-{split}-source"], files[f"nmt-{split}-target"]) for split in SPLITS}


def filters() -> dict[str, LongestAndRatio]:
    return {"train": LongestAndRatio(longest=250, ratio=9.0, words=estimated_words)}


def has_test(raw: Path, name: str) -> bool:
    return any((raw / "own" / f"nmt-{name}-{side}").exists() for side in ("source", "target"))


def test(raw: Path, name: str) -> Iterator[tuple[str, str]]:
    keys = (f"nmt-{name}-source", f"nmt-{name}-target")
    files = _files(raw, keys)
    return pairs(files[keys[0]], files[keys[1]])


def _files(raw: Path, keys: tuple[str, ...]) -> dict[str, Path]:
    files = {key: raw / "own" / key for key in keys}
    missing = [key for key, file in files.items() if not file.exists()]
    if missing:
        lacking = f"own.{', own.'.join(missing)}: missing under `own:` in params.yaml"
        raise UserError(f"{lacking}; corpus own needs {', '.join(keys)}")
    return files
