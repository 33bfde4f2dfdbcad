"""Metrics of an embedding matrix alone."""

import numpy as np

from raretokens.metrics import isotropy
from raretokens.metrics.frequency import norms, popularity_accuracy
from raretokens.metrics.neighbours import rare_among_neighbours_of_rare
from raretokens.metrics.score_files import Metrics
from raretokens.metrics.spectrum import all_but_top, effective_rank, iso_score, singular_values


def row_geometry(embedding: np.ndarray, groups: np.ndarray) -> Metrics:
    """Return the metrics of the rows alone; empty groups have no value."""
    norm_rms = isotropy.rms_norms(embedding, groups)
    partitions, at_unit_rms = isotropy.scaled_log_partitions(embedding, groups, norm_rms[0])
    return {
        "isotropy": isotropy.isotropy(partitions),
        "isotropy_both_signs": isotropy.isotropy_both_signs(partitions),
        "isotropy_unit_rms": isotropy.isotropy_unit_rms(at_unit_rms),
        "norm_rms": norm_rms,
        "mean_cosine": isotropy.mean_cosine(embedding, groups),
        "rare_freq_cosine": isotropy.rare_freq_cosine(embedding, groups),
        "inner_product": isotropy.mean_inner_product(embedding, groups),
        "iso_score": iso_score(embedding, groups),
        "effective_rank": effective_rank(embedding, groups),
        "singular_value": _second_and_third(embedding, groups),
        "cosine.mean": isotropy.group_cosine(embedding, groups),
        "cosine.positive": isotropy.positive_cosine(embedding, groups),
    }


def frequency_geometry(embedding: np.ndarray, groups: np.ndarray, counts: np.ndarray) -> Metrics:
    """Return the metrics of how the rows encode frequency; popular and rare types follow from the counts."""
    return {
        "frequency_probe": popularity_accuracy(embedding, counts, groups),
        "frequency_probe_shuffled": popularity_accuracy(embedding, counts, groups, shuffled=True),
        "frequency_probe_10": popularity_accuracy(embedding, counts, groups, popular=0.1),
        "frequency_probe_25": popularity_accuracy(embedding, counts, groups, popular=0.25),
        "neighbours_of_rare": rare_among_neighbours_of_rare(embedding, counts, groups),
        "norm": norms(embedding, counts, groups),
    }


def _second_and_third(embedding: np.ndarray, groups: np.ndarray) -> tuple[dict[str, float], str]:
    """Return the second and third singular value, divided by the largest."""
    values, signature = singular_values(embedding, groups)
    return {str(rank): float(values[rank - 1]) for rank in (2, 3) if rank <= len(values)}, signature


def all_but_top_geometry(whole: np.ndarray, groups: np.ndarray) -> Metrics:
    """Return the isotropy of the matrix without its mean row and first principal directions."""
    embedding, how = all_but_top(whole, groups)
    partitions, by_isotropy = isotropy.isotropy(isotropy.log_partitions(embedding, groups, ["total"]))
    cosine, by_cosine = isotropy.mean_cosine(embedding, groups)
    return {
        "all_but_top.isotropy": (partitions["total"], f"{how}|{by_isotropy}"),
        "all_but_top.mean_cosine": (cosine, f"{how}|{by_cosine}"),
    }
