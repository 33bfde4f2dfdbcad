"""Scores of the runs on the run sheet. Runs that differ only in their seed are repetitions of one run."""

import json
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import pandas as pd

from raretokens import csv_files
from raretokens.evidence.intervals import paired_bootstrap
from raretokens.papers.setting import Setting
from raretokens.run import Sheet, SheetLine

POINTS = ["series", "group", "x", "y"]
MLE = "mle"  # the objective that methods are compared with
MORE = ("decomposition", "recall")  # further score files of a run: <run>.<part>.json and <run>.<part>.bootstrap.csv
PAIRED = "bleu.sacrebleu"  # the metric of paired comparisons


@dataclass(frozen=True)
class Value:
    """A metric over seeds: values, their mean, and their spread, which is half the range (None with one seed)."""

    runs: tuple[str, ...]
    values: tuple[float, ...]
    seeds: tuple[int | None, ...]

    def for_seeds(self, seeds: Collection[int | None]) -> "Value | None":
        """Return the values of these seeds, or None if there are none."""
        kept = [index for index, seed in enumerate(self.seeds) if seed in seeds]
        parts = (tuple(part[index] for index in kept) for part in (self.runs, self.values, self.seeds))
        return Value(*parts) if kept else None

    @property
    def by_seed(self) -> dict[int | None, float]:
        return dict(zip(self.seeds, self.values, strict=True))

    @property
    def mean(self) -> float:
        return mean(self.values)

    @property
    def spread(self) -> float | None:
        """Half the range of the values, or None with one seed."""
        return (max(self.values) - min(self.values)) / 2 if len(self.values) > 1 else None


