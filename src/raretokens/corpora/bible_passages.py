"""Read passages of the World English Bible in four classes: law and history, wisdom, prophets, New Testament.

A document is one verse, or up to four consecutive verses of a chapter. Whole chapters are held out (bible.py), so that no test
document is adjacent to a training document. Books are those of the Protestant canon, from 1 (Genesis) to 66 (Revelation).
"""

from bisect import bisect
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from raretokens.corpora.bible import split, translation
from raretokens.corpora.splits import Document

SERVES = {"documents": ("bible-passages", "bible-verses")}
LANGUAGES = {"text": "en"}
VERSES = {"bible-passages": 4, "bible-verses": 1}  # corpus -> maximum verses of a document
CLASSES = ("law-and-history", "wisdom", "prophets", "new-testament")
FIRST_BOOKS = (18, 23, 40)  # first books of the second to fourth class: Job, Isaiah and Matthew


def documents(raw: Path, corpus: str) -> dict[str, Iterator[Document]]:
    """Return split -> (class, text) of each passage."""
    verses = translation(raw / "bible-web")
    return {name: _passages(verses, numbers, VERSES[corpus]) for name, numbers in split(verses).items()}


def _passages(verses: dict[int, str], numbers: list[int], length: int) -> Iterator[Document]:
    for chapter, inside in groupby(numbers, lambda number: number // 1000):
        texts = [verses[number] for number in inside]
        for first in range(0, len(texts), length):
            yield CLASSES[bisect(FIRST_BOOKS, chapter // 1000)], " ".join(texts[first : first + length])
