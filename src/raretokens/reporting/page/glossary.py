"""Words that a reader may not know: glossary.csv, as a section and as hover text of headings."""

import csv
import re
from pathlib import Path

FILE = Path(__file__).with_name("glossary.csv")


def read() -> dict[str, str]:
    """Term -> meaning, in the order of the file."""
    with open(FILE, encoding="utf-8", newline="") as file:
        return {row["term"]: row["meaning"] for row in csv.DictReader(file)}


def hover(text: str, terms: dict[str, str]) -> str:
    """The meaning of each term in a text, one a line; of terms that begin alike the longest one."""
    found = [term for term in terms if re.search(rf"(?<!\w){re.escape(term)}(?!\w)", text, re.IGNORECASE)]
    longest = [term for term in found if not any(term != other and term in other for other in found)]
    return "\n".join(f"{term}: {terms[term]}" for term in longest)