@dataclass
class Scores:
    """Scores in reports/runs of one task. Only files of runs on the run sheet are read."""

    task: str
    lines: dict[str, SheetLine]  # run -> its line of the run sheet
    folder: Path
    baselines: dict[str, str] = field(default_factory=dict)  # score file that needs no model -> its corpus
    cache: dict[str, dict | None] = field(default_factory=dict)  # run -> its score file
    outdated: list[str] = field(default_factory=list)  # runs whose score file was made with other parameters
    resamples: dict[str, pd.DataFrame] = field(default_factory=dict)
    series: dict[str, pd.DataFrame] = field(default_factory=dict)  # points of runs, each file read once
    curves: dict[tuple[str, str], tuple[np.ndarray, ...]] = field(default_factory=dict)  # run and metric -> x and y
    ignored: frozenset[str] = frozenset()  # repetitions that are left out
    setting: Setting | None = None  # where a declared name stands for the run of this setting

    @cached_property
    def repetitions(self) -> dict[str, list[str]]:
        """Run -> the run and its repetitions, in the order of the run sheet.

        A repetition equals an earlier run in everything but the seed, whatever its name. If the earlier run starts from
        another run, the repetition must start from a repetition of that run.
        """
        groups: dict[str, list[str]] = {}
        firsts: dict[str | None, str] = {}  # run -> the run that it repeats, or itself
        lines: dict[str, SheetLine] = {}  # first runs, with init_from replaced by the first run that it repeats
        for name, line in self.lines.items():
            plain = line.replaced(init_from=firsts.get(line.init_from, line.init_from))
            first = next((run for run in groups if plain.same_but_seed(lines[run])), name)
            seeds = [self.lines[run].seed for run in groups.get(first, [])]
            firsts[name] = name if line.seed in seeds else first
            lines.setdefault(firsts[name], plain)
            groups.setdefault(firsts[name], []).append(name)
        return {run: [name for name in names if name not in self.ignored] for run, names in groups.items()}

    def with_seeds(self, runs: Collection[str], seeds: Collection[int | None]) -> "Scores":
        """Return the same scores, restricted to these seeds for these runs."""
        others = {name for run in runs for name in self.repetitions[run] if self.lines[name].seed not in seeds}
        return replace(self, ignored=self.ignored | others)

    def names(self) -> Iterator[str]:
        """Yield the runs that have scores in the order of the run sheet, then the score files that need no model."""
        return (name for name in (*self.lines, *self.baselines) if self.read(name))

    def choose(self, names: Sequence[str], data: bool = False) -> str | None:
        """Return the first of the names that is on the run sheet. With `data`, return the first that has a score file."""
        known = (lambda name: self.read(name) is not None) if data else self.lines.__contains__
        return next(filter(known, self.own_names(names)), None)

    def own_names(self, declared: Iterable[str]) -> list[str]:
        """Return the names that declared runs have in the setting."""
        return [self.setting.run(run) if self.setting else run for run in declared]

    def in_setting(self, setting: Setting | None) -> "Scores":
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

    def repeats(self, run: str) -> list[str]:
        """Return a run and its repetitions."""
        return self.repetitions.get(run, [run])

    def first_of(self, run: str) -> str:
        """Return the run that a run repeats, or the run itself."""
        return next((first for first, names in self.repetitions.items() if run in names), run)

    def scored(self, run: str) -> bool:
        """Whether a run or one of its repetitions has scores."""
        return any(self.read(name) is not None for name in self.repeats(run))

    def outdated_runs(self, run: str) -> list[str]:
        """Return those of a run and its repetitions whose score file was made with other parameters."""
        return [name for name in self.repeats(run) if self.read(name) is None and name in self.outdated]

    def scored_seeds(self, run: str) -> frozenset[int | None]:
        """Return the seeds for which a run and its repetitions have any score."""
        return frozenset(found.get("seed") for name in self.repeats(run) if (found := self.read(name)))

    def seeds(self, run: str, metric: str) -> frozenset[int | None]:
        """Return the seeds for which a run and its repetitions have the metric."""
        value = self.over_seeds(run, lambda name: self.number(name, metric))
        return frozenset(value.seeds if value else ())

    def value(self, run: str, metric: str, seeds: Collection[int | None] | None = None) -> Value | None:
        """Return the metric of a run and its repetitions for these seeds (None: all), or None if none of them has the metric.

        `paired.<key>` is from the comparison with maximum likelihood. `paired.p` is the largest p, as a mean p has no meaning.
        """
        value = self.over_seeds(run, lambda name: self.number(name, metric))
        value = value.for_seeds(seeds) if value and seeds is not None else value
        if value and metric == "paired.p":
            return value.for_seeds([max(value.seeds, key=value.by_seed.__getitem__)])
        return value

    def over_seeds(self, run: str, measure: Callable[[str], Any]) -> Value | None:
        """Apply a function to a run and its repetitions and collect the numbers, or return None if there are none."""
        measured = {name: measure(name) for name in self.repeats(run)}
        numbers = {name: float(number) for name, number in measured.items() if isinstance(number, int | float)}
        seeds = tuple((self.read(name) or {}).get("seed") for name in numbers)
        return Value(tuple(numbers), tuple(numbers.values()), seeds) if numbers else None

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

    def test_freedom(self, metric: str) -> float:
        """Return the degrees of freedom of the test set: those of its units. Infinite where resamples have fewer."""
        return math.inf

    def fact(self, name: str, path: str) -> Any:
        """Return `parameters.<name>`, `options.<name>` or `signatures.<metric>.<key>` of a score file, or None."""
        kind, _, key = path.partition(".")
        listed = dict((self.read(name) or {}).get(kind, []))
        if kind != "signatures":
            return listed.get(key)
        metric, _, part = key.rpartition(".")
        return dict(pair.partition(":")[::2] for pair in listed.get(metric, "").split("|")).get(part)

    def option(self, name: str, option: str) -> Any:
        return self.fact(name, f"options.{option}")

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


class AllScores(dict[str, Scores]):
    """Scores of each task of the run sheet. Any other task has no runs."""

    def __init__(self, sheet: Sheet, folder: Path) -> None:
        """Prepare the scores of each task, which are read on demand. `folder`: reports/runs."""
        self.folder = folder
        for task, lines in sheet.runs.items():
            self[task] = Scores(task, lines, folder / task, sheet.baselines.get(task, {}))

    def __missing__(self, task: str) -> Scores:
        return Scores(task, {}, self.folder / task)


def _joined(files: dict[str, dict]) -> dict:
    """Return the first score file with the metrics and signatures of the others that have its parameters, and their names."""
    first = next(iter(files.values()))
    own = {stem: one for stem, one in files.items() if one.get("parameters_hash") == first.get("parameters_hash")}
    return first | {
        "metrics": {name: value for one in own.values() for name, value in one.get("metrics", {}).items()},
        "signatures": [pair for one in own.values() for pair in one.get("signatures", [])],
        "parts": list(own),
    }
