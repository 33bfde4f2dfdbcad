"""Facts of a text as a tokenizer cuts it."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from raretokens.loss.facts import Facts, facts

LINES = 1000  # counted at a time


def facts_of_text(
    tokenizer: Any,
    text: Path | Iterable[str],
    *,
    width: int,
    tokens_per_update: int,
    rows: int | None = None,
    markers: Iterable[int] = (),
    **more: Any,
) -> Facts:
    """Facts of the targets of a text: its counts, its rare group, and so many updates an epoch.

    tokenizer: of transformers, tokenizers or sentencepiece, or a function from a string to ids; only the ids that it gives
    count, no markers are added. text: a UTF-8 file, read line by line without line ends, or strings. width: d.
    tokens_per_update: targets of an update, of all devices. rows: of the table, where it is larger than the vocabulary; a
    function needs it. markers: ids that are never rare, beside those that a tokenizer of transformers calls special. more: as of
    `facts`, such as rare_share or pad.

    Raises ValueError where the text is empty, or has an id that the table has no row for.
    """
    own = _size(tokenizer)
    size = rows or own
    if size is None or tokens_per_update < 1:
        raise ValueError(
            f"rows {rows}, tokens_per_update {tokens_per_update}: both must be positive, and rows be given"
        )
    counts = torch.zeros(size, dtype=torch.int64)
    for ids in _cut(tokenizer, text):
        if ids and not 0 <= min(ids) <= max(ids) < size:
            raise ValueError(f"ids {min(ids)}..{max(ids)} do not fit a table of {size} rows")
        counts += torch.bincount(torch.tensor(ids, dtype=torch.int64), minlength=size)
    if not counts.any():
        raise ValueError(f"the text {text if isinstance(text, Path) else ''} has no tokens")
    special = {*markers, *getattr(tokenizer, "all_special_ids", ())}
    updates = max(int(counts.sum()) // tokens_per_update, 1)
    types = min(own or size, size)
    return facts(counts, width=width, updates_per_epoch=updates, types=types, markers=special, **more)


def _size(tokenizer: Any) -> int | None:
    """Types of its vocabulary; None of a function."""
    for name in ("get_vocab_size", "get_piece_size", "__len__"):
        if hasattr(tokenizer, name):
            return int(getattr(tokenizer, name)())
    return None


def _cut(tokenizer: Any, text: Path | Iterable[str]) -> Iterator[list[int]]:
    ids: list[int] = []
    for number, line in enumerate(_lines(text), start=1):
        ids += _ids(tokenizer, line)
        if number % LINES == 0:
            yield ids
            ids = []
    yield ids


def _lines(text: Path | Iterable[str]) -> Iterator[str]:
    if not isinstance(text, Path):
        yield from text
        return
    with open(text, encoding="utf-8") as file:
        yield from (line.rstrip("\n") for line in file)


def _ids(tokenizer: Any, line: str) -> Sequence[int]:
    if hasattr(tokenizer, "all_special_ids"):
        return tokenizer(line, add_special_tokens=False)["input_ids"]
    if hasattr(tokenizer, "get_vocab_size"):
        return tokenizer.encode(line, add_special_tokens=False).ids
    return tokenizer.encode(line) if hasattr(tokenizer, "encode") else tokenizer(line)
