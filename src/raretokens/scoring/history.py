"""The geometry of the embedding table in the course of training, from its snapshots."""

from dataclasses import dataclass
from itertools import pairwise
from statistics import mean

import numpy as np

from raretokens.metrics.cosine import mean_inner_product, rare_freq_cosine
from raretokens.metrics.isotropy import isotropy, log_partitions
from raretokens.metrics.rows import GROUPS
from raretokens.scoring.score_files import Point

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
