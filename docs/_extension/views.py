"""Claims and runs as the templates of the site show them: verdicts as short texts, scores with their signatures, loss curves."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from _extension.scale import Scale
from raretokens import csv_files, paths
from raretokens.evaluation.score_files import flatten, signature_of
from raretokens.evidence.comparison import Comparison
from raretokens.evidence.intervals import SIGNATURE
from raretokens.evidence.scores import PAIRED, Scores
from raretokens.evidence.verdict import DECIDED, Verdict, comparison_of
from raretokens.papers.claim import Claim, Side
from raretokens.papers.task_names import TASKS
from raretokens.pipeline.trained import FILE
from raretokens.report.effect_text import few_seeds_text, named_intervals, number_text, page_text
from raretokens.report.paper_pages import EXPLAINED, explanation, sentence

BY_RANK = ("singular_values", "rank_frequency")  # series over ranks instead of training steps
SIDES = {"left": "First", "right": "Second", "control.left": "Control, first", "control.right": "Control, second"}
POINTS = 40  # points per loss curve; the run's CSV file has all


@dataclass(frozen=True)
class Evidence:
    """One number of a comparison: the metric, and its value in each run."""

    label: str
    title: str
    metric: str
    moment: str
    runs: list[str]  # runs that may have a value
    values: list[tuple[str, str]]  # run -> value
    missing: list[str]  # repetitions without a value


@dataclass(frozen=True)
class ClaimView:
    """The fields of a claim on a page, as text."""

    name: str
    claim: Claim
    verdict: str
    mark: str  # what of the effect is reproduced, or that the claim can hardly fail
    reason: str
    expected: str
    measured: str
    reported: str
    intervals: list[str]
    seeds: str
    explanation: str
    sides: list[Evidence]

    @classmethod
    def of(cls, verdict: Verdict, scale: Scale) -> "ClaimView":
        """Build the view of a verdict."""
        claim, kind = verdict.claim, verdict.claim.effect
        comparison = comparison_of(claim, scale.scores[claim.task], scale.declared)
        return cls(
            name=verdict.name,
            claim=claim,
            verdict=str(verdict.outcome),
            mark=", ".join(filter(None, [verdict.extent, "hardly fails" if claim.hardly_fails else ""])),
            reason="" if verdict.outcome in DECIDED else verdict.reason,
            expected=_expected(claim),
            measured=page_text(kind, verdict.effect.value),
            reported=page_text(kind, verdict.reported),
            intervals=[
                f"{page_text(kind, low)} to {page_text(kind, high)} ({name})"
                for name, (low, high) in named_intervals(verdict.effect).items()
            ],
            seeds=few_seeds_text(verdict) or str(verdict.effect.seeds or ""),
            explanation=_explained(verdict, scale) if scale.name == EXPLAINED else "",
            sides=[_evidence(name, comparison, scale) for name in comparison.all_sides],
        )


def _expected(claim: Claim) -> str:
    what = f"the {claim.effect}" if claim.effect != "value" else "the value"
    if claim.control:
        what += " divided by that of the control" if claim.effect == "ratio" else " minus that of the control"
    if claim.expect == "same":
        low, high = claim.margins
        return f"{what} is between {low:.4g} and {high:.4g}"
    return f"{what} is {'below' if claim.expect == 'lower' else 'above'} {claim.threshold:g}"


def _evidence(name: str, comparison: Comparison, scale: Scale) -> Evidence:
    side, run, value = comparison.all_sides[name], comparison.runs[name], comparison.values[name]
    values = dict(zip(value.runs, value.values, strict=True)) if value else {}
    return Evidence(
        label=SIDES[name] if len(comparison.all_sides) > 1 else "Value",
        title=scale.declared.metric(side.metric).title,
        metric=side.metric,
        moment=_moment(side),
        runs=[run] if run else side.runs,
        values=[(one, number_text(number, 6)) for one, number in values.items()],
        missing=[one for one in comparison.scores.repetitions.get(run or "", []) if one not in values],
    )


def _moment(side: Side) -> str:
    if isinstance(side.at, float | int):
        along = "of the ranks" if side.metric.split(".")[0] in BY_RANK else "of training, at the nearest snapshot"
        return f"at {side.at:.0%} {along}"
    return "when training of the rare rows begins" if side.at == "until" else side.at or ""


def _explained(verdict: Verdict, scale: Scale) -> str:
    text = explanation(verdict).format_map(scale.effects)
    return sentence(text[:1].upper() + text[1:]) if text else ""


# Runs with their repetitions.


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


def _scores(scale: Scale, scores: Scores, files: dict[str, dict[str, Any]]) -> Iterator[Score]:
    """Yield every metric of the first run. `files`: run -> its score file."""
    first, *_ = files
    signatures = dict(files[first].get("signatures", []))
    if baseline := scores.baseline_run(first):
        signatures["paired"] = f"baseline:{baseline}|{signatures.get(PAIRED)}|{SIGNATURE}"
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


def _loss(scores: Scores, run: str) -> Iterator[dict[str, Any]]:
    points = scores.points(run)
    losses = points[points.series == "nll"].astype({"x": float, "y": float})
    for split, line in losses.groupby("group", sort=False):
        chosen = dict.fromkeys((*range(0, len(line), -(-len(line) // POINTS)), len(line) - 1))
        for step, nll in line[["x", "y"]].iloc[list(chosen)].itertuples(index=False):
            yield {"run": run, "split": split, "step": int(step), "nll": round(nll, 3)}
