"""Scores of the runs on the run sheet; runs that differ in their seed alone are taken together."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import pandas as pd

from raretokens.reporting.sheet import Sheet, SheetLine


@dataclass(frozen=True)
class Value:
    """A metric over seeds: the mean, and the spread, which is half the range (None with one seed)."""

    runs: tuple[str, ...]
    values: tuple[float, ...]
    seeds: tuple[int | None, ...]

    @property
    def mean(self) -> float:
        return mean(self.values)

    @property
    def spread(self) -> float | None:
        return (max(self.values) - min(self.values)) / 2 if len(self.values) > 1 else None


@dataclass
class Scores:
    """reports/runs of one task, read as the run sheet names them: files of removed runs are not seen."""

    task: str
    lines: dict[str, SheetLine]  # the run sheet
    folder: Path
    baselines: dict[str, str] = field(default_factory=dict)  # score file that needs no model -> its corpus
    cache: dict[str, dict | None] = field(default_factory=dict)
    drawn: dict[str, pd.DataFrame] = field(default_factory=dict)

    @cached_property
    def repetitions(self) -> dict[str, list[str]]:
        """Run -> it and its repetitions, in the order of the run sheet.

        A repetition has the line of an earlier run in everything but the seed, whatever it is called.
        """
        groups: dict[str, list[str]] = {}
        for name, line in self.lines.items():
            first = next((run for run in groups if line.same_but_seed(self.lines[run])), name)
            seeds = [self.lines[run].seed for run in groups.get(first, [])]
            groups.setdefault(name if line.seed in seeds else first, []).append(name)
        return groups

    def names(self) -> Iterator[str]:
        """Runs that have scores, in the order of the run sheet; then what needs no model."""
        return (name for name in (*self.lines, *self.baselines) if self.read(name))

    def choose(self, names: list[str], data: bool = False) -> str | None:
        """The first of the names that is on the run sheet (a data row: that has a score file)."""
        known = (lambda name: self.read(name) is not None) if data else self.lines.__contains__
        return next(filter(known, names), None)

    def read(self, name: str) -> dict | None:
        if name not in self.cache:
            path = self.folder / f"{name}.json"
            self.cache[name] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None
        return self.cache[name]

    def value(self, run: str, metric: str) -> Value | None:
        """The metric of a run and its repetitions; None where none of them has it.

        `paired.<what>` is that of the comparison with maximum likelihood; of several p the largest, as none is their mean.
        """
        value = self.over_seeds(run, lambda name: self._number(name, metric))
        if value is None or metric != "paired.p":
            return value
        worst = value.values.index(max(value.values))
        return Value(*((part[worst],) for part in (value.runs, value.values, value.seeds)))

    def over_seeds(self, run: str, measure: Callable[[str], Any]) -> Value | None:
        """Numbers that are measured of a run and its repetitions; None where there is none."""
        measured = {name: measure(name) for name in self.repetitions.get(run, [run])}
        numbers = {name: float(number) for name, number in measured.items() if isinstance(number, int | float)}
        seeds = tuple((self.read(name) or {}).get("seed") for name in numbers)
        return Value(tuple(numbers), tuple(numbers.values()), seeds) if numbers else None

    def replicates(self, name: str, metric: str) -> np.ndarray | None:
        """The metric on drawn test sets, the same for every run; None where it was not drawn, or cannot be."""
        if name not in self.drawn:
            path = self.folder / f"{name}.drawn.csv"
            self.drawn[name] = pd.read_csv(path) if path.is_file() else pd.DataFrame()
        return self.drawn[name][metric].to_numpy(float) if metric in self.drawn[name] else None

    def _number(self, name: str, metric: str) -> Any:
        kind, _, rest = metric.partition(".")
        number: Any = (self.read("paired" if kind == "paired" else name) or {}).get("metrics")
        for part in (name, rest) if kind == "paired" else metric.split("."):
            number = number.get(part) if isinstance(number, dict) else None
        return number

    def fact(self, name: str, path: str) -> Any:
        """`parameters.<name>` or `options.<name>` of a run, as its score file lists it; None where it does not."""
        kind, _, key = path.partition(".")
        return dict((self.read(name) or {}).get(kind, [])).get(key)

    def option(self, name: str, option: str) -> Any:
        return self.fact(name, f"options.{option}")

    def points(self, name: str) -> Path:
        return self.folder / f"{name}.csv"


def all_scores(sheet: Sheet, folder: Path) -> dict[str, Scores]:
    """Scores of each task; folder: reports/runs."""
    return {
        task: Scores(task, lines, folder / task, sheet.baselines.get(task, {})) for task, lines in sheet.runs.items()
    }
