"""The reports of the working tree beside those of a git revision, cell by cell, with each metric's tolerance."""

from pathlib import Path

from raretokens.errors import UserError
from raretokens.papers.declarations import Declarations
from raretokens.reporting.diff.figure_moves import figure_moves
from raretokens.reporting.diff.line_moves import claims_moves, table_moves
from raretokens.reporting.diff.move import Move, presence_move
from raretokens.reporting.diff.revision import Revision

FOLDERS = {"tables": table_moves, "figures": figure_moves}
CLAIMS = "claims.csv"
MARKS = ("<<<<<<< ", "||||||| ", "=======", ">>>>>>> ")


def compare(revision: Revision, declared: Declarations, reports: Path = Path("reports")) -> list[Move]:
    """Every cell of tables, claims and figures that moved, those within their tolerance too, and reports that are gone.

    Raises UserError where a file is none that this version writes.
    """
    moves: list[Move] = []
    for name in [*_names(revision, reports), CLAIMS]:
        path = reports / name
        before, now = revision.read(f"{path}"), path.read_bytes() if path.is_file() else None
        if before != now:
            moves += _file_moves(name, before, now, declared)
    lost = [name for name in revision.files(f"{reports}") if not (reports / name).is_file()]
    seen = {move.place for move in moves}
    return moves + [presence_move(name, "", "", name, None) for name in lost if name not in seen]


def _names(revision: Revision, reports: Path) -> list[str]:
    """CSV files that either side has."""
    names = {f"{kind}/{path.name}" for kind in FOLDERS for path in (reports / kind).glob("*.csv")}
    for name in revision.files(f"{reports}"):
        if name.split("/")[0] in FOLDERS and name.count("/") == 1 and name.endswith(".csv"):
            names.add(name)
    return sorted(names)


def _file_moves(name: str, before: bytes | None, now: bytes | None, declared: Declarations) -> list[Move]:
    if before is None or now is None:
        return [presence_move(name, "", "", before, now)]
    moves = claims_moves if name == CLAIMS else FOLDERS[name.split("/")[0]]
    try:
        return list(moves(name, *(_text(name, part) for part in (before, now)), declared))
    except KeyError as error:
        raise UserError(f"{name}: no column {error} on both sides; make both by one version") from None
    except ValueError as error:
        raise UserError(f"{name}: not as any version writes it: {' '.join(str(error).split())}") from None


def _text(name: str, part: bytes) -> str:
    text = part.decode("utf-8")  # its error is a ValueError
    if marked := [number for number, line in enumerate(text.split("\n"), start=1) if line.startswith(MARKS)]:
        raise UserError(f"{name}: line {marked[0]} is the mark of an unresolved merge")
    return text
