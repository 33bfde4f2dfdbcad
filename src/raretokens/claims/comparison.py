"""The effect of a metric between runs, with its intervals: the unit of claims, method tables and studies."""

from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Literal

import numpy as np
from scipy.special import ndtr

from raretokens.claims.effects import FEWEST_ROWS, Family, combined_effect, from_additive, to_additive
from raretokens.claims.expectation import EffectKind, Expectation, Side
from raretokens.claims.intervals import (
    FEWEST_SEEDS,
    LEVEL,
    EffectPart,
    Interval,
    Posterior,
    bootstrap_interval,
    moderated,
    student,
)
from raretokens.claims.scores import Scores, SheetLine, Value

Direction = Literal["lower", "higher", "same"]
ROUNDING = 1e-9  # of the numbers compared: a standard deviation below this share is of floating-point numbers
SIGNS = {"left": 1, "right": -1, "control.left": -1, "control.right": 1}  # of the sides in an effect on the additive scale


@dataclass(frozen=True)
class Effect:
    """The result of a comparison: means over seeds, and 95 % intervals."""

    kind: EffectKind
    left: float | None
    right: float | None
    value: float | None  # left / right, left - right or left, minus or divided by the control's effect
    interval: Interval | None  # of the total variance, between seeds and between test sets
    seed_interval: Interval | None  # of the variance between seeds alone
    test_interval: Interval | None  # of that between test sets alone; None if the metric has no bootstrap resamples
    seeds: int  # 0 if only texts are compared

    @property
    def main_interval(self) -> Interval | None:
        """The interval of the total variance, or the interval over the test set alone if the seed variance is unknown."""
        return self.interval or self.test_interval

    @property
    def has_few_seeds(self) -> bool:
        """Whether the effect has fewer than three seeds, so that most of its seed variance comes from other runs."""
        return 0 < self.seeds < FEWEST_SEEDS


