"""Read two English Bible translations, aligned by verse: World English (target, language model) and Young's (source).

The documents are passages of World English in four classes: law and history, wisdom, prophets, New Testament. A document is one
verse, or up to four consecutive verses of a chapter.

Each file of the package contains one call `Bible(version, text, starts, ends, ...)`: the whole text, and start and end of
each verse by its number (book * 1,000,000 + chapter * 1,000 + verse). The file is parsed, never imported.
"""

import ast
import re
from bisect import bisect
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from raretokens.errors import UserError
from reproduction.corpora.splits import Document, LongestAndRatio, require_file

SERVES = {"text": ("bible",), "bitext": ("bible",), "documents": ("bible-passages", "bible-verses")}
LANGUAGES = {"text": "en", "source": "en-ylt", "target": "en"}

# Hold out whole chapters, spread evenly over all books, so that held-out verses keep their context. Of every 20 chapters
# in the order of the text, one is for validation and one for testing.
STRIDE, VALID, TEST = 20, 9, 19

# In World English, the heading of a psalm is at the end of the previous verse.
PSALM = re.compile(r"\s{2,}(?:BOOK [IVX]+\s+)?Psalm \d+\b(.*)$", re.DOTALL)
# Names of Hebrew letters above the stanzas of Psalm 119: "[Beth.]" before a verse (Young's), "SIN AND SHIN" after a verse
# (World English).
STANZA = re.compile(r"^\s*\[[A-Z][a-z]+\.\]|\s+[A-Z]{3,}(?: [A-Z]{3,})*\s*$")
PSALM_119 = range(19_118_029, 19_120_000)

VERSES = {"bible-passages": 4, "bible-verses": 1}  # corpus of documents -> maximum verses of a document
CLASSES = ("law-and-history", "wisdom", "prophets", "new-testament")
# First books of the second to fourth class: Job, Isaiah and Matthew. Books have the numbers of the Protestant canon, from 1
# (Genesis) to 66 (Revelation).
FIRST_BOOKS = (18, 23, 40)


def text(raw: Path, corpus: str) -> dict[str, Iterator[str]]:
    """Return split -> lines of World English, with one verse per line."""
    verses = translation(raw / "bible-web")
    parts = split(verses)
    return {name: (verses[number] for number in numbers) for name, numbers in parts.items()}


def bitext(raw: Path, corpus: str) -> dict[str, Iterator[tuple[str | None, str | None]]]:
    """Return split -> (Young's, World English) pairs of verses; None where a translation lacks the verse number."""
    source, target = translation(raw / "bible-ylt"), translation(raw / "bible-web")
    parts = split(source | target)
    return {name: ((source.get(number), target.get(number)) for number in numbers) for name, numbers in parts.items()}


def documents(raw: Path, corpus: str) -> dict[str, Iterator[Document]]:
    """Return split -> (class, text) of each passage."""
    verses = translation(raw / "bible-web")
    return {name: _passages(verses, numbers, VERSES[corpus]) for name, numbers in split(verses).items()}


def _passages(verses: dict[int, str], numbers: list[int], length: int) -> Iterator[Document]:
    for chapter, inside in groupby(numbers, lambda number: number // 1000):
        texts = [verses[number] for number in inside]
        for first in range(0, len(texts), length):
            yield CLASSES[bisect(FIRST_BOOKS, chapter // 1000)], " ".join(texts[first : first + length])


def filters() -> dict[str, LongestAndRatio]:
    return {"train": LongestAndRatio(longest=250, ratio=3.0)}


def split(verses: dict[int, str]) -> dict[str, list[int]]:
    """Return the verse numbers of train, valid and test, in the order of the text."""
    parts: dict[str, list[int]] = {"train": [], "valid": [], "test": []}
    chapters = {chapter: position for position, chapter in enumerate(sorted({number // 1000 for number in verses}))}
    for number in sorted(verses):
        position = chapters[number // 1000] % STRIDE
        parts["valid" if position == VALID else "test" if position == TEST else "train"].append(number)
    return parts


def translation(folder: Path) -> dict[int, str]:
    """Return verse number -> cleaned verse, in the order of the text."""
    verses, heading = {}, ""
    for number, text in sorted(_parse(folder / "verses.py.txt").items()):
        text, follows = _without_heading(text)
        if number in PSALM_119:
            text, follows = STANZA.sub("", text), STANZA.sub("", follows)
        verses[number] = clean(f"{heading} {text}")
        heading = follows
    return verses


def clean(text: str) -> str:
    """Remove brackets and blanks before punctuation, replace backticks by apostrophes, and collapse white space."""
    text = re.sub(r"[\[\]]", "", text).replace("`", "'")
    return re.sub(r"(?<=\w) (?=[,.;:!?])", "", " ".join(text.split()))


def _without_heading(text: str) -> tuple[str, str]:
    match = PSALM.search(text)
    return (text[: match.start()], match.group(1)) if match else (text, "")


def _parse(file: Path) -> dict[int, str]:
    require_file(file)
    try:
        tree = ast.parse(file.read_text(encoding="utf-8"))
        assigned = [node.value for node in tree.body if isinstance(node, ast.Assign)]
        call = next(node for node in assigned if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Bible")
        text, starts, ends = (ast.literal_eval(argument) for argument in call.args[1:4])
        return {int(number): text[start : ends[number]] for number, start in starts.items()}
    except (SyntaxError, ValueError, KeyError, TypeError, AttributeError, StopIteration):
        raise UserError(f"{file}: not a translation as pythonbible writes it") from None
