"""Skip-gram embeddings beside gensim's, on the same text with the same settings: words a second of one core, and word similarity.

    OMP_NUM_THREADS=1 python benchmarks/skipgram.py --tokens data/tokens/skipgram [--out benchmarks/skipgram-cpu.csv]

Speed is of processor time, so other work on the machine disturbs it little; ours is of the whole training loop with its
files and validation, gensim's of `train` alone, its vocabulary built before. Each engine runs once a seed, in turn. Settings
that one of the two does not have: ours shares `drawn` negatives in a block of `block` words and takes the steps of
`tokens-per-update` words at one point, gensim draws anew for each pair and takes one step after another. `mean_cosine` is
between the rows of two words of the text: near 1 all rows point one way.
"""

import argparse
import platform
import tempfile
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import gensim
import numpy as np
import torch
from records import keep
from safetensors.torch import load_file

from raretokens.metrics.isotropy import vector_sum
from raretokens.metrics.similarity import read_pairs, word_similarity
from raretokens.vocabulary import SPECIALS, UNK, VOCABULARY, Vocabulary
from reproduction.corpora.tokenization import token_files as streams
from reproduction.corpora.tokenization.settings import Groups
from reproduction.run import Run
from reproduction.tasks import skipgram
from reproduction.training.recipe import Execution, Observer, RuleChoice, Training
from reproduction.training.recipe import TrainJob as Job
from reproduction.training.run import WEIGHTS, train

SENTENCE = 10_000  # words; gensim cuts longer ones
KEY = ("text", "words", "width", "negatives", "epochs", "lr", "tokens_per_update")


def ours(folder: Path, seed: int, asked: argparse.Namespace) -> tuple[np.ndarray, float]:
    """N x d rows, and seconds."""
    shape = {name: getattr(asked, name) for name in ("width", "window", "negatives", "drawn", "subsample")}
    run = Run(name="run", task="skipgram", tokens="text", objective="mle", model="size", architecture="skip_gram", shape=shape,
              seed=seed, options={})  # fmt: skip
    updates = len(streams.tokens(folder, "train")) * asked.epochs // asked.tokens_per_update
    recipe = Training(steps=updates, tokens_per_step=asked.tokens_per_update, block=asked.block, peak_lr=asked.lr,
                      rule=RuleChoice(name="linear_sgd"), weight_decay=0.0, label_smoothing=0.0, validate_every=updates,
                      validation_tokens=16384, keep=1, snapshot_every=updates)  # fmt: skip
    job = Job(run=run, training=recipe, groups=Groups(fractions=[0.2, 0.3, 0.5]))
    with tempfile.TemporaryDirectory() as place:
        into, start = Path(place), time.process_time()
        train(job, str(asked).encode(), skipgram, Execution(), Observer(), folder, into / "scratch", into / "out")
        seconds = time.process_time() - start
        return load_file(into / "out" / WEIGHTS)["table"].numpy(), seconds


def gensims(text: np.ndarray, vocabulary: Vocabulary, seed: int, asked: argparse.Namespace) -> tuple[np.ndarray, float]:
    """N x d rows, zero where a type is no word, and seconds."""
    words = np.array(vocabulary.tokens, dtype=object)[text]
    sentences = [words[start : start + SENTENCE].tolist() for start in range(0, len(words), SENTENCE)]
    model = gensim.models.Word2Vec(vector_size=asked.width, window=asked.window, negative=asked.negatives, sample=asked.subsample,
                                   alpha=asked.lr, min_count=1, sg=1, workers=1, seed=seed)  # fmt: skip
    model.build_vocab(sentences)
    start = time.process_time()
    model.train(sentences, total_examples=model.corpus_count, epochs=asked.epochs)
    seconds, rows = time.process_time() - start, np.zeros((len(vocabulary), asked.width), np.float32)
    for row, word in enumerate(vocabulary.tokens):
        if word in model.wv:
            rows[row] = model.wv[word]
    return rows, seconds


