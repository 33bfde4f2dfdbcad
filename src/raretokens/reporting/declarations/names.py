"""Names of runs in claims and figures: one that no table and no run sheet knows is a slip of the pen."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from raretokens.errors import nearest

if TYPE_CHECKING:
    from raretokens.reporting.declarations.schema import Declarations


def unknown_runs(declared: "Declarations", folder: Path) -> list[str]:
    """One line for each unknown name; folder is data/paper, two levels below the top, where the run sheets are."""
    known = {task: _known(declared, folder.absolute().parents[1], task) for task in ("lm", "nmt")}
    return [
        f"{place}: run {name!r} is in no table and on no run sheet; {nearest(name, sorted(known[task]))}"
        for place, task, names in _used(declared)
        for name in names
        if name not in known[task]
    ]


def _used(declared: "Declarations") -> Iterator[tuple[str, str, list[str]]]:
    for name, claim in declared.claims.items():
        for key, side in claim.sides.items():
            if not side.data:
                yield f"claims/{claim.paper}.yaml: {name}.{key}.runs", claim.task, side.runs
    for name, figure in declared.figures.items():
        for panel in figure.panels:
            for legend, names in panel.runs.items() if not panel.data else ():
                yield f"figures.yaml: {name}, {panel.title}, {legend}", panel.task or figure.task, names


def _known(declared: "Declarations", top: Path, task: str) -> set[str]:
    """Runs of the tables' rows and of the run sheets of all scales: a claim serves every scale."""
    found = {name for table in declared.tables.values() if table.task == task for name in table.runs}
    for path in [top / "params.yaml", *sorted(top.glob("scales/*/params.yaml"))]:
        if path.is_file():
            found |= set(yaml.safe_load(path.read_text(encoding="utf-8"))["runs"][task] or {})
    return found
