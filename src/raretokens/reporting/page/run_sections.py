"""Runs on the page: what each was, its loss while training, and every score with its signature."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from raretokens.reporting import frames
from raretokens.reporting.declarations.declared import Declarations
from raretokens.reporting.page.loss_curve import loss_curve
from raretokens.reporting.page.metric_groups import grouped
from raretokens.reporting.scored import Scores

TIMES = Path("data/scratch/timing")  # <task>-<run>.json: seconds, machine, revision; written while training
KEPT = Path("trained.csv")  # the same of runs that were trained elsewhere, committed beside the reports of some scales
Times = dict[str, dict[str, Any]]  # <task>-<run> -> seconds, machine, revision


def sections(declared: Declarations, scores: dict[str, Scores], scale: Path) -> list[dict[str, Any]]:
    """All runs that have scores, in the order of the run sheet; data rows (the text itself) follow.

    scale: the folder with TIMES and KEPT.
    """
    times = _times(scale)
    return [_section(declared, part, name, times) for part in scores.values() for name in part.names()]


def _section(declared: Declarations, scores: Scores, name: str, times: Times) -> dict[str, Any]:
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
        "time": times.get(f"{scores.task}-{name}"),
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


def _times(scale: Path) -> Times:
    """Of each run that was trained here or is in the table of those that were trained anywhere."""
    kept = frames.read_csv(scale / KEPT).to_dict("records") if (scale / KEPT).is_file() else []
    here = {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in (scale / TIMES).glob("*.json")}
    facts = {
        f"{row['task']}-{row['run']}": {**row, "seconds": 3600 * float(row["hours"])} for row in kept if row["hours"]
    }
    return {
        run: _time(**{key: found[key] for key in ("seconds", "machine", "revision")})
        for run, found in (facts | here).items()
    }


def _time(seconds: float, machine: str, revision: str | None) -> dict[str, Any]:
    return {"seconds": round(seconds), "shown": _duration(round(seconds)), "machine": machine, "revision": revision}


def _duration(seconds: int) -> str:
    """From the largest unit that is not zero."""
    hours, minutes = seconds // 3600, seconds // 60 % 60
    words = [(hours, "h"), (minutes, "min"), (seconds % 60, "s")]
    return " ".join(f"{count} {unit}" for count, unit in words[0 if hours else 1 if minutes else 2 :])
