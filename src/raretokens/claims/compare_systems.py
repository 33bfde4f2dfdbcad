"""Compare two systems on every metric that both have, by the items that all runs have, without a file of claims."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from scipy.optimize import brentq

from raretokens.claims.comparison import Comparison
from raretokens.claims.intervals import LEVEL, Interval
from raretokens.claims.item_scores import (
    EXAMPLES,
    ItemColumn,
    ItemScores,
    OwnClaim,
    RunScores,
    check_comparable,
    gather,
)
from raretokens.claims.verdict import HIGHEST_Q, UNCHANGED, Outcome, Verdict, verdict_on, with_q
from raretokens.errors import UserError

POWER = 0.8  # probability to detect the smallest detectable difference
VERDICTS = {Outcome.REPRODUCED: "B is higher", Outcome.CONTRADICTED: "B is lower"}
NO_DIFFERENCE = "no difference shown"

FileRun = tuple[str, RunScores]  # the file of a run, and the run
Better = Literal["higher", "lower", "unknown"]

# Metrics whose higher, or lower, values are better: names of lm-evaluation-harness, Inspect, HELM and this project, without @k. A
# metric has the name as its last part, or as the end of that part after an underscore.
HIGHER = {
    "acc", "acc_all", "acc_bytes", "acc_mutual_info", "acc_norm", "accuracy", "alignsim", "auc", "auroc", "bert_score",
    "bertscore", "bleu", "bleu_1", "bleu_4", "bleurt", "chrf", "chrf++", "cider", "comet", "correct", "correctness",
    "edit_similarity", "em", "exact", "f1", "f1_score", "isotropy", "match", "math_equiv", "math_verify", "mc1", "mc2",
    "mcc", "meteor", "model_graded_fact", "model_graded_qa", "mrr", "ndcg", "pass", "pearson", "pearsonr", "precision",
    "recall", "reward", "rouge", "rouge1", "rouge2", "rouge_1", "rouge_2", "rouge_l", "rougel", "rougelsum",
    "sacrebleu", "spearman", "spearmanr", "uniq",
}  # fmt: skip
LOWER = {
    "bits_per_byte", "bpb", "bpc", "brier", "brier_score", "cer", "cross_entropy", "ece", "edit_distance", "error",
    "error_rate", "loss", "mae", "mse", "negative_log_likelihood", "nll", "perplexity", "ppl", "rmse", "ter", "wer",
}  # fmt: skip
SCORERS = {"answer", "choice", "includes", "math", "pattern"}  # of Inspect, after the task; higher is better
GROUPS = ("total", "freq", "med", "rare")  # of the types of this project; the last part of a metric such as ppl.rare


@dataclass(frozen=True)
class Matched:
    """Scores of two systems on the same items, and what was left out for that."""

    systems: tuple[str, str]
    metrics: tuple[str, ...]  # that both systems have
    scores: ItemScores
    dropped: dict[str, int]  # metric -> items that not all runs have
    only_one: dict[str, list[str]]  # system -> metrics that the other system lacks


@dataclass(frozen=True)
class MetricComparison:
    """The difference B - A of a metric."""

    metric: str
    verdict: Verdict[OwnClaim]  # on the claim that B is higher
    interval: Interval | None  # of seeds and items; of items alone where the variance between seeds is unknown
    detectable: float | None  # the true difference that is shown with probability POWER; None if none is, or it is unknown
    items: int | None  # None for a metric of the whole test set
    dropped: int  # items that not all runs have
    unshared: tuple[int, ...]  # seeds that only one of the systems has

    @property
    def conclusion(self) -> str:
        return VERDICTS.get(self.verdict.outcome, NO_DIFFERENCE)

    @property
    def note(self) -> str:
        """What limits the result, or an empty text."""
        verdict, notes = self.verdict, []
        if self.dropped:
            notes.append(f"{self.dropped} items are not in all runs and are left out")
        if self.unshared:
            notes.append(f"seeds of one system only do not count: {', '.join(map(str, self.unshared))}")
        if verdict.outcome == Outcome.NOT_TESTABLE or (verdict.outcome == Outcome.INCONCLUSIVE and verdict.p is None):
            notes.append(verdict.reason)
        if self.interval and verdict.effect.interval is None:
            notes.append("the interval is that of the items alone")
        if verdict.outcome in VERDICTS and verdict.q is not None and verdict.q > HIGHEST_Q:
            notes.append(f"q is above {HIGHEST_Q}, so this can be a chance finding among the metrics")
        return "; ".join(notes)


def compare(runs: Sequence[FileRun]) -> tuple[Matched, list[MetricComparison]]:
    """Return the difference of two systems, for each metric that both have.

    Raises:
        UserError: if there are not two systems, or if their scores cannot be compared.
    """
    matched = match(runs)
    comparisons = {metric: _comparison(metric, matched) for metric in matched.metrics}
    verdicts = [verdict_on(metric, claim, one, None) for metric, (claim, one) in comparisons.items()]
    return matched, [
        _of_metric(verdict, comparisons[verdict.name][1], matched) for verdict in with_q(verdicts, lambda _: "common metrics")
    ]


def _comparison(metric: str, matched: Matched) -> tuple[OwnClaim, Comparison]:
    a, b = matched.systems
    claim = OwnClaim(statement="B is higher", metric=metric, left=b, right=a, effect="difference", expect="higher")
    sides = {side: matched.scores.side(one.runs[0], metric) for side, one in claim.sides.items()}
    comparison = Comparison(claim.effect, sides, matched.scores)
    check_comparable(claim, comparison, matched.scores)
    return claim, comparison


def _of_metric(verdict: Verdict[OwnClaim], comparison: Comparison, matched: Matched) -> MetricComparison:
    metric = verdict.name
    columns = [row[metric] for row in matched.scores.columns.values() if metric in row]
    items = next((len(one.items) for one in columns if isinstance(one, ItemColumn)), None)
    seeds = [set(value.seeds) for value in comparison.values.values() if value]
    has_width = verdict.reason != UNCHANGED and not comparison.lacks_variance
    return MetricComparison(
        metric=metric,
        verdict=verdict,
        interval=verdict.effect.main_interval if has_width else None,
        detectable=detectable_difference(comparison),
        items=items,
        dropped=matched.dropped[metric],
        unshared=() if {None} in seeds else tuple(sorted(set.symmetric_difference(*seeds))),
    )


def detectable_difference(comparison: Comparison) -> float | None:
    """Return the true difference whose interval excludes 0 with probability POWER, with as many seeds and items.

    Return None if no variance is known, or if it is zero.
    """
    seeds = len(comparison.seed_effects)
    if comparison.posterior is None or comparison.lacks_variance or comparison.power(0.0, 0.0, seeds) is None:
        return None

    def excess(difference: float) -> float:
        return (comparison.power(difference, 0.0, seeds) or 0.0) - POWER

    high = comparison.posterior.reach(LEVEL)
    while excess(high) < 0:
        high *= 2
    return float(brentq(excess, 0.0, high, rtol=1e-6))


def match(runs: Sequence[FileRun]) -> Matched:
    """Return the scores of two systems on the items that all runs have.

    Raises:
        UserError: if there are not two systems, or if they have no metric or no item of a metric in common.
    """
    for file, run in runs:
        gather([(file, run)])  # each run is valid by itself
    metrics: dict[str, dict[str, None]] = {}  # system -> its metrics, in order
    for _, run in runs:
        metrics.setdefault(run.system, {}).update(dict.fromkeys(run.metrics))
    a, b = _two(list(metrics))
    common = tuple(name for name in metrics[a] if name in metrics[b])
    if not common:
        each = "; ".join(f"{system} has {', '.join(names)}" for system, names in metrics.items())
        raise UserError(f"no metric in common: {each}")
    parts: list[FileRun] = []
    dropped = {}
    for metric in common:
        own = [(file, run) for file, run in runs if metric in run.metrics]
        found, dropped[metric] = _on_common_items(metric, own)
        parts += found
    only_one = {system: [name for name in names if name not in common] for system, names in metrics.items()}
    return Matched((a, b), common, gather(parts), dropped, only_one)


def _two(systems: list[str]) -> tuple[str, str]:
    if len(systems) == 1:
        raise UserError(f"one system only, {systems[0]!r}; give the scores of a second one, perhaps named by SYSTEM=FILE")
    if len(systems) != 2:
        raise UserError(f"{len(systems)} systems: {', '.join(systems)}; give two, or a YAML file of claims before the scores")
    return systems[0], systems[1]


def _on_common_items(metric: str, runs: list[FileRun]) -> tuple[list[FileRun], int]:
    """Return the runs with this metric alone, on the items that all of them have, and the number of dropped items."""
    listed = [(file, run) for file, run in runs if isinstance(run.metrics[metric], list)]
    names = [set(run.items) if run.items else set(range(len(run.metrics[metric]))) for _, run in listed]
    common, every = set.intersection(*names) if names else set(), set().union(*names)
    if unnamed := next((file for file, run in listed if not run.items), None):
        if len(common) < len(every):
            raise UserError(f"{unnamed}: metrics.{metric}: items without names; name the `items`, as not all runs have the same")
        return [(file, _part(metric, run)) for file, run in runs], 0
    if listed and not common:
        first, second = (", ".join(sorted(one)[:EXAMPLES]) for one in _disjoint(names))
        raise UserError(f"{metric}: no item in common: a run has items such as {first}, another has {second}")
    kept = None if len(common) == len(every) else common
    return [(file, _part(metric, run, kept)) for file, run in runs], len(every) - len(common)


def _disjoint(names: list[set]) -> tuple[set, set]:
    """Return the first set of items, and one that shares fewest items with it."""
    return names[0], min(names, key=lambda other: len(names[0] & other))


def _part(metric: str, run: RunScores, kept: set | None = None) -> RunScores:
    """Return a run with one metric; with `kept`, on these items."""
    scores, items, clusters = run.metrics[metric], run.items, run.clusters
    if not isinstance(scores, list):
        items = clusters = None
    elif kept is not None and items:
        places = [place for place, item in enumerate(items) if item in kept]
        scores, items = [scores[place] for place in places], [items[place] for place in places]
        clusters = clusters and [clusters[place] for place in places]
    logarithms = [metric] if metric in run.logarithms else []
    return run.replaced(metrics={metric: scores}, items=items, clusters=clusters, logarithms=logarithms)


def better(metric: str) -> Better:
    """Return which values of a metric are better, such as `lower` for `wikitext.word_perplexity`."""
    *task, name = metric.lower().split(".")
    if name in GROUPS and task:
        *task, name = task
    if name in SCORERS and task:
        return "higher"
    words = name.partition("@")[0].split("_")
    for end in ("_".join(words[number:]) for number in range(len(words))):
        if end in HIGHER or end in LOWER:
            return "higher" if end in HIGHER else "lower"
    return "unknown"
