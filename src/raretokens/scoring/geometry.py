"""Metrics of the embedding table alone: every task has them."""

from raretokens.metrics.all_but_top import all_but_top
from raretokens.metrics.cosine import mean_cosine, mean_inner_product, rare_freq_cosine
from raretokens.metrics.isotropy import isotropy, isotropy_both_signs, log_partitions
from raretokens.metrics.spectrum import effective_rank, iso_score
from raretokens.scoring.artifacts import Artifacts
from raretokens.scoring.layout import Signed


def geometry(artifacts: Artifacts) -> Signed:
    """Metric -> (value, signature)."""
    table, groups = artifacts.table, artifacts.groups
    partitions = log_partitions(table, groups)
    return {
        "isotropy": isotropy(partitions),
        "isotropy_both_signs": isotropy_both_signs(partitions),
        "mean_cosine": mean_cosine(table, groups),
        "rare_freq_cosine": rare_freq_cosine(table, groups),
        "inner_product": mean_inner_product(table, groups),
        "iso_score": iso_score(table, groups),
        "effective_rank": effective_rank(table, groups),
        **_without_the_top(artifacts),
    }


def _without_the_top(artifacts: Artifacts) -> Signed:
    table, how = all_but_top(artifacts.table, artifacts.groups)
    partitions, by_isotropy = isotropy(log_partitions(table, artifacts.groups, ["total"]))
    cosine, by_cosine = mean_cosine(table, artifacts.groups)
    return {
        "all_but_top.isotropy": (partitions["total"], f"{how}|{by_isotropy}"),
        "all_but_top.mean_cosine": (cosine, f"{how}|{by_cosine}"),
    }
