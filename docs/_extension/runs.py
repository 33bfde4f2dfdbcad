"""Runs as the pages of the site show them: parameters, training times, and scores with their signatures."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from _extension.scale import Scale
from raretokens import csv_files
from raretokens.metrics.bootstrap import REPLICATES, SEED
from raretokens.metrics.score_files import flatten, signature_of
from reproduction import paths
from reproduction.papers.setting import TASKS
from reproduction.papers.task_scores import PAIRED, TaskScores
from reproduction.pipeline.records import TRAINED

PAIRED_BOOTSTRAP = f"bs:{REPLICATES}|seed:{SEED}|interval:percentile-95"  # part of the signature of paired scores


@dataclass(frozen=True)
class Score:
    """A metric of a run and its repetitions."""

    path: str
    title: str
    unit: str
    values: list[str]  # one per run
    signature: str

    @property
    def as_row(self) -> dict[str, str]:
        signature = self.signature.replace("|", " | ")
        return {"metric": self.path, "title": self.title, "unit": self.unit, "signature": signature}


@dataclass(frozen=True)
class RunView:
    """A run with its repetitions, which differ only in the seed."""

    name: str
    runs: list[str]
    seeds: list[str]
    is_data: bool  # scores of a text, which need no model
    parameters: list[tuple[str, str]]
    times: list[str]
    scores: list[Score]
    headline: dict[str, str]  # title of a metric -> mean over seeds

    @property
    def as_row(self) -> dict[str, str]:
        objective, time = dict(self.parameters).get("objective", ""), self.times[0].split(" on ")[0]
        about = {"run": self.name, "objective": objective, "seeds": ", ".join(self.seeds)}
        return about | self.headline | {"training time of the first": time}


def run_views(scale: Scale) -> dict[str, list[RunView]]:
    """Return task -> runs that have scores, in the order of the run sheet, followed by scores of texts."""
    return {task: list(_views(scale, part)) for task, part in scale.scores.items() if any(part.names())}


def _views(scale: Scale, scores: TaskScores) -> Iterator[RunView]:
    known = {name: scores.read(name) or {} for name in scores.names()}
    groups = [[name for name in names if name in known] for names in scores.repetitions.values()]
    for runs in [*filter(None, groups), *([name] for name in scores.baselines if name in known)]:
        files = {name: known[name] for name in runs}
        yield RunView(
            name=runs[0],
            runs=runs,
            seeds=[str(file.get("seed", "")) for file in files.values()],
            is_data=runs[0] not in scores.lines,
            parameters=list(_parameters(known[runs[0]])),
            times=[_time(scale.folder, scores.task, name) for name in runs],
            scores=list(_scores(scale, scores, files)),
            headline=_headline(scores, runs[0]),
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
    rows = csv_files.read_csv(folder / TRAINED).to_dict("records") if (folder / TRAINED).is_file() else []
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


def _headline(scores: TaskScores, run: str) -> dict[str, str]:
    values = {number: scores.value(run, number.metric) for number in TASKS[scores.task].headline.values()}
    return {number.title: f"{value.mean:.{number.digits}f}" if value else "" for number, value in values.items()}


def _scores(scale: Scale, scores: TaskScores, files: dict[str, dict[str, Any]]) -> Iterator[Score]:
    """Yield every metric of the first run. `files`: run -> its score file."""
    first, *_ = files
    signatures = dict(files[first].get("signatures", []))
    if baseline := scores.baseline_run(first):
        signatures["paired"] = f"baseline:{baseline}|{signatures.get(PAIRED)}|{PAIRED_BOOTSTRAP}"
    columns = [dict(flatten({**file["metrics"], "paired": scores.paired(run)})) for run, file in files.items()]
    for path in columns[0]:
        metric = scale.declared.known_metric(path)
        title, unit = (metric.title, metric.unit) if metric else ("", "")
        yield Score(path, title, unit, [_number(column.get(path)) for column in columns], signature_of(path, signatures))


def _number(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else "" if value is None else str(value)


def common_signatures(views: list[RunView]) -> list[Score]:
    """Return each metric of a task once, with its most frequent signature."""
    metrics: dict[str, Score] = {}
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for score in (score for view in views for score in view.scores):
        metrics.setdefault(score.path, score)
        counts[score.path][score.signature] += 1
    return [replace(score, values=[], signature=counts[path].most_common(1)[0][0]) for path, score in metrics.items()]
