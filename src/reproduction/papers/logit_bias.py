"""The logit-bias baseline: what a constant on the logits of rare types reaches, chosen on the validation text.

The baseline needs no training. Its bias has one parameter, a constant on the logits of all rare types, or two, the constant and a
slope in log frequency (logit adjustment, Menon et al. 2021). It is compared with a method at the same mean P(rare) of the
validation text, or at the same total perplexity there. TaskScores of a run of maximum likelihood contain its frontier
(`<run>.logit-bias.csv`): perplexities for a grid of constants and slopes, between which cubic splines interpolate.

A method may have a rare group of its own, as AGG has. Another baseline then adds its constant to a group of the same size,
without a slope. Its P(rare) is the mean probability of that group.

The decomposition of a method compares it with its baselines, and splits its change of rare-token perplexity into P(rare) and the
perplexity within the rare group.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from statistics import geometric_mean
from typing import Literal

import numpy as np
import pandas as pd
from scipy.interpolate import CubicSpline
from scipy.optimize import brentq, minimize_scalar

from raretokens.claims.comparison import Comparison, Effect
from raretokens.claims.expectation import EffectKind
from raretokens.claims.intervals import FEWEST_SEEDS, Interval, student
from reproduction.papers.declarations import Declarations
from reproduction.papers.task_scores import AllScores, TaskScores

Equal = Literal["mean P(rare)", "total perplexity"]
Group = Literal["rare", "own"]
AIMS: dict[Group, dict[Equal, str]] = {  # group that the constant acts on -> metrics of a run that the baseline is matched on
    "rare": {"mean P(rare)": "valid_rare_mass.total", "total perplexity": "valid_ppl.total"},
    "own": {"mean P(rare)": "own_group.valid_mass", "total perplexity": "valid_ppl.total"},
}
MOST_SENSITIVE = 100.0  # of `Bias.sensitivity`: 0.1 % of the total perplexity moves that of rare targets by 10 %
BIAS_PARAMETERS: dict[Group, tuple[int, ...]] = {"rare": (1, 2), "own": (1,)}
COLUMNS: dict[Equal, str] = {"mean P(rare)": "valid_mass", "total perplexity": "valid_total"}


@dataclass(frozen=True)
class Bias:
    """A bias that was chosen on the validation text, and its perplexities of the test text."""

    slope: float
    constant: float
    valid_rare: float  # perplexity of rare targets of the validation text
    freq: float
    med: float
    rare: float
    total: float
    sensitivity: float = 0.0  # relative change of rare-token perplexity per relative change of the number that it was matched on

    @property
    def is_determined(self) -> bool:
        """Whether the matched number determines the constant.

        Near the lowest total perplexity, it depends on last digits, which differ between processors.
        """
        return self.sensitivity <= MOST_SENSITIVE


@dataclass(frozen=True)
class LogitBiasBaseline:
    """The baseline of one run, for the seeds that the run shares with maximum likelihood.

    Ratios are geometric means over these seeds.
    """

    group: Group  # that the constant acts on
    equal: Equal
    parameters: int  # 1 or 2
    biases: dict[int | None, Bias]  # seed -> bias
    rare: float  # perplexity of rare targets divided by that of maximum likelihood
    total: float  # perplexity of all targets divided by that of maximum likelihood
    advantage: float  # rare-token perplexity of the run divided by that of the baseline
    interval: Interval | None  # of the advantage, over seeds; None with fewer than three

    @property
    def is_main(self) -> bool:
        """Whether this is the baseline that findings name: a constant on rare types that gives them the run's mean P(rare)."""
        return (self.group, self.equal, self.parameters) == ("rare", "mean P(rare)", 1)

    @property
    def slope(self) -> float:
        """The mean slope over seeds, per nat."""
        return float(np.mean([bias.slope for bias in self.biases.values()]))

    @property
    def constant(self) -> float:
        """The mean constant over seeds, in nats."""
        return float(np.mean([bias.constant for bias in self.biases.values()]))


def baselines(run: str, scores: TaskScores) -> list[LogitBiasBaseline]:
    """Return the baselines of a run of a method, or [] if no seed of it has the scores that they need."""
    found = []
    shared = list(shared_seeds(run, scores))
    for group, aims in AIMS.items():
        known = [(name, seed, mle, curves) for name, seed, mle in shared if (curves := _curves(name, mle, group, scores))]
        for (equal, metric), parameters in product(aims.items(), BIAS_PARAMETERS[group]):
            chosen = [
                (name, seed, mle, bias)
                for name, seed, mle, curves in known
                if (aim := scores.number(name, metric)) is not None and (bias := choose(curves, aim, equal, parameters))
            ]
            if chosen:
                found.append(_baseline(group, equal, parameters, chosen, scores))
    return found


