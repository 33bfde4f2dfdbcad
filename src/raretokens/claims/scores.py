"""Scores of systems that were trained with several seeds, as comparisons read them."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from statistics import mean
from typing import Any

import numpy as np

from raretokens.claims.expectation import Side
from raretokens.schema import Section


class SheetLine(Section):
    """A run with its resolved seed and options, as they are used in training."""

    model: str
    objective: str
    seed: int
    tokens: str  # folder of its token files
    reverse: bool = False
    init_from: str | None = None  # run whose weights the run starts from
    options: dict[str, Any] = {}  # options of the objective
    parameters_hash: str = ""  # hash of the parameters of all stages of the run; a current score file contains the same hash

    def same_model(self, other: "SheetLine") -> bool:
        """Whether both runs have the same architecture, text and direction, whatever their objectives."""
        return (self.model, self.tokens, self.reverse) == (other.model, other.tokens, other.reverse)

    def same_but_seed(self, other: "SheetLine") -> bool:
        return self.replaced(seed=other.seed, parameters_hash=other.parameters_hash) == other


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
class Scores(ABC):
    """Scores of runs. A subclass says where they come from: it has `number` and `bootstrap`."""

    lines: dict[str, SheetLine]  # run -> its line of the run sheet
    _: KW_ONLY
    cache: dict[str, dict | None] = field(default_factory=dict)  # run -> its score file
    ignored: frozenset[str] = frozenset()  # repetitions that are left out

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

    def read(self, name: str) -> dict | None:
        """Return the facts about a run, or None if it has no scores."""
        return self.cache.get(name)

    @abstractmethod
    def number(self, name: str, metric: str) -> Any:
        """Return a metric of one run, or None."""

    @abstractmethod
    def bootstrap(self, name: str, metric: str) -> np.ndarray | None:
        """Return the metric on resampled test sets, which are the same for all runs, or None if there are no resamples."""

    def choose(self, names: Sequence[str], data: bool = False) -> str | None:
        """Return the first of the names that is on the run sheet. With `data`, return the first that has a score file."""
        known = (lambda name: self.read(name) is not None) if data else self.lines.__contains__
        return next(filter(known, self.own_names(names)), None)

    def own_names(self, declared: Iterable[str]) -> list[str]:
        """Return the names that declared runs have in these scores."""
        return list(declared)

    def repeats(self, run: str) -> list[str]:
        """Return a run and its repetitions."""
        return self.repetitions.get(run, [run])

    def first_of(self, run: str) -> str:
        """Return the run that a run repeats, or the run itself."""
        return next((first for first, names in self.repetitions.items() if run in names), run)

    def scored(self, run: str) -> bool:
        """Whether a run or one of its repetitions has scores."""
        return any(self.read(name) is not None for name in self.repeats(run))

    def scored_seeds(self, run: str) -> frozenset[int | None]:
        """Return the seeds for which a run and its repetitions have any score."""
        return frozenset(found.get("seed") for name in self.repeats(run) if (found := self.read(name)))

    def seeds(self, run: str, metric: str) -> frozenset[int | None]:
        """Return the seeds for which a run and its repetitions have the metric."""
        value = self.over_seeds(run, lambda name: self.number(name, metric))
        return frozenset(value.seeds if value else ())

    def of(self, side: Side, thaw: float | None = None) -> Value | None:
        """Return the metric of a side over seeds. `thaw`: the step that `at: until` means for a run without that option."""
        run = self.choose(side.runs, data=side.data)
        return None if run is None else self.value(run, side.metric)

    def value(self, run: str, metric: str, seeds: Collection[int | None] | None = None) -> Value | None:
        """Return the metric of a run and its repetitions for these seeds (None: all), or None if none of them has the metric."""
        value = self.over_seeds(run, lambda name: self.number(name, metric))
        return value.for_seeds(seeds) if value and seeds is not None else value

    def over_seeds(self, run: str, measure: Callable[[str], Any]) -> Value | None:
        """Apply a function to a run and its repetitions and collect the numbers, or return None if there are none."""
        measured = {name: measure(name) for name in self.repeats(run)}
        numbers = {name: float(number) for name, number in measured.items() if isinstance(number, int | float)}
        seeds = tuple((self.read(name) or {}).get("seed") for name in numbers)
        return Value(tuple(numbers), tuple(numbers.values()), seeds) if numbers else None

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
