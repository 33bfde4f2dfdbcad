"""What moved in the points of a figure."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from raretokens import csv_files
from raretokens.papers.declarations import Declarations
from raretokens.papers.metric import Tolerance
from raretokens.reporting.diff.move import Move, number_moves

KEYS = ["panel", "run", "group"]
Series = dict[tuple[str, str, str], np.ndarray]  # panel, run, group -> x and y of each point


def figure_moves(place: str, before: str, now: str, declared: Declarations) -> Iterator[Move]:
    """Curves are compared point by point, clouds by their sorted coordinates: points have no identity across machines.

    A shift is a share of the range of the whole panel, since a curve that hardly moves has none of its own. Panels of a
    metric have its tolerance.
    """
    figure = declared.figures.get(Path(place).stem)
    limit = figure.drift if figure else 0.0
    drifts = _drifts(place, declared)
    old, new = _series(before), _series(now)
    ranges = _ranges(old)
    for key in dict.fromkeys([*old, *new]):
        panel, row = key[0], " ".join(filter(None, key))
        a, b = old.get(key), new.get(key)
        if a is None or b is None or len(a) != len(b):
            counts = ["" if part is None else f"{len(part)} points" for part in (a, b)]
            yield Move(place, row, "points", *counts, "same number", True)
        elif panel in drifts:
            yield from _metric_moves(place, row, a, b, drifts[panel])
        else:
            yield from _shift_moves(place, row, _shift(a, b, ranges[panel]), limit)


def _drifts(place: str, declared: Declarations) -> dict[str, Tolerance]:
    """Panel of a metric -> its tolerance."""
    figure = declared.figures.get(Path(place).stem)
    panels = [panel for panel in figure.panels if panel.metric] if figure else []
    return {panel.title: declared.metric(panel.metric).drift for panel in panels}


def _metric_moves(place: str, row: str, old: np.ndarray, new: np.ndarray, drift: Tolerance) -> Iterator[Move]:
    for before, now in zip(old[:, 1], new[:, 1], strict=True):
        yield from number_moves(place, row, "y", f"{before:g}", f"{now:g}", drift)


def _shift_moves(place: str, row: str, shift: float, limit: float) -> Iterator[Move]:
    if shift:
        yield Move(
            place, row, "mean shift / range", "0", f"{shift:.2g}", f"{limit:g}", not shift <= limit
        )  # NaN is none within


def _shift(old: np.ndarray, new: np.ndarray, span: np.ndarray) -> float:
    """Mean shift of the points, as a share of the panel's range; the larger of x and y."""
    if not (_is_curve(old) and _is_curve(new)):
        old, new = np.sort(old, axis=0), np.sort(new, axis=0)
    return float((np.abs(old - new).mean(axis=0) / np.maximum(span, 1e-12)).max())


def _is_curve(points: np.ndarray) -> bool:
    """x rises from point to point, which the points of a cloud do not."""
    return bool((np.diff(points[:, 0]) > 0).all())


def _series(text: str) -> Series:
    groups = csv_files.parse_csv(text).groupby(KEYS, sort=False)
    return {key: points[["x", "y"]].to_numpy(dtype=float) for key, points in groups}


def _ranges(series: Series) -> dict[str, np.ndarray]:
    """Panel -> range of x and of y."""
    panels = {panel: [points for key, points in series.items() if key[0] == panel] for panel, *_ in series}
    return {panel: np.ptp(np.concatenate(parts), axis=0) for panel, parts in panels.items()}
