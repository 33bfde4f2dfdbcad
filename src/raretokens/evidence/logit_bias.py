"""The rival of what leaves rare types more probability: maximum likelihood with one constant on the logits of all rare types."""

from statistics import geometric_mean

from raretokens.evidence.scores import Scores

METRIC = "ppl.rare"


def constant_at_most(run: str, beside: str, scores: Scores) -> float | None:
    """The ratio of rare perplexities that a constant gives at most, where rare types get the run's mean probability of them.

    Let m be their probability at a position under maximum likelihood. A constant with factor c makes it c m / (1 + (c - 1) m),
    which is concave in m for c > 1, so c is at least the odds of the run's mean over the odds of the mean of m; and the mean of
    log((1 + (c - 1) m) / c) over rare targets is at most that of their mean m. The geometric mean over the seeds that both
    have; None where a number is missing, or the run gives rare types no more than maximum likelihood.
    """
    total, before, of_rare = (
        dict(zip(value.seeds, value.values, strict=True)) if (value := scores.value(name, metric)) else {}
        for name, metric in ((run, "rare_mass.total"), (beside, "rare_mass.total"), (beside, "rare_mass.rare"))
    )
    seeds = [seed for seed in total if seed in before and seed in of_rare]
    if not seeds or any(total[seed] <= before[seed] for seed in seeds):
        return None
    return geometric_mean(_bound(_odds(total[seed]) / _odds(before[seed]), of_rare[seed]) for seed in seeds)


def _bound(factor: float, share: float) -> float:
    return (1 + (factor - 1) * share) / factor


def _odds(share: float) -> float:
    return share / (1 - share)
