"""Runs on the page: what each was, its loss while training, and every score with its signature."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from raretokens import csv_files
from raretokens.evidence.scores import Scores
from raretokens.papers.declarations import Declarations
from raretokens.reporting.page.loss_curve import loss_curve
from raretokens.reporting.page.metric_groups import grouped

TIMES = Path("data/scratch/timing")  # <task>-<run>.json: seconds, machine, revision; written while training
KEPT = Path("trained.csv")  # the same, in hours, of all runs behind committed reports; their data may be gone


def sections(declared: Declarations, scores: dict[str, Scores], scale: Path) -> list[dict[str, Any]]:
    """All runs that have scores, in the order of the run sheet; data rows (the text itself) follow.

    scale: the folder with TIMES and KEPT.
    """
    kept = _kept(scale / KEPT)
    return [
        _section(declared, part, name, _time(scale / TIMES / f"{task}-{name}.json", kept.get((task, name))))
        for task, part in scores.items()
        for name in part.names()
    ]


def _section(declared: Declarations, scores: Scores, name: str, time: dict[str, Any] | None) -> dict[str, Any]:
    score = scores.read(name) or {}
    return {
        "task": scores.task,
        "name": name,
        "data": name not in scores.lines,
        "repeats": _repeated(scores, name),
        "score": score,
        "facts": list(_facts(score)),
        "scores": list(grouped(declared, scores, name)),
        "curve": loss_curve(scores.points_file(name)),
        "points": scores.points_file(name).is_file(),
        "time": time,
    }


def _repeated(scores: Scores, name: str) -> str | None:
    """The run that it differs from in its seed alone: there the page shows all numbers, here where they are."""
    return next((first for first, runs in scores.repetitions.items() if name in runs[1:]), None)


def _facts(score: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """What ran: the parameters as the score file lists them, then the objective's options."""
    for key in ("objective", "size", "seed"):
        if score.get(key) is not None:
            yield key, score[key]
    for key, value in (*score.get("parameters", []), *score.get("options", [])):
        yield key.replace("_", " "), f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else value


def _kept(file: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """(Task, run) -> what the table of trained runs says."""
    rows = csv_files.read_csv(file).to_dict("records") if file.is_file() else []
    return {(row["task"], row["run"]): {**row, "seconds": 3600 * float(row["hours"])} for row in rows if row["hours"]}


def _time(file: Path, kept: dict[str, Any] | None) -> dict[str, Any] | None:
    """Of the training here where it is known, else what the table keeps of it."""
    facts = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else kept
    return facts and {
        "seconds": round(facts["seconds"]),
        "shown": _duration(facts["seconds"]),
        "machine": facts["machine"],
        "revision": facts["revision"],
    }


def _duration(seconds: float) -> str:
    """To the minute, as the table's hours are; below a minute to the second."""
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min" if minutes else f"{seconds:.0f} s"
