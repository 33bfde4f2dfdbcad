"""Read and check the files that training and prediction of a run have written, for scoring."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors import safe_open

from raretokens.errors import UserError
from raretokens.files import atomic_write
from raretokens.vocabulary import FILLER, SPECIALS, VOCABULARY, Vocabulary
from reproduction.run import Run
from reproduction.tasks.evaluation.job_specs import ScoreJob


@dataclass(frozen=True)
class RunPaths:
    """Folders of a run, and folders that all runs on the same text share."""

    tokens: Path
    trained: Path
    predictions: Path  # output of the model on the test text: log-probabilities, most probable ids or translations
    alignment: Path
    corpora: Path  # all prepared texts
    scores: Path  # score files of the task
    curves: Path


@dataclass(frozen=True)
class Artifacts:
    """Files of a trained model that scoring reads."""

    run: Run
    paths: RunPaths
    vocabulary: Vocabulary
    groups: np.ndarray  # N, int8: frequency group of each id
    embedding: np.ndarray  # N x d, float32: tied embedding matrix, raw (without the factor sqrt(d))
    log: list[dict[str, str]]  # one row per training step; an empty string where nothing was measured
    summary: dict  # content of training.json

    @classmethod
    def read(cls, job: ScoreJob, paths: RunPaths) -> "Artifacts":
        """Read the artifacts of a run.

        Raises:
            UserError: Artifacts are inconsistent with each other.
            OSError: An artifact is missing.
        """
        vocabulary = Vocabulary.read(paths.tokens / VOCABULARY, job.run.reverse)
        weights = paths.trained / "model.safetensors"
        with _open(weights) as file:
            embedding = file.get_tensor("table")
        _check(embedding, weights, len(vocabulary))
        header, *rows = (line.split("\t") for line in lines(paths.trained / "log.tsv"))
        summary = json.loads((paths.trained / "training.json").read_text(encoding="utf-8"))
        log = [dict(zip(header, row, strict=True)) for row in rows]
        groups = vocabulary.frequency_groups(job.groups)
        if not job.markers:
            groups[: len(SPECIALS)] = FILLER
        return cls(job.run, paths, vocabulary, groups, embedding, log, summary)

    def array(self, name: str) -> np.ndarray:
        """Return the array <name>.npy of the model's output on the test text."""
        return np.load(self.paths.predictions / f"{name}.npy")

    def snapshots(self) -> Iterator[tuple[int, np.ndarray]]:
        """Yield training step and embedding matrix (N x d, float16) of each snapshot, in order."""
        path = self.paths.trained / "snapshots.safetensors"
        with _open(path) as file:
            for key in sorted(file.keys()):
                embedding = file.get_tensor(key)
                _check(embedding, f"{path}: {key}", len(self.vocabulary))
                yield int(key), embedding


def _open(path: Path) -> safe_open:
    if not path.is_file():
        raise UserError(f"{path}: no such file; train the run first")
    return safe_open(path, framework="numpy")


def _check(embedding: np.ndarray, source: Path | str, types: int) -> None:
    if len(embedding) != types:
        raise UserError(f"{source}: {len(embedding)} rows for {types} types; train the run again")
    if not all(np.isfinite(embedding[start : start + 1024]).all() for start in range(0, len(embedding), 1024)):
        raise UserError(f"{source}: the weights contain NaN or Inf; the run has diverged")


def write_array(path: Path, values: np.ndarray) -> None:
    with atomic_write(path) as part, open(part, "wb") as file:
        np.save(file, values)


def lines(path: Path) -> list[str]:
    """Return the lines of a text file, split only at \\n."""
    text = path.read_bytes().decode("utf-8")
    return text.removesuffix("\n").split("\n") if text else []
