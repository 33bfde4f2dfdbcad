"""Uniq: how many distinct types a model predicts, in total and by frequency group."""

import numpy as np

from raretokens.subword.vocabulary import GROUP_NAMES


def uniq(predicted: np.ndarray, groups: np.ndarray, *, block: int | None = None) -> tuple[dict[str, int], str]:
    """Number of distinct ids among the most probable ones under teacher forcing (AGG section 5; Welleck et al. 2020).

    predicted: one id a position; groups: N groups by id. Given the targets of the same positions instead, this is the
    Human row. The groups add to the total: a filler is no type and is not counted. block (tokens) only signs the
    number.
    """
    group = groups[np.unique(predicted)]
    value = {name: int(np.sum(group == code)) for name, code in GROUP_NAMES.items()}
    source = "of:targets" if block is None else f"of:argmax|block:{block}"
    return {"total": sum(value.values())} | value, f"{source}|split:test"
