"""What a training step is measured on: a model config of params.yaml, and random text in which types fall in frequency."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from raretokens.errors import UserError
from raretokens.loss.facts import Facts
from raretokens.vocabulary import EOS, PAD, SPECIALS
from reproduction.corpora.tokenization import token_files as streams
from reproduction.pipeline.parameters_file import load
from reproduction.pipeline.plan import vocabulary_size
from reproduction.training.models.shapes import shape_of
from reproduction.training.recipe import Training

ROOT = Path(__file__).parents[1]
STEEPNESS = 16  # of the fall: an exponent
MEAN_LENGTH = 28  # of a sentence of translation, in subword tokens, as in WMT14 En-De


@dataclass(frozen=True)
class Workload:
    task: str
    architecture: str
    shape: dict[str, Any]
    vocabulary: int
    training: Training

    @classmethod
    def named(cls, name: str, tokens: int | None = None, precision: str | None = None) -> "Workload":
        """SCALE/TASK/SIZE, such as paper/lm/gpt2m; tokens: of an update, where not as many as params.yaml says."""
        try:
            scale, task, size = name.split("/")
            path = ROOT / "params.yaml" if scale == "demo" else ROOT / "scales" / scale / "params.yaml"
            parameters = load(path)
            declared = parameters.task(task).models[size]
        except (AttributeError, KeyError, ValueError):
            raise UserError(f"{name}: no such size; allowed: SCALE/TASK/SIZE, such as paper/lm/gpt2m") from None
        asked = {"tokens_per_step": tokens, "precision": precision}
        training = _adapted(declared.training(parameters.task(task).training), **asked)
        rows = vocabulary_size(parameters, _tokens(parameters, task, size), path.parent / "data/tokens")
        return cls(task, declared.architecture, shape_of(declared.architecture, declared.shape, name), rows, training)

    def ids(self, count: int, seed: int = 0) -> np.ndarray:
        """count ids (int64), none of them a marker."""
        random = np.random.default_rng(seed).random(count) ** STEEPNESS
        return (random * (self.vocabulary - len(SPECIALS))).astype(np.int64) + len(SPECIALS)

    def write_pairs(self, folder: Path, split: str, pieces: int) -> streams.Bitext:
        """Sentence pairs of about so many target pieces as a token file: most are short, a few long, both sides alike."""
        random = np.random.default_rng(1)
        pairs = max(pieces // MEAN_LENGTH, 1)
        source = random.gamma(2.0, MEAN_LENGTH / 2, pairs)
        target = source * random.lognormal(0.0, 0.15, pairs)
        lengths = np.stack((source, target), axis=1).reshape(-1).astype(int).clip(2, self.training.block)
        ids = self.ids(int(lengths.sum()))
        ids[lengths.cumsum() - 1] = EOS
        dtype = streams.token_dtype(self.vocabulary)
        ids.astype(dtype).tofile(folder / f"{split}.bin")
        streams.write_meta(folder, {"dtype": dtype.str})
        return streams.Bitext(folder, split)

    def facts(self, counts: torch.Tensor, updates: int) -> Facts:
        """counts: N, of an epoch's targets; the rare group is the last fifth of the types."""
        return Facts(
            counts=counts,
            rare=torch.arange(len(counts), device=counts.device) >= len(counts) * 4 // 5,
            types=len(counts),
            specials=len(SPECIALS),
            pad=PAD,
            steps_per_epoch=updates,
            width=self.shape["width"],
            label_smoothing=self.training.label_smoothing,
        )


def _adapted(training: Training, **asked: Any) -> Training:
    training = training.replaced(**{key: value for key, value in asked.items() if value})
    return training.replaced(block=min(training.block, training.tokens_per_step))


def _tokens(parameters: Any, task: str, size: str) -> str:
    """The token files that runs of the size are trained on; where there is no such run, the first of the task."""
    runs = [line.tokens for line in parameters.lines(task).values() if line.model == size]
    return (runs or [name for name in parameters.tokens if parameters.corpus_of(name).task == task])[0]
