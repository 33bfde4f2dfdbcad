"""Runs on the page: what each was, its loss while training, and every score with its signature."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from raretokens import csv_files
from raretokens.evaluation.score_files import flatten
from raretokens.evidence.intervals import SIGNATURE
from raretokens.evidence.scores import PAIRED, Scores
from raretokens.papers.declarations import Declarations

TIMES = Path("data/scratch/timing")  # <task>-<run>.json: seconds, machine, revision; written while training
KEPT = Path("trained.csv")  # the same, in hours, of all runs behind committed reports; their data may be gone


def run_sections(declared: Declarations, scores: dict[str, Scores], scale: Path) -> list[dict[str, Any]]:
    """All runs that have scores, in the order of the run sheet; data rows (the text itself) follow.

    scale: the folder with TIMES and KEPT.
    """
    kept = csv_files.read_csv(scale / KEPT).to_dict("records") if (scale / KEPT).is_file() else []
    times = {(row["task"], row["run"]): {**row, "seconds": 3600 * float(row["hours"])} for row in kept if row["hours"]}
    return [
        _section(declared, part, name, _time(scale / TIMES / f"{task}-{name}.json", times.get((task, name))))
        for task, part in scores.items()
        for name in part.names()
    ]


def _section(declared: Declarations, scores: Scores, name: str, time: dict[str, Any] | None) -> dict[str, Any]:
    score = scores.read(name) or {}
    return {
        "task": scores.task,
        "name": name,
        "data": name not in scores.lines,
        # The run that it differs from in its seed alone: there the page shows all numbers, here where they are.
        "repeats": next((first for first, runs in scores.repetitions.items() if name in runs[1:]), None),
        "score": score,
        "facts": list(_facts(score)),
        "scores": list(grouped(declared, scores, name)),
        "curve": loss_curve(scores.points(name)),
        "points": scores.points_file(name).is_file(),
        "time": time,
    }


def _facts(score: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """What ran: the parameters as the score file lists them, then the objective's options."""
    for key in ("objective", "model", "seed"):
        if score.get(key) is not None:
            yield key, score[key]
    for key, value in (*score.get("parameters", []), *score.get("options", [])):
        yield key.replace("_", " "), f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else value


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


GROUPS = {"total": "total", "freq": "frequent", "med": "medium", "rare": "rare"}  # end of a path -> name on the page


def grouped(declared: Declarations, scores: Scores, name: str) -> Iterator[dict[str, Any]]:
    """A line for each metric of a run and of its comparison with maximum likelihood, with the signature of its longest start."""
    score, baseline = scores.read(name) or {}, scores.baseline_run(name)
    signatures = dict(score.get("signatures", []))
    if baseline:
        signatures["paired"] = f"baseline:{baseline}|{signatures.get(PAIRED)}|{SIGNATURE}"
    paths: dict[str, dict[str, str]] = {}  # path without its group -> group -> number
    for path, value in flatten({**score.get("metrics", {}), "paired": scores.paired(name)}):
        start, _, end = path.rpartition(".")
        key, group = (start, end) if end in GROUPS else (path, "total")
        paths.setdefault(key, {})[group] = f"{value:.6g}" if isinstance(value, float) else str(value)
    for path, values in paths.items():
        starts = [path.rsplit(".", cut)[0] for cut in range(path.count(".") + 1)]
        yield {
            "path": path,
            "groups": values,
            "by_group": values.keys() != {"total"},
            "metric": declared.known_metric(path) or declared.known_metric(f"{path}.total"),
            "signature": next((signatures[part] for part in starts if part in signatures), ""),
        }


def explained(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A line for each metric of the runs of a task: what it is, and the signature that most runs have."""
    lines: dict[str, dict[str, Any]] = {}
    signatures: dict[str, Counter[str]] = {}
    for score in (score for run in runs for score in run["scores"]):
        lines.setdefault(score["path"], {key: score[key] for key in ("path", "metric")})
        signatures.setdefault(score["path"], Counter())[score["signature"]] += 1
    return [{**line, "signature": signatures[path].most_common(1)[0][0]} for path, line in lines.items()]


WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 560, 206, 48, 6, 12, 26  # of the drawing and its margins, in its own units
POINTS = 60  # of a curve on the page; all of them are in the CSV file beside it


def loss_curve(points: pd.DataFrame) -> dict[str, Any] | None:
    """The loss over the updates (series `nll`), a polyline for each group; None where nothing is logged."""
    nll = points[points.series == "nll"].astype({"x": float, "y": float})
    if nll.empty:
        return None
    (left, high), (right, low) = (nll.x.min(), nll.y.max()), (nll.x.max(), nll.y.min())

    def across(x: float) -> str:
        return f"{LEFT + (WIDTH - LEFT - RIGHT) * (x - left) / ((right - left) or 1):.0f}"

    def down(y: float) -> str:
        return f"{TOP + (HEIGHT - BOTTOM - TOP) * (high - y) / ((high - low) or 1):.0f}"

    lines = {group: list(zip(line.x, line.y, strict=True)) for group, line in nll.groupby("group", sort=False)}
    thinned = {group: dict.fromkeys((*line[:: -(-len(line) // POINTS)], line[-1])) for group, line in lines.items()}
    return {
        "width": WIDTH,
        "height": HEIGHT,
        "left": LEFT,
        "lines": {group: " ".join(f"{across(x)},{down(y)}" for x, y in line) for group, line in thinned.items()},
        "last": {group: f"{line[-1][1]:.3f}" for group, line in lines.items()},
        "across": [(across(x), f"{x:.0f}") for x in dict.fromkeys((left, (left + right) / 2, right))],
        "up": [(down(y), f"{y:.2f}") for y in dict.fromkeys((low, (low + high) / 2, high))],
    }
