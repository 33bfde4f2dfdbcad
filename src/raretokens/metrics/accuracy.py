"""Accuracy of a classifier."""

import numpy as np

from raretokens.metrics import resampling


def accuracy(logprob: np.ndarray, labels: np.ndarray) -> tuple[dict[str, float], str]:
    """Percent of examples whose most probable class is theirs, and half of its 95 % bootstrap interval over the test set.

    logprob: examples x classes; labels: number of the class of each example. Ties go to the first class.
    """
    drawn = drawn_accuracy(logprob, labels)
    low, high = np.quantile(drawn, [0.025, 0.975])
    value = {"total": 100 * float(correct(logprob, labels).mean()), "interval": float(high - low) / 2}
    return value, f"unit:percent|examples:{len(labels)}|interval:bootstrap-{resampling.DRAWS}"


def drawn_accuracy(logprob: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The same on drawn test sets, over the examples."""
    return 100 * resampling.mean(correct(logprob, labels))


def mean_nll(logprob: np.ndarray, labels: np.ndarray) -> tuple[float, str]:
    """Mean negative log-probability of the right class."""
    return -float(logprob[np.arange(len(labels)), labels].mean(dtype=float)), "log:e|split:test"


def correct(logprob: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Which examples are classified as they should be."""
    if len(logprob) != len(labels):
        raise ValueError(f"{len(logprob)} predictions for {len(labels)} labels; predict again")
    return logprob.argmax(1) == labels
