"""What a classified text is made of (FRAGE table 6)."""

from collections.abc import Mapping, Sequence
from statistics import fmean


def documents(lengths: Mapping[str, Sequence[int]], classes: int) -> tuple[dict, str]:
    """Documents, classes, and mean and longest length in words; lengths: of each document of train, valid and test.

    Papers count what they hold out for validation as training text, or leave it out: the second is `without_valid`.
    """
    train, valid, test = (list(lengths[split]) for split in ("train", "valid", "test"))
    value = _of(train + valid, test, classes) | {"without_valid": _of(train, test, classes)}
    return value, "unit:word|words:between-blanks|train:with-valid"


def _of(train: list[int], test: list[int], classes: int) -> dict[str, float]:
    every = train + test
    return {
        "mean_length": fmean(every),
        "longest": max(every),
        "classes": classes,
        "train": len(train),
        "test": len(test),
    }
