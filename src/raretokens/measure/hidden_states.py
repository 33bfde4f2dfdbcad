"""Anisotropy of hidden states by layer, of the positions of a text that a causal model reads.

The blocks of the text for Uniq contain each token once. Sums over the states of the blocks are kept, and the states of a sample,
so memory does not depend on the length of the text. The first position of each block is left out: attention sinks there have
states that may be more than 100 times as long as the others, and would decide IsoScore and the first direction alone.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from scipy.sparse.linalg import eigsh
from torch import Tensor

from raretokens.errors import UserError
from raretokens.measure.notes import Notes
from raretokens.metrics.bootstrap import BLOCKS, resample
from raretokens.metrics.rows import evenly, unit
from raretokens.metrics.score_files import Metrics, Replicates

PREFIX = "hidden."  # of the paths of the metrics
LAST = "last"  # the states after the last layer and the final norm; other layers have numbers, and 0 is the embeddings' output
SAMPLE = 1000  # positions whose states are kept, for the cosine minus the mean; as many as Ethayarajh (2019) takes
MAX_SCATTER = 4_000_000_000  # bytes of all scatter matrices, above which IsoScore and the first direction are left out
MIN_WINDOWS = 10  # windows below which nothing has replicates


class StateWindow(NamedTuple):
    """A block of the text, and where its states are added."""

    length: int  # positions that stand for tokens of the text; padding follows
    part: int  # part of the text that is resampled as a unit
    chosen: np.ndarray  # positions of the sample
    place: slice  # their places in the sample


class LayerSums:
    """Sums over the states x of a layer, and over the unit states u = x / |x|."""

    def __init__(self, width: int, device: torch.device, parts: int, sample: int, has_scatter: bool) -> None:
        self.number, self.squares = np.zeros(parts), np.zeros(parts)  # of states, and of |u|^2: 1, or 0 for a state of zeros
        self.unit = np.zeros((parts, width))
        self.length = np.zeros(parts)  # the sum of |x|
        self.first_length = 0.0  # that of the first positions, which are left out
        self.first_number = 0
        self.mean = torch.zeros(width, dtype=torch.float64, device=device)
        self.scatter = torch.zeros(width, width, device=device) if has_scatter else None  # around the mean
        self.sample, self.part_of_sample = np.zeros((sample, width), np.float32), np.zeros(sample, int)

    def add(self, states: Tensor, windows: Sequence[StateWindow]) -> None:
        """Add the states of windows (windows x positions x d)."""
        added, before, kept = 0, self.number.sum(), []
        for row, window in zip(states, windows, strict=True):
            self.sample[window.place], self.part_of_sample[window.place] = row[window.chosen].float().cpu(), window.part
            first, rows = row[:1].float(), row[1 : window.length].float()
            self.first_length += float(torch.linalg.vector_norm(first))
            self.first_number += 1
            lengths = torch.linalg.vector_norm(rows, dim=1, dtype=torch.float64)
            inverse = torch.where(lengths > 0, 1 / lengths, 0.0)
            self.length[window.part] += float(lengths.sum())
            self.unit[window.part] += (inverse.float() @ rows).double().cpu().numpy()
            self.squares[window.part] += int((lengths > 0).sum())
            self.number[window.part] += len(rows)
            added += len(rows)
            kept.append(rows)
        if added:
            self._add_moments(torch.cat(kept), before)

    def _add_moments(self, rows: Tensor, before: float) -> None:
        """Merge mean and scatter matrix of `before` states with those of further rows (Chan et al. 1979)."""
        mean = rows.mean(0, dtype=torch.float64)
        step, total = mean - self.mean, before + len(rows)
        if self.scatter is not None:
            centred = rows - mean.float()
            self.scatter += centred.T @ centred
            self.scatter += (torch.outer(step, step) * (before * len(rows) / total)).float()
        self.mean += step * (len(rows) / total)

    def mean_cosine(self) -> float | None:
        return _mean_over_pairs(self.unit.sum(0), self.squares.sum(), self.number.sum())

    def centred_cosine(self) -> float | None:
        """Mean cosine of two positions of the sample, after the mean of all positions is subtracted."""
        rows = self._centred()
        return _mean_over_pairs(rows.sum(0), float((rows**2).sum()), len(rows))

    def _centred(self) -> np.ndarray:
        """Return the unit states of the sample, after the mean of all positions is subtracted."""
        return unit(self.sample - self.mean.cpu().numpy())

    def mean_length(self) -> float | None:
        return float(self.length.sum() / self.number.sum()) if self.number.any() else None

    def spectrum(self) -> tuple[float | None, float | None]:
        """Return IsoScore, and the share of the variance in the first principal direction.

        Algorithm 1 of IsoScore (Rudman et al. 2022) depends on the principal variances v by (sum v)^2 / sum v^2 alone. This
        number of dimensions in use is rescaled from 1 to d to 0 to 1.
        """
        if self.scatter is None or len(self.scatter) < 2:
            return None, None
        scatter = self.scatter.double().cpu().numpy()
        total, squares = scatter.trace(), float((scatter**2).sum())
        if not (np.isfinite(squares) and squares > 0):
            return None, None
        start = np.random.default_rng(0).standard_normal(len(scatter))
        (first,) = eigsh(scatter / total, 1, v0=start, tol=1e-6, return_eigenvectors=False)
        return float((total**2 / squares - 1) / (len(scatter) - 1)), float(first)

    def replicates(self) -> dict[str, np.ndarray]:
        """Return replicates of the mean cosine, of that minus the mean state, which is not resampled, and of the length.

        Others have none: IsoScore would need a scatter matrix for each part of the text.
        """
        parts = len(self.number)
        weights = np.stack([np.bincount(row, minlength=parts) for row in resample(parts)]).astype(float)
        rows = self._centred()
        of_part = np.eye(parts)[self.part_of_sample]  # positions of the sample x parts
        squares, number = of_part.T @ (rows**2).sum(1), of_part.sum(0)
        with np.errstate(invalid="ignore", divide="ignore"):
            return {
                "mean_cosine": _replicates_over_pairs(weights, self.unit, self.squares, self.number),
                "centred_cosine": _replicates_over_pairs(weights, of_part.T @ rows, squares, number),
                "norm": (weights @ self.length) / (weights @ self.number),
            }


def _mean_over_pairs(total: np.ndarray, squares: float, number: float) -> float | None:
    """Return the mean cosine of two different positions, from sums of unit states."""
    return float((total @ total - squares) / (number * (number - 1))) if number > 1 else None


def _replicates_over_pairs(weights: np.ndarray, units: np.ndarray, squares: np.ndarray, number: np.ndarray) -> np.ndarray:
    """Return replicates of the mean cosine from sums by part. Copies of a position make no pairs, as in row_bootstrap."""
    pairs = ((weights @ units) ** 2).sum(axis=1) - weights**2 @ squares
    return pairs / ((weights @ number) ** 2 - weights**2 @ number)


class HiddenStates:
    """The sums of all layers, to which the blocks of a text are added in the order in which they are read."""

    def __init__(self, length: int, block: int, starts: Sequence[int], notes: Notes) -> None:
        """`length`: tokens of the text. `block`: tokens per block. `starts`: start of each block, in the order of reading."""
        self.notes, self.block, self.is_complete = notes, block, True
        self.parts = min(BLOCKS, len(starts))
        positions = np.arange(length)
        chosen = evenly(positions[positions % block > 0], SAMPLE)
        self.sample = len(chosen)
        self.waiting = [self._window(start, min(block, length - start), chosen, len(starts)) for start in starts][::-1]
        self.layers: list[LayerSums] = []

    def _window(self, start: int, length: int, chosen: np.ndarray, windows: int) -> StateWindow:
        low, high = np.searchsorted(chosen, (start, start + length))
        part = start // self.block * self.parts // windows
        return StateWindow(length, part, chosen[low:high] - start, slice(int(low), int(high)))

    def add(self, states: Sequence[Tensor]) -> None:
        """Add the states of the next blocks (per layer: blocks x positions x d). Leave everything out if this fails once."""
        if not self.is_complete:
            return
        self.is_complete = False
        with self.notes.optional("hidden states"):
            if not states or any(one.dim() != 3 or one.shape[:2] != states[0].shape[:2] for one in states):
                raise UserError("the model gives none by position")
            windows = [self.waiting.pop() for _ in states[0]]
            if not self.layers:
                self.layers = self._start(states)
            for layer, one in zip(self.layers, states, strict=True):
                layer.add(one, windows)
            self.is_complete = True

    def _start(self, states: Sequence[Tensor]) -> list[LayerSums]:
        needed = sum(4 * one.shape[2] ** 2 for one in states)
        if needed > MAX_SCATTER:
            self.notes.append(f"IsoScore and first direction of hidden states left out: they need {needed / 1e9:.0f} GB")
        return [LayerSums(one.shape[2], one.device, self.parts, self.sample, needed <= MAX_SCATTER) for one in states]

    def metrics(self, start: str) -> tuple[Metrics, Replicates]:
        """Return the metrics by layer, and replicates of some. `start`: the part of signatures on start tokens."""
        if not (self.is_complete and self.layers):
            return {}, {}
        names = [*map(str, range(len(self.layers) - 1)), LAST]
        by_layer = dict(zip(names, self.layers, strict=True))
        spectra = {name: layer.spectrum() for name, layer in by_layer.items()}
        where, pairs = f"positions:blocks-of-{self.block}-without-first|{start}", "pairs:distinct|over:n(n-1)"
        metrics: Metrics = {
            "mean_cosine": ({name: layer.mean_cosine() for name, layer in by_layer.items()}, f"{pairs}|{where}"),
            "centred_cosine": (
                {name: layer.centred_cosine() for name, layer in by_layer.items()},
                f"centred:yes|{pairs}|evenly-spaced:{self.sample}|{where}",
            ),
            "iso_score": ({name: found[0] for name, found in spectra.items()}, f"centred:yes|arithmetic:float32|{where}"),
            "first_direction": (
                {name: found[1] for name, found in spectra.items()},
                f"centred:yes|share:variance|arithmetic:float32|{where}",
            ),
            "norm": ({name: layer.mean_length() for name, layer in by_layer.items()}, f"norm:2|mean:arithmetic|{where}"),
            "first_norm": (
                {name: layer.first_length / layer.first_number for name, layer in by_layer.items()},
                f"norm:2|mean:arithmetic|positions:first-of-blocks-of-{self.block}|{start}",
            ),
        }
        kept = by_layer if self.parts >= MIN_WINDOWS else {}
        replicates = {
            f"{PREFIX}{path}.{name}": found for name, layer in kept.items() for path, found in layer.replicates().items()
        }
        return {f"{PREFIX}{path}": signed for path, signed in metrics.items()}, replicates