def similarity(rows: np.ndarray, vocabulary: Vocabulary, sets: Path) -> dict[str, str]:
    """Spearman x 100 over the pairs whose words both have rows."""
    words = np.flatnonzero(vocabulary.counts)
    known = {vocabulary.tokens[row]: int(row) for row in words if row >= len(SPECIALS)}
    pairs = {file.stem: [(one.lower(), other.lower(), score) for one, other, score in read_pairs(file)]
             for file in sorted(sets.glob("*.tsv"))}  # fmt: skip
    pairs = {name: [pair for pair in listed if pair[0] in known and pair[1] in known] for name, listed in pairs.items()}
    enough = {name: listed for name, listed in pairs.items() if len(listed) > 20}
    found, _ = word_similarity(rows, enough, partial(_row, known), form="lower-case")
    return {name: f"{value:.2f}" for name, value in found.items()}


def alike(table: np.ndarray, vocabulary: Vocabulary) -> float:
    """Mean cosine of the rows of two words that the text has."""
    used = np.flatnonzero(vocabulary.counts)
    used = used[used >= len(SPECIALS)]
    total, diagonal = vector_sum(table, used)
    return float((total @ total - diagonal) / (len(used) * (len(used) - 1)))


def _row(rows: dict[str, int], word: str) -> list[int]:
    return [rows.get(word, UNK)]


def shortened(folder: Path, limit: int | None, into: Path) -> Path:
    """The token files, with only so much of the training text, and its counts; the ids stay."""
    if limit is None:
        return folder
    into.mkdir(parents=True)
    text = streams.tokens(folder, "train")[:limit]
    text.tofile(into / "train.bin")
    for name in ("valid.bin", streams.META):
        (into / name).write_bytes((folder / name).read_bytes())
    vocabulary = Vocabulary.read(folder / VOCABULARY)
    counts = np.bincount(text, minlength=len(vocabulary))
    replace(vocabulary, counts=counts, target_counts=counts).write(into / VOCABULARY)
    return into


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=Path, default=Path("data/tokens/skipgram"))
    parser.add_argument("--sets", type=Path, default=Path("data/corpus/similarity"))
    parser.add_argument("--name", default="bible")
    parser.add_argument("--limit", type=int, help="tokens of the training text")
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--epochs", type=int, default=4)
    for name, value in (
        ("width", 100),
        ("window", 5),
        ("negatives", 5),
        ("drawn", 32),
        ("block", 32),
        ("tokens-per-update", 640),
    ):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--subsample", type=float, default=0.001)
    parser.add_argument("--lr", type=float, default=0.025)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as place:
        folder = shortened(asked.tokens, asked.limit, Path(place) / "text")
        vocabulary = Vocabulary.read(folder / VOCABULARY)
        text = np.asarray(streams.tokens(folder, "train"))
        text, types = text[text >= len(SPECIALS)], int(np.sum(vocabulary.counts[len(SPECIALS) :] > 0))
        rows: list[dict] = []
        for seed in map(int, asked.seeds.split(",")):
            of_gensim = gensims(text, vocabulary, seed, asked)
            for engine, (table, seconds) in (("gensim", of_gensim), ("ours", ours(folder, seed, asked))):
                row = {"text": asked.name, "words": len(text), "types": types, "width": asked.width,
                       "negatives": asked.negatives, "epochs": asked.epochs, "lr": asked.lr,
                       "tokens_per_update": asked.tokens_per_update, "drawn": asked.drawn if engine == "ours" else "",
                       "block": asked.block if engine == "ours" else "", "seed": seed, "engine": engine,
                       "words_per_second": round(len(text) * asked.epochs / seconds),
                       "to_gensim": f"{of_gensim[1] / seconds:.2f}", **similarity(table, vocabulary, asked.sets),
                       "mean_cosine": f"{alike(table, vocabulary):.3f}",
                       "machine": f"{platform.machine()}, 1 core"}  # fmt: skip
                print(row, flush=True)
                rows.append(row)
    if asked.out:
        keep(rows, asked.out, KEY)


if __name__ == "__main__":
    main()
