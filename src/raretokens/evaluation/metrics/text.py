"""Statistics of a text: words, types, documents (FRAGE tables 5 and 6), and how frequent its types are."""

from collections.abc import Mapping, Sequence
from statistics import fmean

import numpy as np

from raretokens.tokenization.vocabulary import BOS, PAD, SPACE, SPECIALS, UNK, Vocabulary


def corpus_in_words(
    vocabulary: Vocabulary, splits: dict[str, dict[str, int]], test: np.ndarray
) -> tuple[dict[str, float], str]:
    """Words, types and unknown words of a language-model corpus (FRAGE table 5).

    vocabulary: of words; splits: tokens (line ends among them) and lines of each split; test: ids of the test text.
    FRAGE counts WikiText-2 with its line ends and Penn Treebank without, hence both. The types are the words of the
    training text with <unk> and the line end; oov is the percentage of the training text, line ends counted, that
    <unk> stands for. That gives the printed 33,278 types and 2.6 % of WikiText-2. oov_test is that of the test text.
    """
    value: dict = {name: facts["tokens"] - facts["lines"] for name, facts in splits.items()}
    value["with_line_ends"] = {name: facts["tokens"] for name, facts in splits.items()}
    unused = {BOS, PAD}  # have rows, but are in no text
    value["types"] = vocabulary.types - len(unused)
    value["oov"] = 100 * int(vocabulary.counts[UNK]) / int(vocabulary.counts.sum())
    value["oov_test"] = 100 * float(np.mean(test == UNK))
    return value, "unit:word|types:words+unk+line-end|oov:percent-of-train-with-line-ends"


def rank_frequency(counts: np.ndarray, points: int = 300) -> list[tuple[int, float]]:
    """Rank from 1 and log10 of the relative frequency, falling (CosReg figure 3), thinned evenly in the log of the rank."""
    seen = np.sort(counts[counts > 0])[::-1]
    ranks = np.unique(np.round(np.geomspace(1, len(seen), points)).astype(int))
    return [(int(rank), float(np.log10(seen[rank - 1] / seen.sum()))) for rank in ranks]


def rank_frequency_points(vocabulary: Vocabulary) -> list[tuple[str, str, int, float]]:
    """Return rank_frequency of a training text as points of a figure."""
    return [("rank_frequency", "total", rank, share) for rank, share in rank_frequency(vocabulary.counts)]


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


BOUNDS = {"below_1e-3": 1e-3, "below_1e-4": 1e-4}
WORD = "is"  # whose frequency CosReg section 4 gives as an example


def frequency(vocabulary: Vocabulary) -> tuple[dict[str, float | None], str]:
    """Shares of the types whose relative frequency in the training text is below a bound, and the frequency of one word.

    Markers and fillers are no types here. The word counts with and without its space mark; None where it is no type.
    """
    counts = vocabulary.counts[len(SPECIALS) : vocabulary.types]
    share = counts / max(vocabulary.counts.sum(), 1)
    forms = [i for i, token in enumerate(vocabulary.tokens) if token in (WORD, SPACE + WORD)]
    value: dict[str, float | None] = {name: float(np.mean(share < bound)) for name, bound in BOUNDS.items()}
    value[WORD] = float(vocabulary.counts[forms].sum() / vocabulary.counts.sum()) if forms else None
    return value, "of:training-text|types:no-markers"
