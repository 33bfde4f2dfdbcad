"""Runs on the site, with their repetitions: parameters, training time, loss, and every score with its signature."""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from raretokens import csv_files, paths
from raretokens.evaluation.score_files import flatten
from raretokens.evidence.intervals import SIGNATURE
from raretokens.evidence.scores import PAIRED, Scores
from raretokens.papers.task_names import TASKS
from raretokens.pipeline.trained import FILE
from raretokens.site.scale import Scale


@dataclass(frozen=True)
class Score:
    """A metric of a run and its repetitions."""

    path: str
    title: str
    unit: str
    values: list[str]  # one per run
    signature: str


@dataclass(frozen=True)
class RunView:
    """A run with its repetitions, which differ only in the seed."""

    task: str
    name: str
    runs: list[str]
    seeds: list[str]
    is_data: bool  # scores of a text, which need no model
    parameters: list[tuple[str, str]]
    times: list[str]
    scores: list[Score]
    headline: dict[str, str]  # title of a metric -> mean over seeds
    loss: list[dict[str, Any]]  # points: run, split, step, nll


def run_views(scale: Scale) -> dict[str, list[RunView]]:
    """Return task -> runs that have scores, in the order of the run sheet, followed by scores of texts."""
    return {task: list(_views(scale, part)) for task, part in scale.scores.items() if any(part.names())}


def _views(scale: Scale, scores: Scores) -> Iterator[RunView]:
    known = set(scores.names())
    groups = [[name for name in names if name in known] for names in scores.repetitions.values()]
    for runs in [*filter(None, groups), *([name] for name in scores.baselines if name in known)]:
        first = scores.read(runs[0]) or {}
        yield RunView(
            task=scores.task,
            name=runs[0],
            runs=runs,
            seeds=[str((scores.read(name) or {}).get("seed", "")) for name in runs],
            is_data=runs[0] not in scores.lines,
            parameters=list(_parameters(first)),
            times=[_time(scale.folder, scores.task, name) for name in runs],
            scores=_scores(scale, scores, runs),
            headline=_headline(scores, runs[0]),
            loss=[point for name in runs for point in _loss(scores, name)],
        )


def _parameters(score: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for key in ("objective", "model"):
        if score.get(key) is not None:
            yield key, str(score[key])
    for key, value in (*score.get("parameters", []), *score.get("options", [])):
        is_count = isinstance(value, int) and not isinstance(value, bool)
        yield key.replace("_", " "), f"{value:,}" if is_count else str(value)


@cache
def _recorded(folder: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """Return training time and machine of the runs in the scale's trained.csv, which is committed."""
    rows = csv_files.read_csv(folder / FILE).to_dict("records") if (folder / FILE).is_file() else []
    return {(row["task"], row["run"]): {**row, "seconds": 3600 * float(row["hours"])} for row in rows if row["hours"]}


def _time(folder: Path, task: str, run: str) -> str:
    """Return duration, machine and revision of a training, or "". A timing file of this machine takes precedence."""
    file = folder / paths.TIMING / f"{task}-{run}.json"
    facts = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else _recorded(folder).get((task, run))
    if not facts:
        return ""
    revision = f", revision {facts['revision']}" if facts["revision"] else ""
    return f"{_duration(facts['seconds'])} on {facts['machine']}{revision}"


def _duration(seconds: float) -> str:
    """Format a duration to the minute, the precision of trained.csv. Below a minute, format it to the second."""
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min" if minutes else f"{seconds:.0f} s"


def _headline(scores: Scores, run: str) -> dict[str, str]:
    values = {number: scores.value(run, number.metric) for number in TASKS[scores.task].headline.values()}
    return {number.title: f"{value.mean:.{number.digits}f}" if value else "" for number, value in values.items()}


def _scores(scale: Scale, scores: Scores, runs: list[str]) -> list[Score]:
    """Return every metric of the first run. Its signature belongs to the longest prefix of the metric's path that has one."""
    columns = [flatten({**(scores.read(run) or {}).get("metrics", {}), "paired": scores.paired(run)}) for run in runs]
    values = [dict(column) for column in columns]
    signatures = _signatures(scores, runs[0])
    found = []
    for path in values[0]:
        starts = [path.rsplit(".", cut)[0] for cut in range(path.count(".") + 1)]
        metric = scale.declared.known_metric(path)
        found.append(
            Score(
                path=path,
                title=metric.title if metric else "",
                unit=metric.unit if metric else "",
                values=[_number(column.get(path)) for column in values],
                signature=next((signatures[start] for start in starts if start in signatures), ""),
            )
        )
    return found


def _signatures(scores: Scores, run: str) -> dict[str, str]:
    signatures = dict((scores.read(run) or {}).get("signatures", []))
    if baseline := scores.baseline_run(run):
        signatures["paired"] = f"baseline:{baseline}|{signatures.get(PAIRED)}|{SIGNATURE}"
    return signatures


def _number(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else "" if value is None else str(value)


def common_signatures(views: list[RunView]) -> list[Score]:
    """Return each metric of a task once, with its most frequent signature."""
    metrics: dict[str, Score] = {}
    counts: dict[str, Counter[str]] = {}
    for score in (score for view in views for score in view.scores):
        metrics.setdefault(score.path, score)
        counts.setdefault(score.path, Counter())[score.signature] += 1
    return [
        Score(path, score.title, score.unit, [], counts[path].most_common(1)[0][0]) for path, score in metrics.items()
    ]


POINTS = 40  # points per curve on the site; the run's CSV file has all


def _loss(scores: Scores, run: str) -> Iterator[dict[str, Any]]:
    points = scores.points(run)
    losses = points[points.series == "nll"].astype({"x": float, "y": float})
    for split, line in losses.groupby("group", sort=False):
        chosen = dict.fromkeys((*range(0, len(line), -(-len(line) // POINTS)), len(line) - 1))
        for step, nll in line[["x", "y"]].iloc[list(chosen)].itertuples(index=False):
            yield {"run": run, "split": split, "step": int(step), "nll": round(nll, 3)}
