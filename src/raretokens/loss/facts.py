"""Facts: the statistics of a tokenized text and the training settings that an objective may use."""

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, SupportsIndex

import torch
from torch import Tensor


@dataclass(frozen=True)
class Facts:
    """Statistics of one text and settings of one model, with N token types and embedding rows of width d."""

    counts: Tensor  # N, int64: occurrences as a training target in the whole corpus
    rare: Tensor  # N, bool: the rare group of the declared frequency groups
    types: int  # number of ids that text can use; later ids are fillers
    specials: int  # number of first ids that are special tokens, which are never rare
    pad: int  # target id of padding, ignored by every loss
    steps_per_epoch: int
    width: int  # d, width of the embedding matrix
    label_smoothing: float = 0.0
    markers: tuple[int, ...] = ()  # further special tokens, with any ids
    order: Tensor | None = None  # N, int64: ids by falling frequency; None: by their counts

    @property
    def used(self) -> Tensor:
        """Mask (N, bool) of the rows that text can use: all but padding and fillers."""
        used = self._ids < self.types
        if 0 <= self.pad < len(used):  # other values, such as -100, occur in targets only
            used[self.pad] = False
        return used

    @property
    def used_ids(self) -> Tensor:
        """Ids of the rows that text can use (int64), ascending. Unlike a mask, they index on a GPU without a wait."""
        return self.used.nonzero().squeeze(1)

    @property
    def special(self) -> Tensor:
        """Mask (N, bool) of special tokens."""
        special = self._ids < self.specials
        special[list(self.markers)] = True
        return special

    @property
    def by_frequency(self) -> Tensor:
        """Ids by falling frequency (N, int64): special tokens first, fillers last, ties by id."""
        if self.order is not None:
            return self.order
        order = self.counts.argsort(descending=True, stable=True)
        kind = torch.where(self._ids < self.types, 1 - self.special.long(), 2)
        return order[kind[order].argsort(stable=True)]

    @property
    def ranks(self) -> Tensor:
        """Rank of each id in by_frequency (N, int64), from 0."""
        return torch.empty_like(self._ids).scatter_(0, self.by_frequency, self._ids)

    @property
    def _ids(self) -> Tensor:
        return torch.arange(len(self.counts), device=self.counts.device)


def facts(
    counts: Tensor | Sequence[int],
    *,
    width: int,
    steps_per_epoch: int,
    rare: Tensor | Sequence[bool] | None = None,
    rare_share: float = 0.2,
    types: int | None = None,
    specials: int = 0,
    markers: Tensor | Iterable[int] = (),
    pad: int = -100,
    label_smoothing: float = 0.0,
    order: Tensor | Sequence[int] | None = None,
) -> Facts:
    """Build facts from the counts of the training targets. Tensors may be given as NumPy arrays or lists.

    Args:
        counts: N, int64, occurrences of each id as a training target, ids in any order.
        width: d, width of the embedding matrix.
        steps_per_epoch: training steps per epoch.
        rare: N, bool, the rare group. The default is the `rare_share` of types that occur least often, without `markers` and ids
            below `specials`. AGG uses 20 % (section 3.1).
        types: number of ids that text can use. Later ids are fillers, which never occur and are never rare. By default, all ids
            are types.
        specials: number of first ids that are special tokens, which are never rare.
        markers: further ids that are never rare, or a bool mask of length N.
        pad: target id of padding.
        label_smoothing: label smoothing of the loss, 0 to less than 1.
        order: N, int64, ids by falling frequency. Translation needs this argument, because its joint vocabulary is ranked by
            source and target together. By default ids are ranked by their counts.

    Raises:
        ValueError: if values contradict each other, such as positive counts of fillers, or counts are not whole numbers, as
            relative frequencies are not.
    """
    counts = torch.as_tensor(counts)
    if counts.dim() != 1:
        raise ValueError(f"counts has shape {tuple(counts.shape)}; expected one entry for each type")
    types = len(counts) if types is None else types
    rare = None if rare is None else torch.as_tensor(rare, device=counts.device)
    order = None if order is None else torch.as_tensor(order, device=counts.device)
    ids = _marked_ids(markers, len(counts))
    known = Facts(counts, counts, types, specials, pad, steps_per_epoch, width, label_smoothing, ids, order)
    _check(known, rare, rare_share)
    return replace(known, rare=_least_frequent(known, rare_share) if rare is None else rare)


def _check(known: Facts, rare: Tensor | None, share: float) -> None:
    n, marked = len(known.counts), (0, *known.markers)
    group = known.counts > 0 if rare is None else rare
    rules = (
        ("counts", "of types", n > 0 and not (known.counts < 0).any(), "at least one, none negative"),
        ("counts", "of types", torch.equal(known.counts, known.counts.round()), "whole numbers, occurrences in the text"),
        ("rare", tuple(group.shape), group.shape == (n,), f"one entry for each of {n} types"),
        ("rare", group.dtype, group.dtype == torch.bool, "true or false for each type"),
        ("rare_share", share, 0 <= share <= 1, "0 to 1"),
        ("types", known.types, 0 < known.types <= n, f"1 to {n}"),
        ("types", known.types, not known.counts[known.types :].any(), f"ids up to {_highest(known.counts)} occur"),
        ("specials", known.specials, 0 <= known.specials <= known.types, f"0 to {known.types}"),
        ("markers", known.markers, min(marked) >= 0 and max(marked) < n, f"ids in 0..{n - 1}"),
        ("steps_per_epoch", known.steps_per_epoch, _is_positive(known.steps_per_epoch), "a whole number, 1 or more"),
        ("width", known.width, _is_positive(known.width), "a whole number, 1 or more"),
        ("label_smoothing", known.label_smoothing, 0 <= known.label_smoothing < 1, "0 to less than 1"),
        ("order", "of ids", _is_order(known.order, n), f"each id in 0..{n - 1} once"),
    )
    for name, value, fits, allowed in rules:
        if not fits:
            raise ValueError(f"facts: {name} {value} is not allowed: {allowed}")
    if rare is not None and (rare & (known.special | (known._ids >= known.types))).any():
        raise ValueError("facts: rare of types is not allowed: no special token and no filler")


