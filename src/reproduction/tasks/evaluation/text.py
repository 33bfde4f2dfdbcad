"""Statistics of a corpus: words, types and documents (FRAGE tables 5 and 6), and type frequencies."""

from collections.abc import Mapping, Sequence
from statistics import fmean

import numpy as np

from raretokens.vocabulary import BOS, PAD, SPACE, SPECIALS, UNK, Vocabulary


def corpus_in_words(
    vocabulary: Vocabulary, splits: dict[str, dict[str, int]], test: np.ndarray
) -> tuple[dict[str, float], str]:
    """Words, types and unknown words of a language-model corpus (FRAGE table 5).

    Args:
        vocabulary: Vocabulary of words.
        splits: split -> number of `tokens` (with line ends) and `lines`.
        test: Ids of the test text.
    Returns:
        Words of each split without line ends and, as `with_line_ends`, with them; FRAGE counts Penn Treebank without
        and WikiText-2 with line ends. `types`: words of the training text, <unk> and the line end. `oov`, `oov_test`:
        percentage of <unk> in the training and test text, line ends counted. For WikiText-2 this gives the 33,278
        types and the 2.6 % that FRAGE reports.
    """
    value: dict = {name: facts["tokens"] - facts["lines"] for name, facts in splits.items()}
    value["with_line_ends"] = {name: facts["tokens"] for name, facts in splits.items()}
    unused = {BOS, PAD}  # types that no text contains
    value["types"] = vocabulary.types - len(unused)
    value["oov"] = 100 * int(vocabulary.counts[UNK]) / int(vocabulary.counts.sum())
    value["oov_test"] = 100 * float(np.mean(test == UNK))
    return value, "unit:word|types:words+unk+line-end|oov:percent-of-train-with-line-ends"


def rank_frequency_points(vocabulary: Vocabulary) -> list[tuple[str, str, int, float]]:
    """Return points of a figure: rank from 1 and log10 of the relative frequency, evenly in log rank (CosReg figure 3)."""
    seen = np.sort(vocabulary.counts[vocabulary.counts > 0])[::-1]
    ranks = np.unique(np.round(np.geomspace(1, len(seen), 300)).astype(int))
    return [("rank_frequency", "total", int(rank), float(np.log10(seen[rank - 1] / seen.sum()))) for rank in ranks]


def documents(lengths: Mapping[str, Sequence[int]], classes: int) -> tuple[dict, str]:
    """Number of documents and classes, and mean and maximum length in words (FRAGE table 6).

    lengths: split -> length of each document. Some papers count validation documents as training text, as the main
    numbers do. `without_valid` leaves the validation documents out.
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


BOUNDS = {"below_1e-3": 1e-3, "below_1e-4": 1e-4}
WORD = "is"  # CosReg section 4 reports its frequency as an example


def frequency(vocabulary: Vocabulary) -> tuple[dict[str, float | None], str]:
    """Share of types whose relative frequency in the training text is below each bound, and the frequency of WORD.

    Markers and fillers do not count as types. WORD counts with and without its space mark, and is None where absent.
    """
    counts = vocabulary.counts[len(SPECIALS) : vocabulary.types]
    share = counts / max(vocabulary.counts.sum(), 1)
    forms = [i for i, token in enumerate(vocabulary.tokens) if token in (WORD, SPACE + WORD)]
    value: dict[str, float | None] = {name: float(np.mean(share < bound)) for name, bound in BOUNDS.items()}
    value[WORD] = float(vocabulary.counts[forms].sum() / vocabulary.counts.sum()) if forms else None
    return value, "of:training-text|types:no-markers"
