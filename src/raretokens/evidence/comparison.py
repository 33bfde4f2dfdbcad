"""The effect of a metric between runs, with its intervals: the unit of claims, method tables and studies."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np

from raretokens.evidence.effects import combined_effect, from_additive, run_of, to_additive, value_of
from raretokens.evidence.intervals import FEWEST_SEEDS, Interval, bootstrap_interval, t_interval
from raretokens.evidence.scores import Scores, Value
from raretokens.papers.claim import Claim, EffectKind, Side


class SeedVariance(NamedTuple):
    """Standard deviation of an effect between seeds, on the additive scale, and its degrees of freedom."""

    deviation: float
    freedom: float

    def interval(self, centre: float, seeds: float) -> Interval:
        return t_interval(centre, self.deviation, self.freedom, seeds)


@dataclass(frozen=True)
class Effect:
    """The result of a comparison: means over seeds, and 95 % intervals."""

    kind: EffectKind
    left: float | None
    right: float | None
    value: float | None  # left / right, left - right or left, minus or divided by the control's effect
    seed_interval: Interval | None
    test_interval: Interval | None  # None if the metric has no bootstrap resamples
    seeds: int  # 0 if only texts are compared

    @property
    def has_few_seeds(self) -> bool:
        """Whether the interval over seeds uses the pooled seed variance."""
        return 0 < self.seeds < FEWEST_SEEDS


@dataclass(frozen=True)
class Comparison:
    """The ratio left / right, the difference left - right, or the value of left alone.

    With a control, a ratio is divided by the control's effect, and the control's effect is subtracted from other kinds.
    """

    kind: EffectKind
    sides: dict[str, Side]  # keys: left, right
    scores: Scores
    control: dict[str, Side] = field(default_factory=dict)  # keys: control.left, control.right
    thaw: float | None = None  # step at which the rows of a run thaw; None: the option `until` of the left run

    @classmethod
    def of_claim(cls, claim: Claim, scores: Scores) -> "Comparison":
        """Return the comparison of a claim."""
        control = {name: side for name, side in claim.all_sides.items() if name not in claim.sides}
        return cls(claim.effect, claim.sides, scores, control)

    @property
    def all_sides(self) -> dict[str, Side]:
        return {**self.sides, **self.control}

    @property
    def is_untrained(self) -> bool:
        """Whether only texts are compared, so that there are no seeds and no test set."""
        return all(side.data for side in self.all_sides.values())

    @cached_property
    def runs(self) -> dict[str, str | None]:
        """Side -> its run."""
        return {name: run_of(side, self.scores) for name, side in self.all_sides.items()}

    @property
    def thaw_step(self) -> float | None:
        run = self.runs["left"]
        return self.thaw or (self.scores.option(run, "until") if run else None)

    @cached_property
    def values(self) -> dict[str, Value | None]:
        """Side -> its metric over seeds."""
        return {name: value_of(side, self.scores, self.thaw_step) for name, side in self.all_sides.items()}

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
    def mean(self) -> float | None:
        """The mean effect over seeds, or None without seeds."""
        if not self.seed_effects:
            return None
        if not self.is_finite:
            return float(np.mean(list(self.seed_effects.values())))
        return float(from_additive(self.kind, float(np.mean(self.additive_effects))))

    @cached_property
    def seed_interval(self) -> Interval | None:
        """The interval over seeds, on the additive scale. With fewer than three seeds it uses the pooled seed variance."""
        effects = self.additive_effects
        if not len(effects) or not self.is_finite:
            return None
        centre = float(np.mean(effects))
        if len(effects) >= FEWEST_SEEDS:
            return t_interval(centre, float(np.std(effects, ddof=1)), len(effects) - 1, len(effects))
        pooled = None if self.is_untrained else self.pooled_variance
        return pooled and pooled.interval(centre, len(effects))

    @cached_property
    def test_interval(self) -> Interval | None:
        """The interval over the test set, on the additive scale; None if no side has bootstrap resamples."""
        if not self.seed_effects or not self.is_finite:
            return None
        bootstrap = self._bootstrap
        return None if bootstrap is None else bootstrap_interval(float(np.mean(self.additive_effects)), bootstrap)

    @property
    def intervals(self) -> list[Interval]:
        return [interval for interval in (self.seed_interval, self.test_interval) if interval]

    @property
    def effect(self) -> Effect:
        return Effect(
            kind=self.kind,
            left=self._mean_of("left"),
            right=self._mean_of("right"),
            value=self.mean,
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

    def direction(self, low: float, high: float) -> Literal["lower", "higher", "same"] | None:
        """Return where all intervals lie, or None if they do not agree: below `low`, above `high`, or between the two.

        If only texts are compared, the effects themselves are used instead of intervals.
        """
        low, high = (float(to_additive(self.kind, bound)) for bound in (low, high))
        points = [Interval(effect, effect) for effect in map(float, self.additive_effects)]
        intervals = points if self.is_untrained else self.intervals
        if all(interval.is_below(low) for interval in intervals):
            return "lower"
        if all(interval.is_above(high) for interval in intervals):
            return "higher"
        return "same" if low < high and all(interval.is_inside(low, high) for interval in intervals) else None

    @property
    def _bootstrap(self) -> np.ndarray | None:
        """The effect on resampled test sets, as the mean over seeds on the additive scale; shape (resamples,).

        None if no side has resamples; NaN if one side has resamples and another side has none.
        """
        rows = []
        for runs in self.seed_runs.values():
            found = [self._resamples(side, run) for side, run in zip(self.all_sides.values(), runs, strict=True)]
            if all(values is None for values in found):
                return None
            numbers = [np.array(np.nan) if values is None else values for values in found]
            with np.errstate(divide="ignore", invalid="ignore"):
                rows.append(to_additive(self.kind, combined_effect(self.kind, numbers)))
        return np.mean(rows, axis=0) if rows else None

    def _resamples(self, side: Side, run: str | None) -> np.ndarray | None:
        return None if run is None or side.at is not None else self.scores.bootstrap(run, side.metric)

    @cached_property
    def pooled_variance(self) -> SeedVariance | None:
        """The largest seed variance of this effect among runs of the same model and text with at least two seeds, or None.

        A comparison with fewer than three seeds uses it. The variance of a method's own seeds may be larger, so the verdict
        reports the number of seeds. A comparison of two runs compares each run with maximum likelihood, whose seeds then
        enter every difference. Hence k runs of n seeds do not have k (n - 1) degrees of freedom but, with equal variances, 4
        k (n - 1) / (k + 3) (Satterthwaite). The same number is used for a metric of a single run, because runs with a common
        seed share their initialization and the order of the text.
        """
        runs = [run for name, run in self.runs.items() if name in self.sides and not self.sides[name].data]
        if None in runs:
            return None
        alone, own = len(set(runs)) == 1, self.scores.lines[runs[0]]
        others = [run for run in self.scores.repetitions if self.scores.lines[run].same_model(own)]
        found = [self._moved(run, run if alone else self.scores.baseline_run(run)) for run in others]
        samples = [effects for effects in found if len(effects) > 1 and np.all(np.isfinite(effects))]
        if not samples:
            return None
        variance = max(np.var(effects, ddof=1) for effects in samples)
        # The effect of the control is assumed to have the same variance.
        deviation = float(np.sqrt(2 * variance if self.control else variance))
        freedom = sum(len(effects) - 1 for effects in samples) * 4 / (len(samples) + 3)
        return SeedVariance(deviation, freedom) if deviation else None

    def _moved(self, run: str, other: str | None) -> np.ndarray:
        """Return the additive effects, per seed, of the same comparison between other runs, without its control."""
        if other is None:
            return np.array([])
        left = self.runs["left"]
        sides = {
            name: side if side.data else side.replaced(runs=[run if self.runs[name] == left else other])
            for name, side in self.sides.items()
        }
        thaw = self.scores.option(left, "until") if left else None
        return Comparison(self.kind, sides, self.scores, thaw=thaw).additive_effects
