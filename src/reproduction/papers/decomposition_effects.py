"""Changes of rare-token perplexity split into P(rare) and perplexity within the rare group, beside the logit-bias baseline."""

import math
from dataclasses import dataclass

from raretokens.claims.comparison import Comparison, Effect
from raretokens.claims.expectation import EffectKind
from raretokens.claims.intervals import Interval
from reproduction.papers.declarations import Declarations
from reproduction.papers.logit_bias import LogitBiasBaseline, baselines
from reproduction.papers.task_scores import AllScores

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
