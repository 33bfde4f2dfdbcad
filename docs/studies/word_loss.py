"""Which words does a run predict better? The loss of whole words by frequency rank, as in arXiv 2508.15390.

    cd scales/small && python ../../docs/studies/word_loss.py mle muon-mle

The loss of a word is the sum over its subword tokens, so that runs with different vocabularies can be compared if they read one
text. A word is what blanks separate. Ends of lines and the mark <unk> of WikiText-2 are left out. The rank of a word is by its
count in the training text.

The study prints how many words are one token, and a line for each run after the first and each range of ranks, with the words
that both runs read as one token apart from the others. It writes word-loss-<scale>.csv, where lines of other runs stay: the loss
of a word in nats, and its difference from the first run with a 95 % interval. Seeds whose predictions both runs have (mle-2 and
muon-mle-2) are averaged. With one seed, the interval is a bootstrap over parts of the test text. With several, it is that of
Student's t with the variances of seeds and text.
"""

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from shared import FOLDER, print_table, write_table

from raretokens import csv_files
from raretokens.claims.intervals import student
from raretokens.metrics.bootstrap import BLOCKS, resample
from raretokens.vocabulary import EOS, SPACE, VOCABULARY, Vocabulary
from reproduction.corpora.tokenization.token_files import tokens as stream
from reproduction.paths import predictions, tokens
from reproduction.pipeline.parameters_file import load

LAST_RANK = {"1 to 100": 100, "101 to 2,500": 2500, "2,501 to 10,000": 10_000, "over 10,000": sys.maxsize}
UNSEEN, ALL = "not in training", "all"
LEFT_OUT = "<unk>"  # what WikiText-2 has in place of words that occur less than three times
SEEDS = ("", "-2", "-3")  # what follows the name of a run with a further seed
COLUMNS = ["run", "beside", "seeds", "rank", "kind", "words", "share", "loss", "baseline loss", "difference", "low", "high"]


def split_words(ids: np.ndarray, pieces: Sequence[str]) -> tuple[list[str], np.ndarray]:
    """Return the words of a stream of token ids, and the number of each token's word, -1 for ends of lines."""
    starts = np.array([piece.startswith(SPACE) for piece in pieces])[ids] | (ids == EOS)
    starts[0] = True
    run = np.cumsum(starts) - 1
    ends = ids == EOS
    word = np.where(ends, -1, run - np.cumsum(ends))
    words = [""] * (int(word.max()) + 1)
    for token, number in zip(ids[~ends].tolist(), word[~ends].tolist(), strict=True):
        words[number] += pieces[token]
    return [spelled.removeprefix(SPACE) for spelled in words], word


def sums(values: np.ndarray, word: np.ndarray, words: int) -> np.ndarray:
    """Return the sum of the values of each word's tokens."""
    return np.bincount(word[word >= 0], values[word >= 0], words)


def ranges(words: Sequence[str], counts: Counter) -> np.ndarray:
    """Return the range of ranks of each word."""
    rank = {word: number for number, (word, _) in enumerate(counts.most_common(), 1)}
    last = np.array(list(LAST_RANK.values()))
    names = np.array([*LAST_RANK, UNSEEN])
    return names[[np.searchsorted(last, rank[word]) if word in rank else len(last) for word in words]]


def interval(difference: np.ndarray, kept: np.ndarray) -> tuple[float, float]:
    """Return the 95 % interval of the mean difference of the kept words, over blocks of the text and seeds (seeds x words)."""
    seeds, words = difference.shape
    block = np.arange(words) * BLOCKS // words
    total, count = (np.bincount(block[kept], weights, BLOCKS) for weights in (difference.mean(0)[kept], None))
    rows = resample(BLOCKS)
    of_text = total[rows].sum(1) / count[rows].sum(1)
    if seeds == 1:
        return tuple(np.percentile(of_text, [2.5, 97.5]))
    of_seeds = difference[:, kept].mean(1)
    spread = student(of_seeds.std(ddof=1) / np.sqrt(seeds), seeds - 1).plus(of_text.var(), np.inf)
    return tuple(spread.interval(of_seeds.mean()))


