"""Images with a class each: updates of a classifier of images."""

from collections.abc import Iterator

import numpy as np
import torch

from raretokens.training.batches import Batch


class Images:
    """Images in a new order each epoch; tokens are pixels, targets the ids of classes.

    pixels: images x pixels; classes: id of each. first: only images within so many pixels.
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
        self.per_update = max(tokens_per_step // each, 1)
        self.updates_per_epoch = len(self.classes) // self.per_update

    def update(self, number: int) -> np.ndarray:
        """Images of update `number` (from 0)."""
        epoch, place = divmod(number, self.updates_per_epoch)
        order = np.random.default_rng((self.seed, epoch)).permutation(len(self.classes))
        return order[place * self.per_update : (place + 1) * self.per_update]

    def counts(self, update: np.ndarray, vocabulary: int) -> np.ndarray:
        """Images of an update by class."""
        return np.bincount(self.classes[update], minlength=vocabulary)

    def targets(self, update: np.ndarray) -> int:
        return len(update)

    @property
    def length(self) -> float:
        """Pixels of an image."""
        return float(self.pixels.shape[1])

    def share(self, update: np.ndarray, rank: int, processes: int) -> np.ndarray:
        """What a process trains of an update."""
        return update[rank::processes]

    def cut(self, update: np.ndarray, tokens: int) -> Iterator[Batch]:
        """Micro-batches of at most so many pixels (at least one image)."""
        step = max(tokens // self.pixels.shape[1], 1)
        for first in range(0, len(update), step):
            chosen = update[first : first + step]
            targets = torch.from_numpy(self.classes[chosen].astype(np.int64))
            yield Batch((torch.from_numpy(self.pixels[chosen]),), targets[:, None])

    def everything(self, tokens: int) -> Iterator[Batch]:
        """All images in order."""
        yield from self.cut(np.arange(len(self.classes)), tokens)
