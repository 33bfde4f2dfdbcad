"""What both index pages tell of a scale."""

import platform
from collections import Counter
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from raretokens.evidence.run_sheet import Sheet
from raretokens.evidence.scores import Scores
from raretokens.papers.declarations import Declarations
from raretokens.papers.task_names import TASKS
from raretokens.reporting.cells.cell import Cell
from raretokens.reporting.printed_counts import printed_counts

PACKAGES = ("torch", "sentencepiece", "ctranslate2", "sacrebleu", "scipy", "numpy")


def summary(
    sheet: Sheet, declared: Declarations, cells: dict[str, list[Cell]], scores: dict[str, Scores], verdicts: str
) -> dict[str, Any]:
    """verdicts: their counts in words."""
    about = declared.scales.get(sheet.scale)
    return {
        "tasks": TASKS,
        "scale": sheet.scale,
        "about": about,
        "own_text": about is not None
        and any(about.corpora.get(task, name) != name for task, name in sheet.corpora.items()),
        "corpora": sheet.corpora,
        "texts": _texts(scores),
        "versions": {"Python": platform.python_version().rsplit(".", 1)[0], **_versions()},
        "printed": printed_counts(declared, cells),
        "tables": [_line(name, declared, inside) for name, inside in cells.items()],
        "figures": [{"id": name, **figure.model_dump()} for name, figure in declared.figures.items()],
        "verdicts": verdicts,
        "missing": [f"{task}/{name}" for task, part in scores.items() for name in part.lines if not part.read(name)],
        "runs": {task: list(part.names()) for task, part in scores.items()},
        "headline": {run: _headline(part, run) for part in scores.values() for run in part.lines},
    }


def _headline(scores: Scores, run: str) -> dict[str, float]:
    """Few numbers of a run, by their short names."""
    values = {short: scores.value(run, number.metric) for short, number in TASKS[scores.task].headline.items()}
    return {short: float(f"{value.values[0]:.4g}") for short, value in values.items() if value}


def _texts(scores: dict[str, Scores]) -> dict[str, dict[str, int]]:
    """Text of a task -> split -> pieces, where they are counted."""
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
        "run": len({cell.row for cell in cells if cell.ours}),
        "statuses": ", ".join(f"{count} {status}" for status, count in statuses.items()),
    }


def _versions() -> dict[str, str]:
    return {package: _version(package) for package in PACKAGES}


def _version(package: str) -> str:
    try:
        return version(package).split("+")[0]
    except PackageNotFoundError:
        return "absent"
