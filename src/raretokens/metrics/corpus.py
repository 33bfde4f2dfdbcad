"""What a text is made of, counted in words."""

import numpy as np

from raretokens.subword.vocabulary import BOS, PAD, UNK, Vocabulary


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
    unused = {BOS, PAD}  # rows of the table, but in no text
    value["types"] = vocabulary.types - len(unused)
    value["oov"] = 100 * int(vocabulary.counts[UNK]) / int(vocabulary.counts.sum())
    value["oov_test"] = 100 * float(np.mean(test == UNK))
    return value, "unit:word|types:words+unk+line-end|oov:percent-of-train-with-line-ends"


def rank_frequency(counts: np.ndarray, points: int = 300) -> list[tuple[int, float]]:
    """Rank from 1 and log10 of the relative frequency, falling (CosReg figure 3), thinned evenly in the log of the rank."""
    seen = np.sort(counts[counts > 0])[::-1]
    ranks = np.unique(np.round(np.geomspace(1, len(seen), points)).astype(int))
    return [(int(rank), float(np.log10(seen[rank - 1] / seen.sum()))) for rank in ranks]
