"""Scores of the runs on the run sheet; runs that differ in their seed alone are taken together."""

import json
import re
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from statistics import mean
from typing import Any

from raretokens.config import Parameters


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


def filled(names: list[str], size: str | None) -> list[str]:
    """Names of runs with the column's size in the place of {size}."""
    return [name.replace("{size}", size or "") for name in names]


@dataclass
class Scores:
    """reports/runs of one task, read as the run sheet names them: files of removed runs are not seen."""

    task: str
    lines: dict[str, Any]  # the run sheet
    folder: Path
    cache: dict[str, dict | None] = field(default_factory=dict)

    @classmethod
    def of(cls, parameters: Parameters, task: str, folder: Path) -> "Scores":
        return cls(task, dict(getattr(parameters.runs, task)), folder / task)

    def stems(self) -> dict[str, list[str]]:
        """Run -> it and its repetitions with other seeds (`agg`, `agg-2`, `agg-3`), in the order of the run sheet."""
        return self._stems

    @cached_property
    def _stems(self) -> dict[str, list[str]]:
        stems: dict[str, list[str]] = {}
        for name in self.lines:
            stems.setdefault(self._stem(name), []).append(name)
        return stems

    def _stem(self, name: str) -> str:
        found = re.fullmatch(r"(.+)-\d+", name)
        if found and found[1] in self.lines:
            ours, stems = (self.lines[n].model_dump() for n in (name, found[1]))
            if {**ours, "seed": None} == {**stems, "seed": None}:
                return found[1]
        return name

    def choose(self, names: list[str], size: str | None = None, data: bool = False) -> str | None:
        """The first of the names that is on the run sheet (a data row: that has a score file)."""
        known = (lambda name: self.read(name) is not None) if data else self.lines.__contains__
        return next(filter(known, filled(names, size)), None)

    def read(self, name: str) -> dict | None:
        if name not in self.cache:
            path = self.folder / f"{name}.json"
            self.cache[name] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None
        return self.cache[name]

    def value(self, stem: str, metric: str) -> Value | None:
        """The metric of a run and its repetitions; None where none of them has it.

        `paired.<what>` is that of the comparison with maximum likelihood; of several p the largest, as none is their mean.
        """
        found = []
        for name in self.stems().get(stem, [stem]):
            number = self._number(name, metric)
            if isinstance(number, int | float):
                found.append((name, float(number), (self.read(name) or {}).get("seed")))
        if metric == "paired.p":
            found = [max(found, key=lambda one: one[1])] if found else []
        return Value(*map(tuple, zip(*found, strict=True))) if found else None

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

    def points(self, name: str) -> Path:
        return self.folder / f"{name}.csv"
