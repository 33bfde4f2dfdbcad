"""Scores of the runs on the run sheet, from the score files of a task."""

import json
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from raretokens import csv_files
from raretokens.claims.expectation import Side
from raretokens.claims.intervals import paired_bootstrap
from raretokens.claims.scores import Scores, Value
from reproduction.papers.setting import Setting
from reproduction.run_sheet import Sheet

POINTS = ["series", "group", "x", "y"]
MLE = "mle"  # the objective that methods are compared with
MORE = ("decomposition", "recall")  # further score files of a run: <run>.<part>.json and <run>.<part>.bootstrap.csv
NEIGHBOURS = ("neighbours.rare", "neighbours.queries")  # computed from the nearest neighbours listed in a score file
PAIRED = "bleu.sacrebleu"  # the metric of paired comparisons


@dataclass
class TaskScores(Scores):
    """Scores in reports/runs of one task. Only files of runs on the run sheet are read."""

    task: str = ""
    folder: Path = Path()
    baselines: dict[str, str] = field(default_factory=dict)  # score file that needs no model -> its corpus
    outdated: list[str] = field(default_factory=list)  # runs whose score file was made with other parameters
    resamples: dict[str, pd.DataFrame] = field(default_factory=dict)
    series: dict[str, pd.DataFrame] = field(default_factory=dict)  # points of runs, each file read once
    curves: dict[tuple[str, str], tuple[np.ndarray, ...]] = field(default_factory=dict)  # run and metric -> x and y
    setting: Setting | None = None  # where a declared name stands for the run of this setting

    def with_seeds(self, runs: Collection[str], seeds: Collection[int | None]) -> "TaskScores":
        """Return the same scores, restricted to these seeds for these runs."""
        others = {name for run in runs for name in self.repetitions[run] if self.lines[name].seed not in seeds}
        return replace(self, ignored=self.ignored | others)

    def names(self) -> Iterator[str]:
        """Yield the runs that have scores in the order of the run sheet, then the score files that need no model."""
        return (name for name in (*self.lines, *self.baselines) if self.read(name))

    def own_names(self, declared: Iterable[str]) -> list[str]:
        """Return the names that declared runs have in the setting."""
        return [self.setting.run(run) if self.setting else run for run in declared]

    def in_setting(self, setting: Setting | None) -> "TaskScores":
        """Return the same scores, where a declared name stands for the run of a setting, or for itself without a setting."""
        return replace(self, setting=setting)

    def baseline_run(self, run: str) -> str | None:
        """Return the run of maximum likelihood with the same model, text and direction: that of the same seed, else the first.

        Return None for a run of maximum likelihood, and if there is no such run.
        """
        line = self.lines.get(run)
        if line is None or line.objective == MLE:
            return None
        plain = line.replaced(objective=MLE, options={}, init_from=None)
        fitting = [name for name, other in self.lines.items() if other.replaced(init_from=None).same_but_seed(plain)]
        own = (name for name in fitting if self.lines[name].seed == line.seed)
        return next(own, next(iter(fitting), None))

    def files(self, name: str) -> list[Path]:
        """Return the score files of a run that exist: <run>.json, then those of MORE."""
        paths = (self.folder / f"{'.'.join((name, *part))}.json" for part in ((), *zip(MORE)))
        return [path for path in paths if path.is_file()]

    def read(self, name: str) -> dict | None:
        """Return the score file, or None if there is none that was made with the current parameters.

        A run of which only files of MORE exist has their metrics alone.
        """
        if name not in self.cache:
            files = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in self.files(name)}
            first, line = next(iter(files.values()), None), self.lines.get(name)
            if first and line and first.get("parameters_hash", "") != line.parameters_hash:
                self.outdated.append(name)
                first = None
            self.cache[name] = first and _joined(files)
        return self.cache[name]

    def frontier(self, name: str, share: float | None = None) -> pd.DataFrame | None:
        """Return the frontier of the logit-bias baseline of a run of maximum likelihood, or None if there is none.

        The constant acts on a share of the types, rarest first, or on the rare group if the share is None.
        """
        path = self.folder / f"{name}.logit-bias.csv"
        if self.number(name, "ppl_within.rare") is None or not path.is_file():
            return None
        found = pd.read_csv(path)
        own = found.share.isna() if share is None else np.isclose(found.share, share, rtol=1e-4)
        return None if found[own].empty else found[own].drop(columns="share")

    def outdated_runs(self, run: str) -> list[str]:
        """Return those of a run and its repetitions whose score file was made with other parameters."""
        return [name for name in self.repeats(run) if self.read(name) is None and name in self.outdated]

    def of(self, side: Side, thaw: float | None = None) -> Value | None:
        """Return the metric of a side over seeds: of the runs, of their nearest neighbours, or of a moment on their curves."""
        run = self.choose(side.runs, data=side.data)
        if run is None:
            return None
        if side.at is not None:
            return self.over_seeds(run, lambda name: self._on_curve(side, name, thaw))
        if side.metric in NEIGHBOURS:
            return self.over_seeds(run, lambda name: _of_neighbours(side.metric, self.read(name) or {}))
        return self.value(run, side.metric)

    def _on_curve(self, side: Side, name: str, thaw: float | None) -> float | None:
        """Return the value of a run's curve at a moment of training, or None if the run has no such curve or moment.

        A number is a fraction of the last step, and the nearest point counts. `until` is the run's option of that name, and the
        last point that is not after it counts.
        """
        x, y = self.curve(name, side.metric)
        moment = (self.option(name, "until") or thaw) if side.at == "until" else side.at
        if not len(x) or moment is None:
            return None
        if isinstance(moment, str):
            return float({"first": y[0], "last": y[-1], "lowest": y.min(), "highest": y.max()}[moment])
        if side.at == "until":
            return float(y[x <= moment][-1])
        return float(y[np.abs(x - moment * x[-1]).argmin()])

    def value(self, run: str, metric: str, seeds: Collection[int | None] | None = None) -> Value | None:
        """Return the metric of a run and its repetitions for these seeds (None: all), or None if none of them has the metric.

        `paired.<key>` is from the comparison with maximum likelihood. `paired.p` is the largest p, as a mean p has no meaning.
        """
        value = super().value(run, metric, seeds)
        if value and metric == "paired.p":
            return value.for_seeds([max(value.seeds, key=value.by_seed.__getitem__)])
        return value

    def number(self, name: str, metric: str) -> Any:
        """Return a metric, or `parameters.<name>`, of one run."""
        kind = metric.partition(".")[0]
        if kind == "parameters":
            return self.fact(name, metric)
        score = self.read(name)
        if score is None:
            return None
        number: Any = {"paired": self.paired(name)} if kind == "paired" else score.get("metrics")
        for part in metric.split("."):
            number = number.get(part) if isinstance(number, dict) else None
        return number

    def paired(self, name: str) -> dict[str, float]:
        """Return delta, low, high and p of BLEU compared with maximum likelihood, or {} for other tasks or without a baseline."""
        baseline = self.baseline_run(name)
        if baseline is None:
            return {}
        left, right = (self.number(run, PAIRED) for run in (name, baseline))
        own, others = (self.bootstrap(run, PAIRED) for run in (name, baseline))
        if left is None or right is None or own is None or others is None:
            return {}
        return paired_bootstrap(left - right, own - others)

    def bootstrap(self, name: str, metric: str) -> np.ndarray | None:
        """Return the metric on resampled test sets, which are the same for all runs, or None if there are no resamples."""
        if name not in self.resamples:
            named = (self.folder / f"{part}.bootstrap.csv" for part in (self.read(name) or {}).get("parts", []))
            paths = [path for path in named if path.is_file() and path.read_bytes().strip()]  # no columns without a model
            self.resamples[name] = pd.concat([pd.DataFrame(), *map(pd.read_csv, paths)], axis=1)
        return self.resamples[name][metric].to_numpy(float) if metric in self.resamples[name] else None

    def points(self, name: str) -> pd.DataFrame:
        """Return series, group, x and y of each point of a run, as text. Empty if there is no file."""
        if name not in self.series:
            path = self.folder / f"{name}.csv"
            exists = path.is_file() and self.read(name) is not None
            self.series[name] = csv_files.read_csv(path) if exists else pd.DataFrame(columns=POINTS, dtype=str)
        return self.series[name]

    def curve(self, name: str, metric: str) -> tuple[np.ndarray, np.ndarray]:
        """Return x and y of the run's points of `series.group`, or of all groups of `series`; shape (points,)."""
        if (name, metric) not in self.curves:
            points, (series, _, group) = self.points(name), metric.partition(".")
            own = (points.series == series) & ((points.group == group) | (not group))
            self.curves[name, metric] = tuple(points.loc[own, axis].to_numpy(float) for axis in ("x", "y"))
        return self.curves[name, metric]