def _baseline(
    group: Group, equal: Equal, parameters: int, chosen: list[tuple[str, int, str, Bias]], scores: TaskScores
) -> LogitBiasBaseline:
    """Return a baseline. `chosen`: run, seed, run of maximum likelihood and bias, for each seed."""
    logs, interval = np.array([math.log(scores.number(name, "ppl.rare") / bias.rare) for name, _, _, bias in chosen]), None
    if len(logs) >= FEWEST_SEEDS:
        interval = student(float(logs.std(ddof=1)) / len(logs) ** 0.5, len(logs) - 1).interval(float(logs.mean()))
    return LogitBiasBaseline(
        group=group,
        equal=equal,
        parameters=parameters,
        biases={seed: bias for _, seed, _, bias in chosen},
        rare=geometric_mean(bias.rare / scores.number(mle, "ppl.rare") for _, _, mle, bias in chosen),
        total=geometric_mean(bias.total / scores.number(mle, "ppl.total") for _, _, mle, bias in chosen),
        advantage=math.exp(logs.mean()),
        interval=interval and Interval(*map(math.exp, interval)),
    )


def _curves(name: str, mle: str, group: Group, scores: TaskScores) -> "list[Curve]":
    """Return the frontier of the maximum likelihood that a run is compared with, for a group that the constant acts on."""
    share = scores.number(name, "own_group.baseline_share")
    if group == "own" and share is None:
        return []
    frontier = scores.frontier(mle, share if group == "own" else None)
    is_complete = frontier is not None and bool(frontier.notna().all(axis=None))
    return curves_of(frontier) if is_complete else []  # a short text may have no target of a group


def shared_seeds(run: str, scores: TaskScores) -> Iterator[tuple[str, int, str]]:
    """Yield each repetition of a run whose seed maximum likelihood has too, the seed, and the run of maximum likelihood."""
    for name in scores.repeats(run):
        seed, mle = scores.lines[name].seed, scores.baseline_run(name)
        if mle and scores.lines[mle].seed == seed:
            yield name, seed, mle


def choose(frontier: "list[Curve]", aim: float, equal: Equal, parameters: int) -> Bias | None:
    """Return the bias that reaches an aim on the validation text with the lowest perplexity of rare targets there.

    Args:
        frontier: A curve for each slope.
        aim: Mean P(rare), or total perplexity, of the validation text.
        equal: What the aim is.
        parameters: 1 for slope 0, 2 for any slope of the frontier.
    Returns:
        None if no bias of the frontier reaches the aim. If all cost more than a total perplexity, the cheapest bias.
    """
    curves = [curve for curve in frontier if parameters == 2 or curve.slope == 0]
    found = [bias for curve in curves if (bias := curve.reaching(aim, equal))]
    if found:
        return min(found, key=lambda bias: bias.valid_rare)
    if equal == "total perplexity" and all(curve.lowest > aim for curve in curves):
        return min(curves, key=lambda curve: curve.lowest).at_lowest(aim)
    return None


def curves_of(frontier: pd.DataFrame) -> "list[Curve]":
    """Return the curves of a frontier, which has the columns slope, constant, and perplexities of both texts."""
    return [Curve(float(slope), rows) for slope, rows in frontier.groupby("slope")]


class Curve:
    """The biases of one slope, with splines of all numbers over the constant."""

    def __init__(self, slope: float, rows: pd.DataFrame) -> None:
        self.slope, self.constants = slope, rows.constant.to_numpy(float)
        columns = rows.drop(columns=["slope", "constant"])
        self.columns, self.logs = list(columns), CubicSpline(self.constants, np.log(columns.to_numpy(float)))
        index, last = int(columns.valid_total.to_numpy().argmin()), len(self.constants) - 1
        around = self.constants[max(index - 1, 0)], self.constants[min(index + 1, last)]
        self.cheapest = float(minimize_scalar(self._log("valid_total"), bounds=around, method="bounded").x)
        self.lowest = float(np.exp(self._log("valid_total")(self.cheapest)))

    def _log(self, column: str) -> Callable[[float], float]:
        """Return the logarithm of a column as a function of the constant."""
        index = self.columns.index(column)
        return lambda constant: float(self.logs(constant)[index])

    def reaching(self, aim: float, equal: Equal) -> Bias | None:
        """Return the bias that reaches the aim, or None. Of two constants with the same total the larger counts."""
        log, start = self._log(COLUMNS[equal]), self.constants[0] if equal == "mean P(rare)" else self.cheapest
        if not log(start) < np.log(aim) < log(self.constants[-1]):
            return None
        constant = brentq(lambda at: log(at) - np.log(aim), start, self.constants[-1])
        return self._bias(constant, abs(float(self.logs(constant, 1)[self.columns.index(COLUMNS[equal])])))

    def at_lowest(self, aim: float) -> Bias:
        """Return the bias with the lowest total perplexity, which an aim below it cannot reach.

        It is as sensitive as one whose aim is as far above the lowest, because last digits decide on which side a near aim is.
        """
        curvature = float(self.logs(self.cheapest, 2)[self.columns.index("valid_total")])
        return self._bias(self.cheapest, math.sqrt(2 * max(curvature, 0.0) * math.log(self.lowest / aim)))

    def _bias(self, constant: float, slope: float) -> Bias:
        """Return the bias with this constant. `slope`: of the logarithm of the number that it was matched on."""
        rare = abs(float(self.logs(constant, 1)[self.columns.index("test_rare")]))
        at = dict(zip(self.columns, map(float, np.exp(self.logs(constant))), strict=True))
        return Bias(
            self.slope, float(constant), at["valid_rare"], *(at[f"test_{kind}"] for kind in ("freq", "med", "rare", "total")),
            rare / max(slope, 1e-12),
        )  # fmt: skip


