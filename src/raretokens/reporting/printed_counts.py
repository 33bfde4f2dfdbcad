"""How many of the numbers that the papers print have one of ours beside them: of all, whatever is declared."""

from collections import Counter
from dataclasses import dataclass

from raretokens.papers.declarations import Declarations
from raretokens.papers.table import TEXT
from raretokens.reporting.cells.cell import Cell


@dataclass(frozen=True)
class Counts:
    files: int
    printed: int
    dashes: int  # of them
    ours: int  # have one of ours beside them
    statuses: Counter[str]
    directions: Counter[str]


def printed_counts(declared: Declarations, cells: dict[str, list[Cell]]) -> dict[str, Counts]:
    """`tables` and `text` (numbers of the running text)."""
    files = [path.stem for path in sorted(declared.folder.glob("*.csv"))]
    parts = {
        "tables": [name for name in files if not name.endswith(TEXT)],
        "text": [name for name in files if name.endswith(TEXT)],
    }
    return {kind: _counts(declared, names, _by_file(declared, cells)) for kind, names in parts.items()}


def _by_file(declared: Declarations, cells: dict[str, list[Cell]]) -> dict[str, dict[str, Cell]]:
    """Printed file -> printed cell -> the first of ours."""
    found: dict[str, dict[str, Cell]] = {}
    for name, inside in cells.items():
        own = found.setdefault(declared.tables[name].printed, {})
        for cell in inside:
            if cell.printed:
                own.setdefault(cell.printed, cell)
    return found


def _counts(declared: Declarations, files: list[str], found: dict[str, dict[str, Cell]]) -> Counts:
    printed = [cell for name in files for cell in declared.printed(name).cells.values()]
    cells = [cell for name in files for cell in found.get(name, {}).values()]
    return Counts(
        len(files),
        len(printed),
        sum(not cell.text for cell in printed),
        sum(bool(cell.ours and cell.paper) for cell in cells),
        Counter(cell.status for cell in cells if cell.status),
        Counter(cell.direction for cell in cells if cell.direction),
    )