class AllScores(dict[str, TaskScores]):
    """Scores of each task of the run sheet. Any other task has no runs."""

    def __init__(self, sheet: Sheet, folder: Path) -> None:
        """Prepare the scores of each task, which are read on demand. `folder`: reports/runs."""
        self.folder = folder
        for task, lines in sheet.runs.items():
            self[task] = TaskScores(lines, task=task, folder=folder / task, baselines=sheet.baselines.get(task, {}))

    def __missing__(self, task: str) -> TaskScores:
        return TaskScores({}, task=task, folder=self.folder / task)


def _joined(files: dict[str, dict]) -> dict:
    """Return the first score file with the metrics and signatures of the others that have its parameters, and their names."""
    first = next(iter(files.values()))
    own = {stem: one for stem, one in files.items() if one.get("parameters_hash") == first.get("parameters_hash")}
    return first | {
        "metrics": {name: value for one in own.values() for name, value in one.get("metrics", {}).items()},
        "signatures": [pair for one in own.values() for pair in one.get("signatures", [])],
        "parts": list(own),
    }


def _of_neighbours(metric: str, score: dict) -> float | None:
    """Return the number of queries, or the share of the rare group among the neighbours of all of them; None without any."""
    groups = [[group for _, _, group in listed] for _, listed in score.get("neighbours", [])]
    if metric == "neighbours.queries":
        return float(len(groups)) if groups else None
    flat = [group for own in groups for group in own]
    return flat.count("rare") / len(flat) if flat else None