def _marked_ids(markers: Tensor | Iterable[int], size: int) -> tuple[int, ...]:
    """Return the ids that are given as numbers or by a bool mask of length `size`, ascending."""
    given = markers if hasattr(markers, "__array__") else [*markers]
    if given is not markers and None in given:  # as of a tokenizer without padding
        raise ValueError("facts: markers None is not allowed: ids")
    marks = torch.as_tensor(given)
    if marks.dtype == torch.bool and marks.shape == (size,):
        marks = marks.nonzero()
    elif len(marks) and marks.dtype not in (torch.int32, torch.int64):
        raise ValueError(f"facts: markers {marks} is not allowed: ids, or true or false for each of {size} types")
    return tuple(sorted(marks.flatten().tolist()))


def _is_positive(number: Any) -> bool:
    return isinstance(number, SupportsIndex) and int(number) > 0


def _highest(counts: Tensor) -> int:
    """Return the highest id that occurs, or -1 if no id occurs."""
    return int(counts.nonzero().max()) if counts.any() else -1


def _is_order(order: Tensor | None, size: int) -> bool:
    return order is None or (order.dim() == 1 and order.sort().values.tolist() == list(range(size)))


def _least_frequent(known: Facts, share: float) -> Tensor:
    """Return the rare group (N, bool): the least frequent types, without fillers and special tokens."""
    rare = torch.zeros(len(known.counts), dtype=torch.bool, device=known.counts.device)
    by_frequency = known.counts[: known.types].argsort(descending=True, stable=True)
    rare[by_frequency[round(known.types * (1 - share)) :]] = True
    return rare & ~known.special


def facts_of_text(
    tokenizer: Any,
    text: str | os.PathLike[str] | Iterable[str],
    *,
    width: int,
    tokens_per_step: int,
    rows: int | None = None,
    markers: Tensor | Iterable[int] = (),
    line_end: str = "",
    **more: Any,
) -> Facts:
    """Build facts from a text: target counts, the rare group, and the training steps per epoch.

    Args:
        tokenizer: a tokenizer of transformers, tokenizers or sentencepiece, or a function from a string to ids. No special
            tokens are added to its ids, and nothing is cut off or padded.
        text: path of a UTF-8 file, read line by line without line ends, or an iterable of strings, such as a list of lines.
        width: d, width of the embedding matrix.
        tokens_per_step: targets of a training step on all devices together.
        rows: rows of the embedding matrix, if more than the vocabulary; required if `tokenizer` is a function.
        markers: ids that are never rare, in addition to the special ids of a transformers tokenizer.
        line_end: text that ends each line, such as "\\n" if the model trains on a text with its line ends.
        more: other arguments of `facts`, such as rare_share or pad.

    Raises:
        ValueError: if the text has no tokens, or an id has no row in the embedding matrix.
        OSError: if the file cannot be read.
    """
    own = _size(tokenizer)
    size = rows or own
    if size is None or tokens_per_step < 1:
        raise ValueError(f"rows {rows}, tokens_per_step {tokens_per_step}: both must be positive, and rows be given")
    whole = _without_limits(tokenizer)
    seen = Counter(int(id) for line in _lines(text) for id in _ids(whole, line + line_end))
    if not seen:
        raise ValueError(f"the text {text if isinstance(text, str | os.PathLike) else ''} has no tokens")
    if not 0 <= min(seen) <= max(seen) < size:
        raise ValueError(f"ids {min(seen)}..{max(seen)} do not fit an embedding matrix of {size} rows")
    counts = torch.zeros(size, dtype=torch.int64)
    counts[list(seen)] = torch.tensor(list(seen.values()))
    special = {*_marked_ids(markers, size), *getattr(tokenizer, "all_special_ids", ())}
    steps = max(int(counts.sum()) // tokens_per_step, 1)
    types = min(max(own or size, _highest(counts) + 1, *(id + 1 for id in special)), size)  # ids may have holes
    return facts(counts, width=width, steps_per_epoch=steps, types=types, markers=special, **more)


def _size(tokenizer: Any) -> int | None:
    """Return the vocabulary size of a tokenizer, or None for a function."""
    for name in ("get_vocab_size", "get_piece_size", "__len__"):
        if hasattr(tokenizer, name):
            return int(getattr(tokenizer, name)())
    return None


def _lines(text: str | os.PathLike[str] | Iterable[str]) -> Iterator[str]:
    if not isinstance(text, str | os.PathLike):
        yield from text
        return
    with open(text, encoding="utf-8-sig") as file:  # without a byte-order mark, which is no text
        yield from (line.rstrip("\n") for line in file)


def _without_limits(tokenizer: Any) -> Any:
    """Return a tokenizer of the library tokenizers without the truncation and padding that its file may ask for."""
    if not (getattr(tokenizer, "truncation", None) or getattr(tokenizer, "padding", None)):
        return tokenizer
    tokenizer = deepcopy(tokenizer)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def _ids(tokenizer: Any, line: str) -> Sequence[int]:
    if hasattr(tokenizer, "all_special_ids"):
        return tokenizer(line, add_special_tokens=False)["input_ids"]
    if hasattr(tokenizer, "get_vocab_size"):
        return tokenizer.encode(line, add_special_tokens=False).ids
    return tokenizer.encode(line) if hasattr(tokenizer, "encode") else tokenizer(line)
