"""Metrics of the embedding table alone: every task has them."""

from typing import TYPE_CHECKING

import numpy as np

from raretokens.evaluation.metrics.frequency import norms, popularity_accuracy
from raretokens.evaluation.metrics.isotropy import (
    group_cosine,
    isotropy,
    isotropy_both_signs,
    log_partitions,
    mean_cosine,
    mean_inner_product,
    positive_cosine,
    rare_freq_cosine,
)
from raretokens.evaluation.metrics.neighbours import rare_among_neighbours_of_rare
from raretokens.evaluation.metrics.spectrum import all_but_top, effective_rank, iso_score, singular_values
from raretokens.evaluation.score_files import Signed

if TYPE_CHECKING:
    from raretokens.evaluation.artifacts import Artifacts


def geometry(artifacts: "Artifacts") -> Signed:
    """Metric -> (value, signature)."""
    return geometry_metrics(artifacts.table, artifacts.groups, artifacts.vocabulary.counts)


def geometry_metrics(matrix: np.ndarray, groups: np.ndarray, counts: np.ndarray | None = None) -> Signed:
    """Geometry of any embedding matrix; counts: of each row, None if no text was counted."""
    frequency = {} if counts is None else of_counts(matrix, groups, counts)
    return {**of_rows(matrix, groups), **frequency, **without_the_top(matrix, groups)}


def of_rows(table: np.ndarray, groups: np.ndarray) -> Signed:
    """What the table says by itself; groups without types have no value."""
    partitions = log_partitions(table, groups)
    return {
        "isotropy": isotropy(partitions),
        "isotropy_both_signs": isotropy_both_signs(partitions),
        "mean_cosine": mean_cosine(table, groups),
        "rare_freq_cosine": rare_freq_cosine(table, groups),
        "inner_product": mean_inner_product(table, groups),
        "iso_score": iso_score(table, groups),
        "effective_rank": effective_rank(table, groups),
        "singular_value": _second_and_third(table, groups),
        "cosine.mean": group_cosine(table, groups),
        "cosine.positive": positive_cosine(table, groups),
    }


def of_counts(table: np.ndarray, groups: np.ndarray, counts: np.ndarray) -> Signed:
    """What it says of frequency: popular and rare types, told apart by their counts."""
    return {
        "popularity": popularity_accuracy(table, counts, groups),
        "popularity_shuffled": popularity_accuracy(table, counts, groups, shuffled=True),
        "popularity_10": popularity_accuracy(table, counts, groups, popular=0.1),
        "popularity_25": popularity_accuracy(table, counts, groups, popular=0.25),
        "neighbours_of_rare": rare_among_neighbours_of_rare(table, counts, groups),
        "norm": norms(table, counts, groups),
    }


def _second_and_third(table: np.ndarray, groups: np.ndarray) -> tuple[dict[str, float], str]:
    """Singular values over the largest."""
    values, signature = singular_values(table, groups)
    return {str(rank): float(values[rank - 1]) for rank in (2, 3) if rank <= len(values)}, signature


def without_the_top(whole: np.ndarray, groups: np.ndarray) -> Signed:
    """The same of the table less its mean and first directions."""
    table, how = all_but_top(whole, groups)
    partitions, by_isotropy = isotropy(log_partitions(table, groups, ["total"]))
    cosine, by_cosine = mean_cosine(table, groups)
    return {
        "all_but_top.isotropy": (partitions["total"], f"{how}|{by_isotropy}"),
        "all_but_top.mean_cosine": (cosine, f"{how}|{by_cosine}"),
    }
