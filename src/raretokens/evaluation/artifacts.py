"""Where scoring reads and writes.

What a run has left for scoring, read and checked.
What token files are described by.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors import safe_open

from raretokens.errors import UserError
from raretokens.evaluation.config import ScoreJob as Score
from raretokens.run import Run
from raretokens.tokenization.config import Groups
from raretokens.tokenization.token_files import read_meta
from raretokens.tokenization.vocabulary import FILLER, SPECIALS, VOCABULARY, Vocabulary


@dataclass(frozen=True)
class Places:
    """Folders; of a run, and of what all runs of its text share."""

    tokens: Path
    trained: Path
    output: Path  # of the model on the test text: probes or translations
    alignment: Path
    corpora: Path  # of all prepared text
    scores: Path  # of the score files of the task
    curves: Path


@dataclass(frozen=True)
class Artifacts:
    """A trained model as scoring sees it."""

    run: Run
    places: Places
    vocabulary: Vocabulary
    groups: np.ndarray  # N
    table: np.ndarray  # N x d, float32: tied embedding, raw (no sqrt(d) scale)
    log: list[dict[str, str]]  # one row an update; an empty string where nothing was measured
    summary: dict  # training.json

    @classmethod
    def read(cls, job: Score, places: Places) -> "Artifacts":
        """Raises UserError where artifacts do not fit each other, OSError where one is missing."""
        vocabulary = Vocabulary.read(places.tokens / VOCABULARY)
        if job.run.reverse:
            vocabulary = vocabulary.reversed()
        table = _table(places.trained / "model.safetensors", len(vocabulary))
        header, *rows = (line.split("\t") for line in lines(places.trained / "log.tsv"))
        summary = json.loads((places.trained / "training.json").read_text(encoding="utf-8"))
        log = [dict(zip(header, row, strict=True)) for row in rows]
        groups = group_of(vocabulary, job.groups)
        if not job.markers:
            groups[: len(SPECIALS)] = FILLER
        return cls(job.run, places, vocabulary, groups, table, log, summary)

    def array(self, name: str) -> np.ndarray:
        """Return an array of the model's output on the test text."""
        return np.load(self.places.output / f"{name}.npy")

    def snapshots(self) -> Iterator[tuple[int, np.ndarray]]:
        """Update and table (N x d, float16) of each snapshot, in order."""
        path = self.places.trained / "snapshots.safetensors"
        if not path.is_file():
            raise UserError(f"{path}: no such file; train the run first")
        with safe_open(path, framework="numpy") as file:
            for key in sorted(file.keys()):
                table = file.get_tensor(key)
                _check(table, f"{path}: {key}", len(self.vocabulary))
                yield int(key), table


def _table(path: Path, types: int) -> np.ndarray:
    if not path.is_file():
        raise UserError(f"{path}: no such file; train the run first")
    with safe_open(path, framework="numpy") as file:
        table = file.get_tensor("table")
    _check(table, path, types)
    return table


def _check(table: np.ndarray, place: Path | str, types: int) -> None:
    if len(table) != types:
        raise UserError(f"{place}: {len(table)} rows for {types} types; train the run again")
    if not all(np.isfinite(table[start : start + 1024]).all() for start in range(0, len(table), 1024)):
        raise UserError(f"{place}: not all numbers are finite; the run has diverged")


def group_of(vocabulary: Vocabulary, declared: Groups) -> np.ndarray:
    """Frequency group of each id (N, int8)."""
    try:
        return vocabulary.groups(declared.model_dump())
    except ValueError as error:
        raise UserError(str(error)) from None


def lines(path: Path) -> list[str]:
    """Lines of a text, split at \\n alone."""
    text = path.read_bytes().decode("utf-8")
    return text.removesuffix("\n").split("\n") if text else []


ORDER = ("train", "valid", "test")


def splits(folder: Path) -> dict[str, dict[str, int]]:
    """Tokens and lines of train, valid and test, in this order, and of what else there is."""
    described = read_meta(folder)["splits"]
    return {
        name: described[name]
        for name in (*ORDER, *(name for name in described if name not in ORDER))
        if name in described
    }
