"""Time and peak memory of word alignment by the number of sentence pairs that it is trained on.

    python benchmarks/alignment.py --pairs 10000,100000 [--name generated] [--tokens FOLDER] [--out FILE.csv]

The text is generated (token types by Zipf's law), or what `encode` left in the folder --tokens (train.bin, meta.json). Each
size runs in a process of its own with one thread: both directions are trained on so many evenly spaced pairs, and up to
10,000 pairs are linked. expected_MB is the estimate that a plan shows; cooccurrences are pairs of token types that share a
sentence pair.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from records import keep, memory

TYPES, FIRST, LENGTH = 40_000, 10, 28  # of generated text: vocabulary, first id of a word, tokens of a sentence


def measure(tokens: Path, count: int) -> dict[str, float]:
    from reproduction.corpora.tokenization import alignment
    from reproduction.corpora.tokenization.token_files import Bitext, read_meta

    pairs = alignment.SentencePairs(Bitext(tokens, "train"), read_meta(tokens)["vocabulary"])
    training = pairs.numbers(count)
    start = time.process_time()
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as scratch:
        aligner = alignment.train(pairs, training, Path(scratch))
    trained = time.process_time()
    linked = len(next(alignment.find_links(pairs, aligner)))
    seconds = {
        "training_seconds": trained - start,
        "ms_per_linked_pair": 1e3 * (time.process_time() - trained) / linked,
    }
    return {key: round(value, 2) for key, value in seconds.items()} | {"peak_MB": round(memory("VmHWM") / 1e6)}


def size(tokens: Path, count: int) -> dict[str, int]:
    """Size of the text that is trained on, and the estimate of memory."""
    from scipy.sparse import csr_matrix

    from reproduction.corpora.tokenization import alignment
    from reproduction.corpora.tokenization.token_files import Bitext, read_meta

    vocabulary = read_meta(tokens)["vocabulary"]
    pairs = alignment.SentencePairs(Bitext(tokens, "train"), vocabulary)
    sides = list(zip(*map(pairs.ids, pairs.numbers(count)), strict=True))
    lengths = [np.array(list(map(len, side))) for side in sides]
    occurs = [
        csr_matrix(
            (np.ones(length.sum(), bool), np.concatenate(side), np.concatenate(([0], np.cumsum(length)))),
            (len(length), vocabulary),
        )
        for side, length in zip(sides, lengths, strict=True)
    ]
    total = int(sum(length.sum() for length in lengths))
    return {
        "training_pairs": len(lengths[0]),
        "tokens": total,
        "vocabulary": vocabulary,
        "positions": int((lengths[0] * lengths[1]).sum()),
        "cooccurrences": (occurs[0].T @ occurs[1]).nnz,
        "expected_MB": round(alignment.expected_memory(len(lengths[0]), total, vocabulary) / 1e6),
    }


def measure_apart(tokens: Path, count: int) -> dict[str, float]:
    """Measure in a process of its own with one thread."""
    command = [sys.executable, str(Path(__file__).resolve()), "--tokens", str(tokens), "--pairs", str(count), "--one"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    finished = subprocess.run(command, env=environment, text=True, stdout=subprocess.PIPE, check=True)
    return json.loads(finished.stdout.splitlines()[-1])


def generate(folder: Path, count: int) -> Path:
    """Write a token file: token types by Zipf's law, sentences as long as those of WMT14 in 37,000 merges."""
    import data
    from raretokens.vocabulary import EOS
    from reproduction.corpora.tokenization.token_files import write_meta

    random = np.random.default_rng(0)
    lengths = np.maximum(random.poisson(random.gamma(3, LENGTH / 3, 2 * count)), 1)
    ids = FIRST + data.drawn(TYPES - FIRST, random, int(lengths.sum()))
    np.insert(ids, np.cumsum(lengths), EOS).astype("<u2").tofile(folder / "train.bin")
    write_meta(folder, {"vocabulary": TYPES, "dtype": "<u2"})
    return folder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", default="10000,100000")
    parser.add_argument("--name", default="generated", help="of the text, in the rows")
    parser.add_argument("--tokens", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.tokens, int(options.pairs))))
        return
    sizes = [int(count) for count in options.pairs.split(",")]
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as folder:
        tokens = (options.tokens or generate(Path(folder), max(sizes))).resolve()
        for count in sizes:
            row = {"text": options.name} | size(tokens, count) | measure_apart(tokens, count)
            row |= {"machine": f"{platform.machine()}, 1 thread"}
            print("  ".join(f"{key} {value}" for key, value in row.items()), flush=True)
            if options.out:
                keep([row], options.out, ("text", "training_pairs"))


if __name__ == "__main__":
    main()
