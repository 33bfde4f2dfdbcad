"""Summarise the course of training: losses, and the geometry of the embedding matrix in the snapshots."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import mean

import numpy as np

from raretokens.metrics.frequency import norms
from raretokens.metrics.isotropy import isotropy, log_partitions, mean_inner_product, rare_freq_cosine
from raretokens.metrics.rows import GROUPS
from raretokens.metrics.score_files import Metrics, Point
from reproduction.tasks.evaluation.artifacts import Artifacts

NLL_POINTS = 200  # largest number of points of a training curve
RARE_GROUP_STEPS = 1000  # training steps that AGG figure 4 shows
HEADER = ("update", "nll", "valid_nll", "iw", "iw_rare", "rare_freq_cosine", "rare_group_size")
Log = list[dict[str, str]]


@dataclass(frozen=True)
class SnapshotGeometry:
    """Geometry of the embedding matrix after a training step, 0 at initialisation; None where a group is empty."""

    step: int
    isotropy: dict[str, float | None]
    rare_freq_cosine: float | None
    inner_product: dict[str, float | None]


def measure_snapshot(step: int, embedding: np.ndarray, groups: np.ndarray) -> SnapshotGeometry:
    """Compute the geometry of the embedding matrix (N x d) after a training step."""
    return SnapshotGeometry(
        step,
        isotropy(log_partitions(embedding, groups))[0],
        rare_freq_cosine(embedding, groups)[0],
        mean_inner_product(embedding, groups)[0],
    )


def geometry_points(history: list[SnapshotGeometry]) -> list[Point]:
    """Return I(W), rare-frequent cosine (AGG figure 2) and inner products (AGPS figure 2) by training step and group."""
    points = [("isotropy", group, now.step, now.isotropy[group]) for group in GROUPS for now in history]
    points += [("rare_freq_cosine", "rare", now.step, now.rare_freq_cosine) for now in history]
    points += [("inner_product", group, now.step, now.inner_product[group]) for group in GROUPS[1:] for now in history]
    return [point for point in points if point[3] is not None]


def log_points(log: Log) -> list[Point]:
    """Return losses, and the size of AGG's rare group (AGG figure 4), by training step."""
    thinned = [log[i] for i in np.unique(np.linspace(0, len(log) - 1, min(len(log), NLL_POINTS)).round().astype(int))]
    measured = [("nll", "train", row, "nll") for row in thinned]
    measured += [("nll", "valid", row, "valid_nll") for row in log]
    measured += [("rare_group_size", "rare", row, "rare_group_size") for row in log[:RARE_GROUP_STEPS]]
    return [
        (series, group, int(row["update"]), _number(row[column]))
        for series, group, row, column in measured
        if row.get(column)
    ]


def curve_rows(history: list[SnapshotGeometry], log: Log) -> list[tuple]:
    """Return one row of HEADER for each snapshot after the first.

    nll is the mean over the training steps since the previous snapshot. valid_nll and rare_group_size are the last values
    logged since the previous snapshot. A cell is None where nothing was measured.
    """
    rows = []
    for before, now in pairwise(history):
        since = [row for row in log if before.step < int(row["update"]) <= now.step]
        nll = [float(row["nll"]) for row in since]
        valid, rare = (
            next((_number(row[name]) for row in reversed(since) if row.get(name)), None)
            for name in ("valid_nll", "rare_group_size")
        )
        geometry = now.isotropy["total"], now.isotropy["rare"], now.rare_freq_cosine
        rows.append((now.step, mean(nll) if nll else None, valid, *geometry, rare))
    return rows


def _number(text: str) -> float:
    return int(text) if text.isdigit() else float(text)


SMALLEST_FALL = 0.05  # smallest decrease of I(W) for which half_fall() is defined


def course_metrics(artifacts: Artifacts, history: Sequence[SnapshotGeometry]) -> Metrics:
    """Return metric -> (value, signature); the value is None where undefined."""
    since = int(artifacts.run.options.get("until", 0))
    falls = {
        group: half_fall([(now.step, now.isotropy[group]) for now in history], since) for group in history[0].isotropy
    }
    signed: Metrics = {"half_fall": (falls, f"of:isotropy|since:{since}|smallest:{SMALLEST_FALL:g}")}
    rise = largest_rise(artifacts.log)
    if rise is not None:
        signed["rare_group.largest_rise"] = rise, f"updates:{RARE_GROUP_STEPS}"
    signed["displacement"] = _moved(artifacts)
    # Shares of types and training tokens that are rare according to AGG's alpha.
    shares = {"rare_group.types": "rare_types", "rare_group.tokens": "rare_tokens"}
    summary = artifacts.summary
    return signed | {path: (summary[key], "by:alpha|split:train") for path, key in shares.items() if key in summary}


def half_fall(curve: Sequence[tuple[int, float | None]], since: int) -> float | None:
    """Return the first step at which half of the decrease since step `since` is reached, divided by the last step.

    None with fewer than two points, or where the decrease is below SMALLEST_FALL.
    """
    points = [(step, value) for step, value in curve if step >= since and value is not None]
    if len(points) < 2 or points[0][1] - points[-1][1] < SMALLEST_FALL:
        return None
    half = (points[0][1] + points[-1][1]) / 2
    return next(step for step, value in points if value <= half) / points[-1][0]


def largest_rise(log: Log) -> float | None:
    """Return the largest relative growth of AGG's rare group between logged training steps; None without a rare group."""
    sizes = [int(row["rare_group_size"]) for row in log[:RARE_GROUP_STEPS] if row.get("rare_group_size")]
    rises = [(now - before) / before for before, now in pairwise(sizes) if before]
    return max(rises, default=None)


def _moved(artifacts: Artifacts) -> tuple[dict, str]:
    snapshots = artifacts.snapshots()
    first = next(snapshots)[1].astype("float32")
    value, signature = norms(artifacts.embedding - first, artifacts.vocabulary.counts, artifacts.groups)
    return value, f"from:start|to:scored|{signature}"