def frontier_points(frontier: pd.DataFrame, parameters: int) -> tuple[np.ndarray, np.ndarray]:
    """Return total and rare-token perplexities of the test text that the baseline reaches, divided by maximum likelihood's.

    The total rises from left to right. With two parameters, the validation text chooses the slope for each total perplexity.
    """
    mle = frontier[(frontier.slope == 0) & (frontier.constant == 0)].iloc[0]
    curves, aims = curves_of(frontier), mle.valid_total * np.geomspace(1.0001, 1.12, 60)
    found = [bias for aim in aims if (bias := choose(curves, aim, "total perplexity", parameters))]
    total, rare = np.array([(bias.total, bias.rare) for bias in found]).reshape(-1, 2).T
    return total / mle.test_total, rare / mle.test_rare


TASK = "lm"
PARTS: dict[str, EffectKind] = {  # metric -> kind of effect; ppl.rare = ppl_within.rare / mass.rare
    "ppl.rare": "ratio",
    "mass.rare": "ratio",
    "ppl_within.rare": "ratio",
    "auc.rare": "difference",
    "ppl.total": "ratio",
}
RARE_SHARE = 0.002  # share of test tokens that AGG calls rare (section 3.1)
REPORTED = ("agg_table1", "agg_table2", "agg_table3")  # tables of AGG with perplexity by group on WikiText-103


@dataclass(frozen=True)
class Decomposition:
    """A run of a method compared with maximum likelihood on the same model, text and seeds."""

    run: str
    objective: str
    effects: dict[str, Effect]  # by metric of PARTS
    baselines: list[LogitBiasBaseline]
    own_share: float | None = None  # share of the types in the rare group of the objective, if it has one of its own

    @property
    def main_baseline(self) -> LogitBiasBaseline | None:
        return next((one for one in self.baselines if one.is_main), None)


def decompositions(scores: AllScores) -> list[Decomposition]:
    """Return the decomposition of each run that, like its baseline, has one; repetitions are averaged."""
    part, found = scores[TASK], []
    for run in part.repetitions:
        mle = part.baseline_run(run)
        seeds = part.seeds(run, "ppl_within.rare") & part.seeds(mle, "ppl_within.rare") if mle else None
        if not seeds:
            continue
        shared = part.with_seeds([run, mle], seeds)  # for all metrics, so that the product of the parts is the whole
        effects = {metric: Comparison.of_runs(kind, metric, run, mle, shared).effect for metric, kind in PARTS.items()}
        own = part.value(run, "own_group.share")
        found.append(Decomposition(run, part.lines[run].objective, effects, baselines(run, part), own and own.mean))
    return found


@dataclass(frozen=True)
class Implied:
    """What reported perplexities imply for targets that are not rare, all as ratios to maximum likelihood."""

    table: str
    row: str
    rare: float
    total: float
    others: float  # perplexity of targets that are not rare
    constant: Interval  # what the logit-bias baseline with the same rare-token perplexity would cost them


def implied(declared: Declarations) -> list[Implied]:
    """Return what AGG's tables of language models imply, for each row that lowers rare-token perplexity."""
    found, seen = [], set()
    for table in REPORTED:
        reported = declared.reported(table)
        numbers = {row: [reported.mean(row, "PPL", group) for group in ("Rare", "Total")] for row in reported.rows}
        for row, own in numbers.items():
            if row == "MLE" or None in own or row in seen:
                continue
            rare, total = (one / other for one, other in zip(own, numbers["MLE"], strict=True))
            if rare >= 1:
                continue
            seen.add(row)
            others, costs = ratio_of_others(rare, total, RARE_SHARE), cost_of_constant(rare, RARE_SHARE)
            found.append(Implied(table, row, rare, total, others, costs))
    return found


def ratio_of_others(rare: float, total: float, share: float) -> float:
    """Return the ratio of the perplexity of targets that are not rare, from those of rare targets and of all targets.

    ln PPL = share x ln PPL(rare) + (1 - share) x ln PPL(others). `share`: the share of rare targets.
    """
    return math.exp((math.log(total) - share * math.log(rare)) / (1 - share))


def cost_of_constant(rare: float, share: float) -> Interval:
    """Return what the logit-bias baseline costs other targets if it reaches a ratio of rare-token perplexity, which is below 1.

    The baseline multiplies the odds of rare types by c. If maximum likelihood is calibrated, its mean P(rare) is the share s. If
    P(rare) is s at rare targets too, c = (1 - s) / (ratio - s); if it is negligible there, c = 1 / ratio. Other targets cost
    1 + (c - 1) s.
    """
    return Interval(*(1 + (factor - 1) * share for factor in (1 / rare, (1 - share) / (rare - share))))
