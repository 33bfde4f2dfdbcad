"""Continuations of a prefix: how many types they use, and how much they repeat themselves."""

from collections.abc import Iterable

import numpy as np

REPEATED = (1, 2, 3, 4)  # lengths of the n-grams
SHOWN = 4  # continuations whose Uniq stands by itself, as in AGG table 14


def continuation(texts: np.ndarray, *, prefix: int, source: str = "greedy") -> tuple[dict, str]:
    """Uniq and seq-rep-n of continuations (samples x length, ids), means over samples (Welleck et al. 2020).

    uniq: distinct ids of a continuation, its prefix not counted (AGG table 14); samples: that of the first four.
    rep<n>: 1 - distinct n-grams / n-grams; 0 where nothing is repeated. prefix (tokens) and source only sign the number.
    """
    distinct = [len(np.unique(text)) for text in texts]
    value: dict = {"uniq": float(np.mean(distinct))}
    value |= {f"rep{n}": float(np.mean([_repetition(text, n) for text in texts])) for n in REPEATED}
    value["samples"] = {str(number): count for number, count in enumerate(distinct[:SHOWN], start=1)}
    samples, length = texts.shape
    return value, f"of:{source}|prefix:{prefix}|length:{length}|samples:{samples}|split:test"


def of_printed(texts: np.ndarray, numbers: Iterable[int], *, prefix: int, source: str = "greedy") -> tuple[dict, str]:
    """Uniq of the continuations of printed prefixes (AGG table 14), by the number of the sample."""
    value = {str(number): len(np.unique(text)) for number, text in zip(numbers, texts, strict=True)}
    return value, f"of:{source}|prefix:{prefix}|length:{texts.shape[1]}|prefixes:printed|split:test"


def human(text: np.ndarray, *, samples: int, prefix: int, length: int) -> np.ndarray:
    """What follows the prefixes in the test text itself (samples x length); the prefixes lie evenly in the text.

    Raises ValueError where the text is too short for so many.
    """
    stride = (len(text) - prefix - length) // samples
    if stride < 1:
        raise ValueError(f"the test text has only {len(text)} tokens; take fewer or shorter samples")
    starts = prefix + stride * np.arange(samples)
    return np.stack([np.asarray(text[start : start + length]) for start in starts])


def _repetition(text: np.ndarray, n: int) -> float:
    if len(text) < n:
        return 0.0
    grams = np.lib.stride_tricks.sliding_window_view(text, n)
    return 1 - len(np.unique(grams, axis=0)) / len(grams)
