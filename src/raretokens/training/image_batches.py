"""Batches of labelled images for image classifiers."""

from collections.abc import Iterator

import numpy as np
import torch

from raretokens.training.batches import Batch


class Images:
    """Images, reshuffled each epoch; tokens are pixels, and targets are the ids of classes.

    pixels: images x pixels; classes: class id of each image; first: keep only images within the first `first` pixels.
    """

    in_order = False

    def __init__(
        self,
        pixels: np.ndarray,
        classes: np.ndarray,
        tokens_per_step: int = 0,
        seed: int = 0,
        first: int | None = None,
    ) -> None:
        each = pixels.shape[1]
        kept = len(pixels) if first is None else first // each
        self.pixels, self.classes, self.seed = pixels[:kept], classes[:kept], seed
        self.per_step = max(tokens_per_step // each, 1)
        self.steps_per_epoch = len(self.classes) // self.per_step

    def step(self, number: int) -> np.ndarray:
        """Return the indices of the images of step `number` (from 0)."""
        epoch, position = divmod(number, self.steps_per_epoch)
        order = np.random.default_rng((self.seed, epoch)).permutation(len(self.classes))
        return order[position * self.per_step : (position + 1) * self.per_step]

    def counts(self, indices: np.ndarray, vocabulary: int) -> np.ndarray:
        """Count the images of a step by class."""
        return np.bincount(self.classes[indices], minlength=vocabulary)

    def targets(self, indices: np.ndarray) -> int:
        return len(indices)

    @property
    def length(self) -> float:
        """Number of pixels of an image."""
        return float(self.pixels.shape[1])

    def share(self, indices: np.ndarray, rank: int, processes: int) -> np.ndarray:
        """Return the part of a step that process `rank` trains on."""
        return indices[rank::processes]

    def cut(self, indices: np.ndarray, tokens: int, least: int = 0) -> Iterator[Batch]:
        """Yield micro-batches of at most `tokens` pixels (at least one image)."""
        step = max(tokens // self.pixels.shape[1], 1)
        for first in range(0, len(indices), step):
            chosen = indices[first : first + step]
            targets = torch.from_numpy(self.classes[chosen].astype(np.int64))
            yield Batch((torch.from_numpy(self.pixels[chosen]),), targets[:, None])

    def everything(self, tokens: int) -> Iterator[Batch]:
        """Yield all images in order, for validation."""
        yield from self.cut(np.arange(len(self.classes)), tokens)
