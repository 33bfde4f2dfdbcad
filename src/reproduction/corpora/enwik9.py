"""Read enwik9 as plain words (a to z in lower case, digits as words) of the visible text of the articles.

The cleaning follows the description of "wikifil", the script that the author of enwik9 publishes. Tables, templates, references,
pictures (except captions), addresses and links to other languages are removed. The text of links is kept.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from reproduction.corpora.splits import lines

SERVES = {"text": ("enwik9",)}
LANGUAGES = {"text": "en"}
EVERY, HELD_OUT = 1000, {"valid": 998, "test": 999}  # split -> index of its lines in the file, modulo EVERY

DIGITS = dict(
    zip("0123456789", ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"], strict=True)
)
ENTITIES = (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&amp;", "&"))
MARKUP = tuple(
    (re.compile(pattern, re.IGNORECASE), instead)
    for pattern, instead in (
        (r"<ref[^<]*</ref>", ""),
        (r"<[^>]*>", ""),
        (r"\[https?:[^\] ]*", "["),  # an address, whose link text is kept
        (r"\|(?:thumb|left|right|center|\d+px)\b", ""),
        (r"\[\[image:[^\[\]]*\|", ""),
        (r"\[\[category:([^|\]]*)[^\]]*\]\]", r"[[\1]]"),
        (r"\[\[[a-z-]*:[^\]]*\]\]", ""),  # a link to the article in another language
        (r"\[\[[^|\]]*\|", "[["),
        (r"\{\{[^}]*\}\}", ""),
        (r"\{[^}]*\}", ""),
        (r"[\[\]]", ""),
        (r"&[^;\s]*;", " "),
    )
)
OTHER = re.compile(r"[^a-z]+")


def text(raw: Path, corpus: str) -> dict[str, Iterator[str]]:
    file = raw / corpus / "enwik9"
    return {split: _split(file, split) for split in ("train", "valid", "test")}


def _split(file: Path, split: str) -> Iterator[str]:
    train = set(range(EVERY)) - set(HELD_OUT.values())
    wanted = train if split == "train" else {HELD_OUT[split]}
    inside = False
    for number, line in enumerate(lines(file)):
        inside = inside or "<text " in line
        if inside and number % EVERY in wanted and "#redirect" not in line.lower() and (words := plain(line)):
            yield words
        inside = inside and "</text>" not in line


def plain(line: str) -> str:
    """Return the words of a line of the dump, separated by single blanks."""
    line = re.sub("<[^>]*>", "", line)  # tags of the dump itself; tags of the article are still escaped
    for entity, character in ENTITIES:
        line = line.replace(entity, character)
    for pattern, instead in MARKUP:
        line = pattern.sub(instead, line)
    line = "".join(f" {DIGITS[character]} " if character in DIGITS else character for character in line.lower())
    return " ".join(OTHER.sub(" ", line).split())
