"""Numbers read off the course of a training: when half of a fall was done, how much the rare group grew, how far rows moved."""

from collections.abc import Mapping, Sequence
from typing import Any

from raretokens.metrics.norms import norms
from raretokens.scoring.artifacts import Artifacts
from raretokens.scoring.history import RARE_GROUP_UPDATES, Log, Moment
from raretokens.scoring.layout import Signed

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