def table(words: Sequence[str], losses: np.ndarray, lengths: np.ndarray, counts: Counter) -> list[list]:
    """Return the rows of a run. Losses (2 x seeds x words), lengths in tokens (2 x words): of the run beside it, and its own."""
    counted = np.array([word != LEFT_OUT for word in words])
    of, whole = ranges(words, counts), (lengths == 1).all(0)
    kinds = {"any": counted, "one token": counted & whole, "other": counted & ~whole}
    rows = []
    for name in (ALL, *LAST_RANK, UNSEEN):
        for kind, members in kinds.items():
            kept = members & ((of == name) | (name == ALL))
            if not kept.any():
                continue
            beside, own = losses[..., kept].mean((1, 2))
            shown = [f"{value:.4f}" for value in (own, beside, own - beside, *interval(losses[1] - losses[0], kept))]
            rows.append([losses.shape[1], name, kind, int(kept.sum()), f"{kept.sum() / counted.sum():.4f}", *shown])
    return rows


class Read(NamedTuple):
    """The test text as a run reads it."""

    words: list[str]
    losses: dict[str, np.ndarray]  # of each word, in nats, by seed
    lengths: np.ndarray  # of each word, in tokens


def read(name: str, folder: Path, pieces: Sequence[str]) -> Read:
    """Return the words of the test text with the losses of a run, whose token files are in the folder."""
    words, word = split_words(np.asarray(stream(folder, "test")), pieces)
    files = {seed: predictions("lm", name + seed) / "logprob.npy" for seed in SEEDS}
    nll = {seed: -np.load(file).astype(np.float64) for seed, file in files.items() if not seed or file.is_file()}
    losses = {seed: sums(values, word, len(words)) for seed, values in nll.items()}
    return Read(words, losses, sums(np.ones(len(word)), word, len(words)))


def occurrences(words: set[str], counts: Counter, text: np.ndarray, pieces: Sequence[str]) -> float:
    """Return how many times as often as a word its token occurs, which also begins longer words; the median of these words."""
    token = {piece: number for number, piece in enumerate(pieces)}
    of_tokens = np.bincount(text, minlength=len(pieces))
    return float(np.median([of_tokens[token[SPACE + word]] / counts[word] for word in words if SPACE + word in token]))


def main(beside: str, *runs: str) -> None:
    parameters = load()
    found = {}
    for name in (beside, *runs):
        folder = tokens(parameters.run("lm", name).tokens)
        pieces = Vocabulary.read(folder / VOCABULARY).tokens
        found[name] = read(name, folder, pieces)
        if name == beside:
            text, spelled = np.asarray(stream(folder, "train")), pieces
            counts = Counter(split_words(text, pieces)[0])
        elif found[name].words != found[beside].words:
            sys.exit(f"error: {beside} and {name} read different test texts")
        counted = np.array(found[name].words) != LEFT_OUT
        print(f"{name}: {(found[name].lengths[counted] == 1).mean():.1%} of the words are one token")
    rows, rank = [], ranges(found[beside].words, counts)
    for name in runs:
        both = found[beside], found[name]
        seeds = [seed for seed in SEEDS if all(seed in one.losses for one in both)]
        losses = np.stack([[one.losses[seed] for seed in seeds] for one in both])
        lengths = np.stack([one.lengths for one in both])
        rows += [[name, beside, *row] for row in table(found[beside].words, losses, lengths, counts)]
        whole = (lengths == 1).all(0) & (rank == [*LAST_RANK][-1]) & (np.array(found[beside].words) != LEFT_OUT)
        words = {found[beside].words[place] for place in np.flatnonzero(whole)}
        if words:
            often = occurrences(words, counts, text, spelled)
            print(f"{name}: {len(words)} rare words are one token in both; in {beside} it occurs {often:.1f} times as often")
    print_table(COLUMNS, rows, width=16)
    name = f"word-loss-{parameters.scale}"
    file = FOLDER / f"{name}.csv"
    former = csv_files.read_csv(file).values.tolist() if file.is_file() else []
    write_table(name, COLUMNS, [*(row for row in former if row[0] not in runs), *rows])


if __name__ == "__main__":
    main(*sys.argv[1:])
