"""Summary of a scale, which is the content of index.md."""

import platform
from collections import Counter
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import jinja2

from raretokens.evidence.run_sheet import Sheet
from raretokens.evidence.scores import Scores
from raretokens.papers.declarations import Declarations
from raretokens.papers.table import TEXT
from raretokens.papers.task_names import TASKS
from raretokens.report.cells import Cell
from raretokens.report.figures import picture_kind


def environment(package: str, **options: Any) -> jinja2.Environment:
    """Return a Jinja environment with the templates of a package's folder `templates`, which are not HTML."""
    plain = {"autoescape": False, "keep_trailing_newline": True, "trim_blocks": True, "undefined": jinja2.StrictUndefined}
    return jinja2.Environment(loader=jinja2.PackageLoader(package), **plain | options)


PACKAGES = ("torch", "sentencepiece", "ctranslate2", "sacrebleu", "scipy", "numpy")


def summary(
    sheet: Sheet, declared: Declarations, cells: dict[str, list[Cell]], scores: dict[str, Scores], verdicts: str
) -> dict[str, Any]:
    """Return the variables of the template index.md. `verdicts`: the verdict counts in words."""
    about = declared.scales.get(sheet.scale)
    return {
        "tasks": TASKS,
        "scale": sheet.scale,
        "reproduced": list(declared.papers),
        "about": about,
        "own_text": about is not None
        and any(about.corpora.get(task, name) != name for task, name in sheet.corpora.items()),
        "corpora": sheet.corpora,
        "texts": _texts(scores),
        "versions": {"Python": platform.python_version().rsplit(".", 1)[0], **{name: _version(name) for name in PACKAGES}},
        "reported": reported_counts(declared, cells),
        "tables": [_line(name, declared, inside) for name, inside in cells.items()],
        "figures": [
            {"id": name, "picture": f"{name}.{picture_kind(figure.panels)}", **figure.model_dump()}
            for name, figure in declared.figures.items()
        ],
        "verdicts": verdicts,
        "missing": [f"{task}/{name}" for task, part in scores.items() for name in part.lines if not part.read(name)],
        "runs": {task: list(part.names()) for task, part in scores.items()},
    }


def _texts(scores: dict[str, Scores]) -> dict[str, dict[str, int]]:
    """Return text of a task -> split -> number of tokens, for texts whose tokens were counted."""
    first = {task: next(iter(part.baselines), "") for task, part in scores.items()}
    data = {task: (part.read(first[task]) or {}).get("metrics", {}) for task, part in scores.items()}
    return {TASKS[task].text: metrics["tokens"] for task, metrics in data.items() if "tokens" in metrics}


def _line(name: str, declared: Declarations, cells: list[Cell]) -> dict[str, Any]:
    table = declared.tables[name]
    statuses = Counter(cell.status for cell in cells if cell.status)
    return {
        "id": name,
        "title": table.title,
        "paper": table.paper,
        "place": table.place,
        "rows": len({cell.row for cell in cells}),
        "run": len({cell.row for cell in cells if cell.measured}),
        "statuses": ", ".join(f"{count} {status}" for status, count in statuses.items()),
    }


def _version(package: str) -> str:
    try:
        return version(package).split("+")[0]
    except PackageNotFoundError:
        return "absent"


@dataclass(frozen=True)
class Counts:
    """Numbers of reported and measured cells."""

    files: int
    reported: int
    dashes: int  # reported cells that are dashes
    measured: int  # reported cells that have a measured number
    statuses: Counter[str]
    directions: Counter[str]


def reported_counts(declared: Declarations, cells: dict[str, list[Cell]]) -> dict[str, Counts]:
    """Return the counts of `tables` and of `text` (numbers in the running text), without those of later papers."""
    found: dict[str, dict[str, Cell]] = {}  # reported file -> reported cell -> the first cell
    counted = {name: table for name, table in declared.tables.items() if declared.is_counted(table)}
    for name, inside in ((name, cells[name]) for name in counted if name in cells):
        own = found.setdefault(declared.tables[name].reported, {})
        for cell in inside:
            if cell.reported_cell:
                own.setdefault(cell.reported_cell, cell)
    others = {table.reported for table in declared.tables.values()} - {table.reported for table in counted.values()}
    files = [path.stem for path in sorted(declared.folder.glob("*.csv")) if path.stem not in others]
    parts = {
        "tables": [name for name in files if not name.endswith(TEXT)],
        "text": [name for name in files if name.endswith(TEXT)],
    }
    return {kind: _file_counts(declared, names, found) for kind, names in parts.items()}


def _file_counts(declared: Declarations, files: list[str], found: dict[str, dict[str, Cell]]) -> Counts:
    reported = [cell for name in files for cell in declared.reported(name).cells.values()]
    cells = [cell for name in files for cell in found.get(name, {}).values()]
    return Counts(
        len(files),
        len(reported),
        sum(not cell.text for cell in reported),
        sum(bool(cell.measured and cell.reported) for cell in cells),
        Counter(cell.status for cell in cells if cell.status),
        Counter(cell.direction for cell in cells if cell.direction),
    )
