"""Speed and peak memory of preparing, encoding and aligning text of any size, beside the libraries that do the work.

    python benchmarks/data.py --corpus lm|pairs --size full|MEGABYTES [--out benchmarks/data-cpu.csv]

Made-up text in the form of the real files: Zipf's law over 260,000 words (lm, as WikiText-103; full is 103 million words)
or a million English and two million German ones (pairs, as WMT14; full is 4.5 million pairs; the size is that of both
sides). Each step runs in a process of its own, `bare` is the same library over the same blocks with nothing kept. Speed is
of the training text, by the clock and by processor time; memory is the peak of all processes of a step together, looked at five
times a second.
GPT-2's subword tokens come from RARETOKENS_MIRROR or the network. On a busy machine processor time says more than the clock.
"""

import argparse
import contextlib
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path

import numpy as np
import psutil
from records import keep

FULL = {"lm": 640, "pairs": 1_260}  # MB asked for: 103 million words, 4.5 million pairs
TYPES = {"lm": 260_000, "en": 1_000_000, "de": 2_000_000}
WORDS = {"lm": 90, "en": 25, "de": 23}  # of a line, on average
THREADS = 2
SAMPLED = 0.2  # seconds between looks at the memory
MERGES = 37_000


def words(types: int, vowels: str) -> np.ndarray:
    """Different words, short ones first."""
    syllables = [c + v for c in "bcdfghjklmnprstvwz" for v in vowels]
    count = len(syllables)
    return np.array(
        [
            syllables[i % count]
            + (syllables[i // count % count] if i >= count else "")
            + (syllables[i // count**2 % count] if i >= count**2 else "")
            + (syllables[i // count**3] if i >= count**3 else "")
            for i in range(types)
        ]
    )


def drawn(types: int, random: np.random.Generator, count: int) -> np.ndarray:
    """Ranks by Zipf's law: the inverse of the cumulated harmonic series, near enough."""
    return (np.exp(random.random(count) * np.log(types)) - 1).astype(np.int64)


def sentences(language: str, lengths: np.ndarray, seed: int, vocabulary: np.ndarray) -> Iterator[str]:
    random = np.random.default_rng(seed)
    for start in range(0, len(lengths), 10_000):
        part = lengths[start : start + 10_000]
        text = vocabulary[drawn(len(vocabulary), random, int(part.sum()))]
        for line in np.split(text, np.cumsum(part)[:-1]):
            yield (
                f" {' '.join(line)} . "
                if language == "lm"
                else f"{' '.join(line[:9])}, {' '.join(line[9:])}.".capitalize()
            )


def generate_lm(raw: Path, megabytes: float) -> None:
    vocabulary, folder = words(TYPES["lm"], "aeiou"), raw / "wikitext-103"
    folder.mkdir(parents=True)
    for seed, (split, size) in enumerate({"train": megabytes, "valid": 0.02, "test": 0.02}.items()):
        random = np.random.default_rng(seed)
        lengths = random.poisson(random.gamma(2, WORDS["lm"] / 2, max(int(size * 1e6 / 570), 10))) + 1
        with (folder / f"wiki.{split}.tokens").open("w") as out:
            for line in sentences("lm", lengths, seed, vocabulary):
                out.write(f"{line}\n \n")


def generate_pairs(raw: Path, megabytes: float) -> None:
    vocabularies = {"en": words(TYPES["en"], "aeiouy"), "de": words(TYPES["de"], "aeiouäöü")}
    pairs = max(int(megabytes * 1e6 / 280), 1000)
    sizes = {"europarl-v7": pairs // 2, "commoncrawl": pairs // 2, "news-commentary-v9": 100}
    for name in ("wmt14", "wmt-newstest"):
        (raw / name).mkdir(parents=True)
    files = {f"wmt14/{part}.de-en": count for part, count in sizes.items()} | {"wmt-newstest/newstest2014": 3003}
    for seed, (file, count) in enumerate(files.items()):
        random = np.random.default_rng(seed)
        lengths = random.poisson(random.gamma(3, WORDS["en"] / 3, count)) + 10
        for language, scale in (("en", 1.0), ("de", WORDS["de"] / WORDS["en"])):
            scaled = np.maximum(random.normal(scale * lengths, 3).astype(int), 10)
            with (raw / f"{file}.{language}").open("w") as out:
                out.writelines(f"{line}\n" for line in sentences(language, scaled, seed, vocabularies[language]))


def prepare(kind: str, corpus: str) -> None:
    from reproduction.corpora import registry

    registry.prepare(kind, corpus, Path("raw"), Path("corpus"), processes=THREADS, table=Path("none"))


def encode_pieces(task: str) -> None:
    from reproduction.corpora.tokenization.encode import encode
    from reproduction.corpora.tokenization.settings import EncodeJob as Job
    from reproduction.corpora.tokenization.settings import Subword
    from reproduction.tasks import describe

    declared = {"lm": Subword(model="gpt2"), "nmt": Subword(model="bpe", merges=MERGES, longest=250, ratio=1.5)}
    encode(Job(name=task, sides=describe(task).sides, vocabulary=declared[task]), Path("corpus"), Path("tokens"))


def encode_words() -> None:
    from reproduction.corpora.tokenization.encode import encode
    from reproduction.corpora.tokenization.settings import EncodeJob as Job
    from reproduction.corpora.tokenization.settings import WordVocabulary

    words = WordVocabulary(model="words", size=None, tokenise=False)
    encode(Job(name="words", sides=(".txt",), vocabulary=words), Path("corpus"), Path("words"))


def gpt2_alone() -> None:
    from tokenizers import Tokenizer

    from raretokens.files import read_blocks

    model = Tokenizer.from_file("tokens/gpt2.json")
    for block in read_blocks(Path("corpus/train.txt")):
        model.encode_batch_fast(block)


def words_alone() -> None:
    """The library's own model of words, learnt and applied."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    from raretokens.files import read_blocks

    model = Tokenizer(models.WordLevel({}, "<unk>"))
    model.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.WordLevelTrainer(vocab_size=10**7, special_tokens=["<unk>"], show_progress=False)
    model.train_from_iterator(read_blocks(Path("corpus/train.txt")), trainer)
    for block in read_blocks(Path("corpus/train.txt")):
        model.encode_batch_fast(block)


def merges_alone() -> None:
    """Learnt and applied."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    from raretokens.files import read_blocks

    model = Tokenizer(models.BPE(end_of_word_suffix="</w>"))
    model.pre_tokenizer = pre_tokenizers.Split(" ", behavior="removed")
    files = [Path(f"corpus/tokenised/train.{side}") for side in ("source", "target")]
    trainer = trainers.BpeTrainer(vocab_size=MERGES, min_frequency=2, end_of_word_suffix="</w>", show_progress=False)
    model.train_from_iterator(chain.from_iterable(map(read_blocks, files)), trainer)
    for block in chain.from_iterable(map(read_blocks, files)):
        model.encode_batch_fast(block)


def align() -> None:
    from reproduction.corpora.tokenization import alignment
    from reproduction.corpora.tokenization.settings import AlignJob

    alignment.align(AlignJob(), Path("tokens"), Path("aligned"))


# What is measured, and the library alone that it is compared with.
STEPS: dict[str, dict[str, tuple[Callable[[], None], Callable[[], None] | None]]] = {
    "lm": {
        "prepare": (lambda: prepare("text", "wikitext-103"), None),
        "encode": (lambda: encode_pieces("lm"), gpt2_alone),
        "encode words": (encode_words, words_alone),
    },
    "pairs": {
        "prepare": (lambda: prepare("bitext", "wmt14"), None),
        "encode": (lambda: encode_pieces("nmt"), merges_alone),
        "align": (align, None),
    },
}


def measured(corpus: str, step: str, bare: bool) -> None:
    """One step in this process; prints its seconds and processor seconds."""
    start = time.perf_counter()
    STEPS[corpus][step][bare]()
    seconds = time.perf_counter() - start
    here, below = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    processor = here.ru_utime + here.ru_stime + below.ru_utime + below.ru_stime
    print(json.dumps({"seconds": seconds, "processor": processor}))


def run(corpus: str, step: str, bare: bool, folder: Path) -> dict[str, float]:
    threads = {"RAYON_NUM_THREADS": str(THREADS), "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "true"}
    command = [sys.executable, str(Path(__file__).resolve()), "--corpus", corpus, "--step", step, *["--bare"] * bare]
    with subprocess.Popen(command, cwd=folder, env=os.environ | threads, text=True, stdout=subprocess.PIPE) as step:
        peak = peak_memory(step)
        told = step.stdout.read()
    if step.returncode:
        raise subprocess.CalledProcessError(step.returncode, command)
    return {**json.loads(told.splitlines()[-1]), "memory": peak / 1e6}


def peak_memory(step: subprocess.Popen) -> int:
    """Bytes that a step and its processes take together at most, each page that some share counted once; until it ends."""
    peak, of_all = 0, psutil.Process(step.pid)
    while step.poll() is None:
        with contextlib.suppress(psutil.Error):  # one of them has just ended
            peak = max(
                peak, sum(process.memory_full_info().pss for process in (of_all, *of_all.children(recursive=True)))
            )
        time.sleep(SAMPLED)
    return peak


def rows(corpus: str, megabytes: float, rounds: int, steps: list[str], folder: Path) -> Iterator[dict[str, object]]:
    raw = folder / "raw"
    {"lm": generate_lm, "pairs": generate_pairs}[corpus](raw, megabytes)
    if corpus == "lm":
        from reproduction.corpora.download import fetch

        mirror = os.environ.get("RARETOKENS_MIRROR")
        fetch("gpt2-bpe", raw / "gpt2-bpe", Path(mirror) if mirror else None, scratch=folder / "scratch")
    train = [*raw.glob("wikitext-103/*train*"), *raw.glob("wmt14/*")]
    size = sum(file.stat().st_size for file in train) / 1e6
    for step in steps:
        bare = STEPS[corpus][step][1]
        runs = {False: [], True: []}
        for _ in range(rounds if bare and rounds else 1):  # in turn, so that a busy machine is as busy for both
            for kind in (False, True) if bare and rounds else (False,):
                runs[kind].append(run(corpus, step, kind, folder))
        ours, alone = (
            {key: min(one[key] for one in kind) for key in kind[0]} if kind else None for kind in runs.values()
        )
        yield {
            "corpus": corpus,
            "step": step,
            "MB": round(size, 1),
            "seconds": round(ours["seconds"], 1),
            "MB_per_s": round(size / ours["seconds"], 2),
            "bare_MB_per_s": round(size / alone["seconds"], 2) if alone else "",
            "speed_to_bare": round(alone["seconds"] / ours["seconds"], 2) if alone else "",
            "processor_to_bare": round(alone["processor"] / ours["processor"], 2) if alone else "",
            "peak_MB": round(ours["memory"]),
            "bare_peak_MB": round(alone["memory"]) if alone else "",
            "machine": f"{platform.machine()}, {THREADS} threads",
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--corpus", choices=STEPS, required=True)
    parser.add_argument("--size", default="20", help="megabytes of training text, or full")
    parser.add_argument(
        "--rounds", type=int, default=2, help="the best one counts; 0: once, without the libraries alone"
    )
    parser.add_argument("--skip", action="append", default=[], help="a step, such as align, which takes longest")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--step", help=argparse.SUPPRESS)
    parser.add_argument("--bare", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.step:
        return measured(options.corpus, options.step, options.bare)
    megabytes = FULL[options.corpus] if options.size == "full" else float(options.size)
    steps = [step for step in STEPS[options.corpus] if step not in options.skip]
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as folder:
        for row in rows(options.corpus, megabytes, options.rounds, steps, Path(folder)):
            print("  ".join(f"{key} {value}" for key, value in row.items()), flush=True)
            if options.out:  # after each step: a killed run keeps what it has
                keep([row], options.out, ("corpus", "step", "MB"))


if __name__ == "__main__":
    main()
