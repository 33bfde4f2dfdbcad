"""Report of the examples that the key `block` excludes from a training or shortens."""

import os
from collections.abc import Iterator

import numpy as np

from raretokens.errors import UserError
from raretokens.vocabulary import EOS
from raretokens.yaml_files import read_yaml
from reproduction import paths
from reproduction.corpora.tokenization.token_files import Bitext, tokens
from reproduction.tasks import describe
from reproduction.training.recipe import TrainJob


def check(job: TrainJob) -> None:
    """Print how many examples of each split are longer than `block`. Raises UserError if no pair of a split is left."""
    lines = list(_lines(job))
    if int(os.environ.get("RANK", "0")) == 0:
        print(*(f"{job.run.task}/{job.run.name}: {line}\n" for line in lines), sep="", end="", flush=True)


def _lines(job: TrainJob) -> Iterator[str]:
    block, kind, folder = job.training.block, describe(job.run.task).kind, paths.tokens(job.run.tokens)
    if kind not in ("bitext", "documents"):
        return
    for split in ("train", "valid"):
        sizes = Bitext(folder, split).lengths.max(1) if kind == "bitext" else _documents(tokens(folder, split))
        longer, value = int((sizes > block).sum()), f"{_key(job)}: {block}"
        if kind == "bitext" and len(sizes) == longer:
            allowed = f"the shortest has {sizes.min(initial=block + 1)} tokens; allowed: at least that many"
            raise UserError(f"{value} leaves out all {longer:,} pairs of {split}; {allowed}")
        if longer:
            what = "leaves out" if kind == "bitext" else "cuts"
            noun = "pairs" if kind == "bitext" else "documents"
            yield f"{value} {what} {longer:,} of {len(sizes):,} {noun} of {split}, which are longer"


def _documents(ids: np.ndarray) -> np.ndarray:
    """Return the tokens of each document, including its end."""
    return np.diff(np.flatnonzero(ids == EOS), prepend=-1)


def _key(job: TrainJob) -> str:
    """Return the key of params.yaml that the block of a run comes from. A trial has no such file, and gets that of the task."""
    run, tree = job.run, read_yaml(paths.PARAMETERS) if paths.PARAMETERS.is_file() else {}
    overrides = tree.get(run.task, {}).get("models", {}).get(run.model, {})
    return f"{run.task}.models.{run.model}.block" if "block" in overrides else f"{run.task}.training.block"
