"""What a run leaves: log and summary, kept up to date while it trains, and the weights at its end."""

import json
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from raretokens.errors import UserError
from raretokens.files import atomic_write, round_digits, write_text
from raretokens.models.registry import stored
from raretokens.training.log import NAME as LOG
from raretokens.training.log import Log, Position


class Checkpoint(NamedTuple):
    update: int
    valid_nll: float


def kept_after(kept: list[Checkpoint], new: Checkpoint, keep: int | str) -> list[Checkpoint]:
    """Checkpoints to keep when one more has been validated: the best one, or the last `keep`."""
    if keep == "best":
        return [min([*kept, new], key=lambda item: item.valid_nll)]
    return [*kept, new][-keep:]


def average(files: list[Path]) -> dict[str, Tensor]:
    """The mean of the weights in these files, in float32; one tensor of each is in memory at a time."""
    with ExitStack() as stack:
        opened = [stack.enter_context(safe_open(path, "pt")) for path in files]
        return {
            name: torch.stack([file.get_tensor(name).float() for file in opened]).mean(0)
            for name in opened[0].keys()  # noqa: SIM118
        }


@dataclass(frozen=True)
class Outputs:
    """Files of one run; only the main process of several writes them."""

    into: Path
    facts: dict  # of the run, beside what is measured
    is_main: bool = True

    def publish(self, log: Log, until: Position, kept: list[Checkpoint], valid_nll: float | None = None) -> None:
        """Write log.tsv and training.json as they stand; valid_nll is that of the weights as kept, once it is known."""
        last = until.last
        if not self.is_main or last is None:
            return
        log.publish(self.into / LOG, until.size)
        summary = {"updates": last["update"], "loss": round_digits(last["loss"]), "nll": round_digits(last["nll"])}
        if kept:
            best = min(item.valid_nll for item in kept) if valid_nll is None else valid_nll
            summary["kept"] = {"update": kept[-1].update, "checkpoints": len(kept), "valid_nll": round_digits(best)}
        write_text(self.into / "training.json", json.dumps({**summary, **self.facts}, indent=1) + "\n")

    def weights(self, weights: dict[str, Tensor], snapshots: dict[str, Tensor]) -> None:
        """Write the copies of the embedding matrix that were set aside on the way and, last, the weights that are kept.

        So where there are weights the run is whole. Raises UserError where a number in them is none.
        """
        if not self.is_main:
            return
        if wrong := [name for name, tensor in weights.items() if not tensor.isfinite().all()]:
            raise UserError(f"{self.into}: the weights contain NaN or Inf: {', '.join(wrong)}; lower the learning rate")
        for name, tensors in (("snapshots", snapshots), ("model", stored(weights))):
            with atomic_write(self.into / f"{name}.safetensors") as part:
                save_file(tensors, part)
