"""The geometry of the embedding table in the course of training, from its snapshots.

Numbers read off the course of a training: when half of a fall was done, how much the rare group grew, how far rows moved.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import mean
from typing import Any

import numpy as np

from raretokens.evaluation.artifacts import Artifacts
from raretokens.evaluation.metrics.frequency import norms
from raretokens.evaluation.metrics.isotropy import isotropy, log_partitions, mean_inner_product, rare_freq_cosine
from raretokens.evaluation.metrics.rows import GROUPS
from raretokens.evaluation.score_files import Point, Signed

NLL_POINTS = 200  # of a training curve
RARE_GROUP_UPDATES = 1000  # AGG figure 4 shows as many
HEADER = ("update", "nll", "valid_nll", "iw", "iw_rare", "rare_freq_cosine", "rare_group_size")
Log = list[dict[str, str]]


@dataclass(frozen=True)
class Moment:
    """The table after an update (0: as initialised); a number is None where its group is empty."""

    update: int
    isotropy: dict[str, float | None]
    rare_freq_cosine: float | None
    inner_product: dict[str, float | None]


def moment(update: int, table: np.ndarray, groups: np.ndarray) -> Moment:
    return Moment(
        update,
        isotropy(log_partitions(table, groups))[0],
        rare_freq_cosine(table, groups)[0],
        mean_inner_product(table, groups)[0],
    )


def geometry_points(history: list[Moment]) -> list[Point]:
    """I(W), rare-frequent cosine (AGG figure 2) and inner products (AGPS figure 2) over updates, by group."""
    points = [("isotropy", group, now.update, now.isotropy[group]) for group in GROUPS for now in history]
    points += [("rare_freq_cosine", "rare", now.update, now.rare_freq_cosine) for now in history]
    points += [
        ("inner_product", group, now.update, now.inner_product[group]) for group in GROUPS[1:] for now in history
    ]
    return [point for point in points if point[3] is not None]


def log_points(log: Log) -> list[Point]:
    """Losses over updates; AGG also reports the size of its rare group (its figure 4)."""
    thinned = [log[i] for i in np.unique(np.linspace(0, len(log) - 1, min(len(log), NLL_POINTS)).round().astype(int))]
    measured = [("nll", "train", row, "nll") for row in thinned]
    measured += [("nll", "valid", row, "valid_nll") for row in log]
    measured += [("rare_group_size", "rare", row, "rare_group_size") for row in log[:RARE_GROUP_UPDATES]]
    return [
        (series, group, int(row["update"]), _number(row[column]))
        for series, group, row, column in measured
        if row.get(column)
    ]


def curves(history: list[Moment], log: Log) -> list[tuple]:
    """Rows of HEADER, one a snapshot after the first: what was logged since the row before, and the table's geometry.

    nll is the mean over the updates in between, valid_nll and rare_group_size are the last ones there; None where
    nothing was measured.
    """
    rows = []
    for before, now in pairwise(history):
        since = [row for row in log if before.update < int(row["update"]) <= now.update]
        nll = [float(row["nll"]) for row in since]
        valid, rare = (
            [_number(row[name]) for row in since if row.get(name)] for name in ("valid_nll", "rare_group_size")
        )
        geometry = now.isotropy["total"], now.isotropy["rare"], now.rare_freq_cosine
        rows.append((now.update, mean(nll) if nll else None, _last(valid), *geometry, _last(rare)))
    return rows


def _last(values: list[float]) -> float | None:
    return values[-1] if values else None


def _number(text: str) -> float:
    return int(text) if text.isdigit() else float(text)


SMALLEST_FALL = 0.05  # of I(W), below which there is no fall to speak of


def course(artifacts: Artifacts, history: Sequence[Moment]) -> Signed:
    """Metric -> (value, signature); a number that does not exist is None."""
    since = int(artifacts.run.options.get("until", 0))
    falls = {
        group: half_fall([(now.update, now.isotropy[group]) for now in history], since) for group in history[0].isotropy
    }
    signed: Signed = {"half_fall": (falls, f"of:isotropy|since:{since}|smallest:{SMALLEST_FALL:g}")}
    rise = largest_rise(artifacts.log)
    if rise is not None:
        signed["rare_group.largest_rise"] = rise, f"updates:{RARE_GROUP_UPDATES}"
    signed["moved"] = _moved(artifacts)
    return signed | _of_alpha(artifacts.summary)


def _of_alpha(summary: Mapping[str, Any]) -> Signed:
    """Which share AGG's alpha makes rare, by the counts of the training text."""
    parts = {"rare_group.types": "rare_types", "rare_group.tokens": "rare_tokens"}
    return {path: (summary[key], "by:alpha|split:train") for path, key in parts.items() if key in summary}


def half_fall(curve: Sequence[tuple[int, float | None]], since: int) -> float | None:
    """When a curve had fallen half of what it falls from update `since` to the end, as a share of the last update."""
    points = [(update, value) for update, value in curve if update >= since and value is not None]
    if len(points) < 2 or points[0][1] - points[-1][1] < SMALLEST_FALL:
        return None
    half = (points[0][1] + points[-1][1]) / 2
    return next(update for update, value in points if value <= half) / points[-1][0]


def largest_rise(log: Log) -> float | None:
    """Of the size of AGG's rare group from an update to the next, as a share of it; None without a group."""
    sizes = [int(row["rare_group_size"]) for row in log[:RARE_GROUP_UPDATES] if row.get("rare_group_size")]
    rises = [(now - before) / before for before, now in zip(sizes, sizes[1:], strict=False) if before]
    return max(rises, default=None)


def _moved(artifacts: Artifacts) -> tuple[dict, str]:
    snapshots = artifacts.snapshots()
    first = next(snapshots)[1].astype("float32")
    value, signature = norms(artifacts.table - first, artifacts.vocabulary.counts, artifacts.groups)
    return value, f"from:start|to:scored|{signature}"
