"""Measure a trained run as any other model is measured."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

from raretokens.errors import UserError
from raretokens.measure.causal_predictions import Reading
from raretokens.measure.embeddings import TIED, single_embedding
from raretokens.measure.formats import read_file
from raretokens.measure.model import Model, flatten_reading, hub_advice
from raretokens.measure.notes import Notes
from raretokens.measure.tokenizers import SentencePieceTokenizer, name_rows
from raretokens.measure.transformers_models import choose_device
from raretokens.vocabulary import BOS, EOS, PAD, UNK
from reproduction.commands import trained_run
from reproduction.commands.trained_run import TrainedRun
from reproduction.training.models.registry import build, load_weights

SPM = "spm.model"  # file in a folder of tokens


def read(name: str, vocabulary: Path | None) -> Model | None:
    """Return the model of a run by its name or folder, or None for a file or another folder.

    Raises:
        UserError: there is neither a file nor a run of that name.
    """
    path = Path(name)
    if path.is_file() or path.is_dir() and not trained_run.is_run(path):
        return None
    return load_run(trained_run.find(name, "file, model folder or run", hub_advice(name)), vocabulary)


def load_run(run: TrainedRun, vocabulary: Path | None = None) -> Model:
    """Return the model of a trained run, to measure it."""
    known, notes = run.vocabulary(), Notes()
    matrix = single_embedding(read_file(run.model).tensors, run.model)
    names = list(known.tokens[: known.types])
    spm = run.tokens / SPM  # absent if the tokens are not SentencePiece's
    ids = {token: row for row, token in enumerate(known.tokens)}
    return Model(
        f"{run.task}/{run.name}",
        run.folder,
        {TIED: matrix},
        [BOS, PAD, EOS, UNK],
        SentencePieceTokenizer(spm, ids) if spm.is_file() else None,
        row_names=name_rows(names, None, vocabulary, len(names), notes),
        counts=known.counts,
        groups=run.groups,
        reading=flatten_reading(run.job("predict-lm")["evaluation"]) if run.task == "lm" else {},
        line_end=EOS,
        begin=EOS,
        notes=notes,
        causal=partial(_causal, run, matrix.shape[0]),
    )


def _causal(run: TrainedRun, rows: int, reading: Reading) -> "PipelineModel":
    if run.task != "lm":
        raise UserError(f"{run.task}/{run.name} is not a causal language model")
    return PipelineModel(run, rows, reading)


class PipelineModel:
    """A language model of the pipeline, to predict a text."""

    def __init__(self, trained: TrainedRun, rows: int, reading: Reading) -> None:
        run, self.vocab_size = trained.run, rows
        longest = max(reading.window, reading.block, 1 + reading.prefix + reading.length)
        self.device, self.dtype = choose_device(), torch.float32
        self.model: nn.Module = build(run["architecture"], run["shape"], self.vocab_size, longest)
        load_weights(self.model, trained.model)
        self.model.to(self.device).eval()

    def logits(self, ids: Tensor, first: int) -> Tensor:
        """Return the logits of the positions from `first` on (sequences x positions x N, float32)."""
        return (self.model(ids.to(self.device))[:, first:] @ self.model.embedding.T).float()

    def logits_and_states(self, ids: Tensor) -> tuple[Tensor, Sequence[Tensor]]:
        """Return the logits of all positions, and of a Transformer the hidden states as transformers gives them.

        They are the embeddings' output, the output of each layer but the last, and the output of the final norm (sequences x
        positions x d).
        """
        states: list[Tensor] = []
        layers = getattr(self.model, "layers", None)
        parts = layers.layers if isinstance(layers, nn.TransformerEncoder) else []
        hooks = [part.register_forward_pre_hook(lambda module, inputs: states.append(inputs[0])) for part in parts]
        try:
            last = self.model(ids.to(self.device))
        finally:
            for hook in hooks:
                hook.remove()
        return (last @ self.model.embedding.T).float(), [*states, last] if states else []