@dataclass(frozen=True)
class Comparison:
    """The ratio left / right, the difference left - right, or the value of left alone.

    With a control, a ratio is divided by the control's effect, and the control's effect is subtracted from other kinds.
    """

    kind: EffectKind
    all_sides: dict[str, Side]  # keys: left, right, control.left, control.right
    scores: Scores

    @classmethod
    def of_claim(cls, claim: Expectation, scores: Scores) -> "Comparison":
        return cls(claim.effect, claim.all_sides, scores)

    @classmethod
    def of_runs(cls, kind: EffectKind, metric: str, run: str, baseline: str, scores: Scores) -> "Comparison":
        runs = {"left": run, "right": baseline}
        return cls(kind, {side: Side(runs=[name], metric=metric) for side, name in runs.items()}, scores)

    @property
    def sides(self) -> dict[str, Side]:
        """The sides without those of the control."""
        return {name: side for name, side in self.all_sides.items() if not name.startswith("control.")}

    @property
    def is_untrained(self) -> bool:
        """Whether no side has seeds: texts are compared, or fixed models. Texts have no test set either."""
        return all(side.data for side in self.all_sides.values())

    @cached_property
    def runs(self) -> dict[str, str | None]:
        """Side -> its run."""
        return {name: self.scores.choose(side.runs, data=side.data) for name, side in self.all_sides.items()}

    @property
    def thaw_step(self) -> float | None:
        """The option `until` of the left run, which `at: until` means for a run without that option."""
        run = self.runs["left"]
        return self.scores.option(run, "until") if run else None

    @cached_property
    def values(self) -> dict[str, Value | None]:
        """Side -> its metric over seeds."""
        return {name: self.scores.of(side, self.thaw_step) for name, side in self.all_sides.items()}

    @cached_property
    def seed_runs(self) -> dict[int | None, list[str | None]]:
        """Seed -> the run of each side, for the seeds that all sides have. Empty if a side has no number.

        A side that needs no model has no seed. Its number is compared with every seed of the other sides.
        """
        values = list(filter(None, self.values.values()))
        if len(values) < len(self.values):
            return {}
        found = [dict(zip(value.seeds, value.runs, strict=True)) for value in values]
        seeded = [runs for runs in found if None not in runs]
        common = [seed for seed in (seeded[0] if seeded else found[0]) if all(seed in runs for runs in seeded)]
        return {seed: [runs.get(seed, runs.get(None)) for runs in found] for seed in common}

    @cached_property
    def seed_effects(self) -> dict[int | None, float]:
        """Seed -> effect."""
        numbers = [dict(zip(value.runs, value.values, strict=True)) for value in self.values.values() if value]
        return {
            seed: float(combined_effect(self.kind, [of[run] for of, run in zip(numbers, runs, strict=True)]))
            for seed, runs in self.seed_runs.items()
        }

    @cached_property
    def additive_effects(self) -> np.ndarray:
        """The effect of each seed, on the additive scale; shape (seeds,)."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return to_additive(self.kind, np.array(list(self.seed_effects.values())))

    @property
    def is_finite(self) -> bool:
        return bool(np.all(np.isfinite(self.additive_effects)))

    @property
    def is_constant(self) -> bool:
        """Whether the effect is exactly none on every seed and every resampled test set, so that it can have no other value.

        Without resamples, one seed is not enough: two counts can be equal by chance.
        """
        if self.kind == "value" or not len(self.additive_effects) or np.any(self.additive_effects):
            return False
        return bool(not np.any(self._bootstrap)) if self._bootstrap is not None else len(self.additive_effects) > 1

    @property
    def lacks_variance(self) -> bool:
        """Whether the interval has no width, up to rounding: the effect is the same on every seed and resampled test set.

        False where texts are compared exactly, and where fixed models have equal scores on every item.
        """
        if self.posterior is None or not self.is_finite or (self.is_untrained and self.is_constant):
            return False
        numbers = [1.0] if self.kind == "ratio" else [value.mean for value in self.values.values() if value]
        return bool(np.sqrt(np.max(self.posterior.variances)) <= ROUNDING * np.max(np.abs(numbers)))

    @property
    def mean(self) -> float | None:
        """The mean effect over seeds, or None without seeds."""
        if not self.seed_effects:
            return None
        if not self.is_finite:
            return float(np.mean(list(self.seed_effects.values())))
        return float(from_additive(self.kind, float(np.mean(self.additive_effects))))

    @cached_property
    def seed_posterior(self) -> Posterior | None:
        """The variance of the mean effect between seeds, from the rows of the same model; None if it is unknown.

        Where fewer than FEWEST_ROWS rows have several seeds, it is that of Student's t of the effects of the single seeds, and
        unknown with fewer than FEWEST_SEEDS of them.
        """
        return self._of_seeds(len(self.seed_effects))

    def _of_seeds(self, seeds: int) -> Posterior | None:
        """Return the variance of the mean effect between this number of seeds, or None if it is unknown."""
        effects = self.additive_effects
        if not len(effects) or not self.is_finite or self.is_untrained:
            return None
        found = [self._part_of_family(family, runs, seeds) for family, runs in self._families.values()]
        if None not in found:
            return reduce(Posterior.combined, found)
        if len(effects) < FEWEST_SEEDS:
            return None
        return student(float(np.std(effects, ddof=1)) / seeds**0.5, seeds - 1)

    def _part_of_family(self, family: Family, runs: list[tuple[str, int]], seeds: int) -> Posterior | None:
        """Return the variance of the sum of the means of some runs of a family, or None if the family has too few rows."""
        cancels = sum(sign for _, sign in runs) == 0
        variances = family.variances(is_paired=cancels and family.p_of_seeds < 1 - LEVEL)
        values, freedoms = (np.array([row[part] for row in variances.values()]) for part in (0, 1))
        if len(values) < FEWEST_ROWS or np.median(values) == 0:
            return None
        own = [variances.get(self.scores.first_of(run), (0.0, 0.0)) for run, _ in runs]
        more = seeds - len(self.seed_effects)  # a run with several seeds has as many more degrees of freedom
        planned = (freedom + more if freedom and freedom + more > 0 else freedom for _, freedom in own)
        parts = [EffectPart(variance, freedom, seeds) for (variance, _), freedom in zip(own, planned, strict=True)]
        return moderated(values, freedoms, parts)

    @cached_property
    def posterior(self) -> Posterior | None:
        """The total variance of the mean effect, between seeds and between test sets; None if that of seeds is unknown.

        For fixed models it is the variance between test sets alone.
        """
        return self._with_test_set(self.seed_posterior)

    def _with_test_set(self, of_seeds: Posterior | None) -> Posterior | None:
        """Return a variance between seeds with the variance between test sets added."""
        resamples = self._bootstrap
        if resamples is None or of_seeds is None and not (self.is_untrained and self.is_finite):
            return of_seeds
        freedom = min(resamples.shape[1] - 1, *(self.scores.test_freedom(side.metric) for side in self.all_sides.values()))
        return of_seeds.plus(self.test_variance, freedom) if of_seeds else student(self.test_variance**0.5, freedom)

    def power(self, effect: float, threshold: float, seeds: int) -> float | None:
        """Return the probability that the interval of so many seeds lies on the side of the threshold where the effect is.

        The variance between seeds and that between test sets are estimated from the present runs. More seeds than these add
        degrees of freedom to runs with several seeds. A run with one seed gains none.

        Args:
            effect: the true effect.
            threshold: the effect that the interval must exclude.
            seeds: at least two.
        Returns:
            None if the variance is unknown, zero or infinite, or if the effect or the threshold is not finite.
        """
        posterior = self._with_test_set(self._of_seeds(seeds)) if self.seed_effects else None
        ends = to_additive(self.kind, np.array([effect, threshold]))
        if posterior is None or np.min(posterior.variances) == 0 or not np.all(np.isfinite([*ends, *posterior.variances])):
            return None
        distance, reach = float(abs(ends[0] - ends[1])), posterior.reach(LEVEL)
        return float(np.sum(posterior.weights * ndtr((distance - reach) / np.sqrt(posterior.variances))))

    @property
    def test_variance(self) -> float:
        """The variance between test sets that all seeds share; 0 without resamples, infinite if a resample has no number.

        A resampled test set moves all seeds alike, and each seed on its own in addition. The second part is already in the
        variance between seeds, whose scores come from one test set. With one seed the parts cannot be separated, and the
        second is counted twice.
        """
        resamples = self._bootstrap
        if resamples is None:
            return 0.0
        if not np.all(np.isfinite(resamples)):
            return np.inf
        mean, seeds = resamples.mean(axis=0), len(resamples)
        own = float(np.sum(np.var(resamples - mean, axis=1, ddof=1))) / (seeds - 1) if seeds > 1 else 0.0
        return max(0.0, float(np.var(mean, ddof=1)) - own / seeds)

    @cached_property
    def seed_interval(self) -> Interval | None:
        """The interval over seeds alone, on the additive scale."""
        return self.seed_posterior and self.seed_posterior.interval(self._centre)

    @cached_property
    def test_interval(self) -> Interval | None:
        """The interval over the test set alone, on the additive scale; None if no side has bootstrap resamples."""
        if not self.seed_effects or not self.is_finite or self._bootstrap is None:
            return None
        return bootstrap_interval(self._centre, self._bootstrap.mean(axis=0))

    @cached_property
    def interval(self) -> Interval | None:
        """The interval of the total variance, on the additive scale."""
        return self.posterior and self.posterior.interval(self._centre)

    @property
    def _centre(self) -> float:
        return float(np.mean(self.additive_effects))

    @property
    def effect(self) -> Effect:
        return Effect(
            kind=self.kind,
            left=self._mean_of("left"),
            right=self._mean_of("right"),
            value=self.mean,
            interval=self._rescaled(self.interval),
            seed_interval=self._rescaled(self.seed_interval),
            test_interval=self._rescaled(self.test_interval),
            seeds=len(self.seed_effects.keys() - {None}),
        )

    def _mean_of(self, side: str) -> float | None:
        """Return a side's mean over the seeds of the effect. If the side has none of these seeds, use all its seeds."""
        value = self.values.get(side)
        return (value.for_seeds(self.seed_effects) or value).mean if value else None

    def _rescaled(self, interval: Interval | None) -> Interval | None:
        """Transform an interval from the additive scale to the scale of the effect."""
        return interval and Interval(*(float(from_additive(self.kind, end)) for end in interval))

    def p_values(self, low: float, high: float) -> dict[Direction, float]:
        """Direction -> two-sided p of the hypothesis that the effect lies elsewhere.

        `lower` is below `low`, `higher` above `high`, and `same` between the two, which needs both one-sided tests. p is below
        0.05 exactly where the interval excludes the rest. If only texts are compared, which have no variance, p is 0 or 1.
        """
        low, high = (float(to_additive(self.kind, bound)) for bound in (low, high))
        if self.is_untrained and self.posterior is None:
            least, most = (float(end(self.additive_effects)) for end in (np.min, np.max))
            found = {"lower": most < low, "higher": least > high, "same": low < high and low <= least and most <= high}
            return {direction: 0.0 if holds else 1.0 for direction, holds in found.items()}
        if self.posterior is None:
            return {}
        centre, posterior = self._centre, self.posterior
        return {
            "lower": float(posterior.p(low - centre)) if centre < low else 1.0,
            "higher": float(posterior.p(centre - high)) if centre > high else 1.0,
            "same": float(max(posterior.p(centre - low), posterior.p(high - centre)))
            if low < high and low < centre < high
            else 1.0,
        }

    def direction(self, low: float, high: float) -> Direction | None:
        """Return where the interval lies: below `low`, above `high`, between the two, or None if it contains a bound."""
        return next((direction for direction, p in self.p_values(low, high).items() if p < 1 - LEVEL), None)

    @cached_property
    def _bootstrap(self) -> np.ndarray | None:
        """The effect of each seed on resampled test sets, on the additive scale; shape (seeds, resamples).

        None if no side has resamples; NaN if one side has resamples and another side has none.
        """
        rows = []
        for runs in self.seed_runs.values():
            found = [self._resamples(side, run) for side, run in zip(self.all_sides.values(), runs, strict=True)]
            if all(values is None for values in found):
                return None
            numbers = [np.array(np.nan) if values is None else values for values in found]
            with np.errstate(divide="ignore", invalid="ignore"):
                rows.append(np.atleast_1d(to_additive(self.kind, combined_effect(self.kind, numbers))))
        return np.array(np.broadcast_arrays(*rows)) if rows else None

    def _resamples(self, side: Side, run: str | None) -> np.ndarray | None:
        return None if run is None or side.at is not None else self.scores.bootstrap(run, side.metric)

    @cached_property
    def _families(self) -> dict[str, tuple[Family, list[tuple[str, int]]]]:
        """Name -> a family of rows, and the trained runs of the effect that are in it, each with its sign."""
        sides_of: dict[str, list[tuple[int, Side]]] = {}  # run -> its sides with their signs
        for side_name, side in self.all_sides.items():
            if not side.data and (run := self.runs[side_name]):
                sides_of.setdefault(run, []).append((SIGNS[side_name], side.replaced(runs=[run])))
        found: dict[str, tuple[Family, list[tuple[str, int]]]] = {}
        for run, sides in sides_of.items():
            sign, line = sides[0][0], self.scores.lines[run]
            own = [(sign * other, side) for other, side in sides]
            metrics = [(part, side.metric, side.at) for part, side in own]
            name = f"{line.model} {line.tokens} {line.reverse} {metrics}"
            if name not in found:
                found[name] = Family(_family_rows(self.kind, own, line, self.scores, self.thaw_step)), []
            found[name][1].append((run, sign))
        return found


def _family_rows(
    kind: EffectKind, sides: list[tuple[int, Side]], line: SheetLine, scores: Scores, thaw: float | None
) -> dict[str, dict[int, float]]:
    """Return row -> seed -> the number that a run has in an effect, for all runs of the same model and text.

    The sides are those of one run with their signs on the additive scale, where they are summed. `line` is that of the run.
    """
    found: dict[str, dict[int, float]] = {}
    for row in (row for row in scores.repetitions if scores.lines[row].same_model(line)):
        values = [scores.of(side.replaced(runs=[row]), thaw) for _, side in sides]
        numbers = [value.by_seed if value else {} for value in values]
        common = [seed for seed in numbers[0] if all(seed in of for of in numbers)]
        with np.errstate(divide="ignore", invalid="ignore"):
            parts = [
                [sign * to_additive(kind, of[seed]) for seed in common]
                for (sign, _), of in zip(sides, numbers, strict=True)
            ]
        sums = zip(common, np.sum(parts, axis=0), strict=True)
        found[row] = {seed: float(number) for seed, number in sums if np.isfinite(number)}
    return found
