"""The reports of the working tree beside those of a git revision, cell by cell, with each metric's tolerance."""

from collections.abc import Iterator
from pathlib import Path

from raretokens.reporting.declarations.declared import Declarations
from raretokens.reporting.diff.figure_moves import figure_moves
from raretokens.reporting.diff.line_moves import claims_moves, table_moves
from raretokens.reporting.diff.move import Move, presence_move
from raretokens.reporting.diff.revision import Revision

FOLDERS = {"tables": table_moves, "figures": figure_moves}
CLAIMS = "claims.csv"


def compare(revision: Revision, declared: Declarations, reports: Path = Path("reports")) -> list[Move]:
    """Every cell of tables, claims and figures that moved, those within their tolerance too."""
    moves: list[Move] = []
    for name in [*_names(revision, reports), CLAIMS]:
        path = reports / name
        before, now = revision.read(f"{path}"), path.read_text(encoding="utf-8") if path.is_file() else None
        if before != now:
            moves += _file_moves(name, before, now, declared)
    return moves


def _names(revision: Revision, reports: Path) -> list[str]:
    """CSV files that either side has."""
    names = {f"{kind}/{path.name}" for kind in FOLDERS for path in (reports / kind).glob("*.csv")}
    for kind in FOLDERS:
        names |= {f"{kind}/{name}" for name in revision.files(f"{reports}/{kind}") if name.endswith(".csv")}
    return sorted(names)


def _file_moves(name: str, before: str | None, now: str | None, declared: Declarations) -> Iterator[Move]:
    if before is None or now is None:
        return iter([presence_move(name, "", "", before, now)])
    moves = claims_moves if name == CLAIMS else FOLDERS[name.split("/")[0]]
    return moves(name, before, now, declared)
