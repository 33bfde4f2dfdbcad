"""The text of word embeddings as updates, and the loss of one."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from raretokens.errors import UserError
from raretokens.loss.gated_cross_entropy import SummedLoss
from raretokens.loss.objective import Objective
from raretokens.loss.terms import negative_sampling
from raretokens.tokenization.token_files import tokens
from raretokens.tokenization.vocabulary import VOCABULARY, Vocabulary
from raretokens.training.batches import Batch
from raretokens.training.config import TrainJob as Job
from raretokens.training.criterion import Criterion
from raretokens.training.window_batches import Windows

SOFTMAX = (
    "gate",
    "target_offset",
    "token_weight",
    "unlikelihood",
    "z_loss",
    "hidden_term",
    "input_term",
    "loss",
    "frozen_rows",
)  # what has no meaning without one


class NegativeSampling(Criterion):
    """Of what an objective can change, its penalty on the table."""

    def __init__(self, model: nn.Module, objective: Objective) -> None:
        super().__init__(model, objective)
        changed = [name for name in SOFTMAX if getattr(type(objective), name) is not getattr(Objective, name)]
        if changed:
            name = type(objective).__module__.rsplit(".", 1)[-1]
            raise UserError(
                f"objective {name}: its {', '.join(changed)} needs a softmax, which skip-gram does not have"
            )

    def loss(self, forward: Callable[..., Any], batch: Batch) -> SummedLoss:
        loss = negative_sampling(forward(*batch.inputs), batch.targets, self.model.negatives)
        return SummedLoss(loss, loss.detach())

    def count(self, batch: Batch) -> Tensor:
        return batch.targets.sum()


CRITERION = NegativeSampling


def data(job: Job, folder: Path) -> tuple[Windows, Windows]:
    """Training and validation text."""
    training, shape = job.training, job.run.shape
    cut = {name: shape[name] for name in ("window", "drawn", "subsample")} | {"block": training.block}
    vocabulary, (train, valid) = (
        Vocabulary.read(folder / VOCABULARY),
        (tokens(folder, split) for split in ("train", "valid")),
    )
    size, most = training.tokens_per_update, training.validation_tokens or len(valid)
    updates = Windows(train, vocabulary, **cut, tokens_per_update=size, seed=job.run.seed)
    return updates, Windows(valid, vocabulary, **cut, tokens_per_update=min(size, len(valid), most), first=most)
