"""Compute the metrics of the embedding matrix alone, which every task reports."""

from raretokens.metrics.geometry import all_but_top_geometry, frequency_geometry, row_geometry
from raretokens.metrics.score_files import Metrics
from reproduction.tasks.evaluation.artifacts import Artifacts


def geometry(artifacts: "Artifacts") -> Metrics:
    """Return metric -> (value, signature) of the embedding matrix of a run."""
    matrix, groups, counts = artifacts.embedding, artifacts.groups, artifacts.vocabulary.counts
    frequency = frequency_geometry(matrix, groups, counts)
    return {**row_geometry(matrix, groups), **frequency, **all_but_top_geometry(matrix, groups)}
