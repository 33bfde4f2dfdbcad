"""Output files of a run: log and summary, refreshed during training, and the final weights."""

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
from raretokens.training.checked_files import LOG, Log, Position


class Checkpoint(NamedTuple):
    step: int
    valid_nll: float


def kept_after(kept: list[Checkpoint], new: Checkpoint, keep: int | str) -> list[Checkpoint]:
    """Return the checkpoints to keep after a new validation: the best one, or the last `keep`."""
    if keep == "best":
        return [min([*kept, new], key=lambda item: item.valid_nll)]
    return [*kept, new][-keep:]


def average(files: list[Path]) -> dict[str, Tensor]:
    """Return the mean of the weights in these files, in float32, with one tensor of each file in memory at a time."""
    with ExitStack() as stack:
        opened = [stack.enter_context(safe_open(path, "pt")) for path in files]
        return {
            name: torch.stack([file.get_tensor(name).float() for file in opened]).mean(0)
            for name in opened[0].keys()  # noqa: SIM118
        }


@dataclass(frozen=True)
class Outputs:
    """Output files of one run, which only the main process writes."""

    into: Path
    facts: dict  # entries of training.json that do not depend on the training progress
    is_main: bool = True

    def publish(self, log: Log, until: Position, kept: list[Checkpoint], valid_nll: float | None = None) -> None:
        """Write log.tsv and training.json up to `until`; valid_nll: validation NLL of the final weights, if known."""
        last = until.last
        if not self.is_main or last is None:
            return
        log.publish(self.into / LOG, until.size)
        summary = {"updates": last["update"], "loss": round_digits(last["loss"]), "nll": round_digits(last["nll"])}
        if kept:
            best = min(item.valid_nll for item in kept) if valid_nll is None else valid_nll
            summary["kept"] = {"update": kept[-1].step, "checkpoints": len(kept), "valid_nll": round_digits(best)}
        write_text(self.into / "training.json", json.dumps({**summary, **self.facts}, indent=1) + "\n")

    def weights(self, weights: dict[str, Tensor], snapshots: dict[str, Tensor]) -> None:
        """Write the snapshots of the embedding matrix and then the final weights, so that weights exist only in complete runs.

        Raises:
            UserError: if the weights contain NaN or Inf.
        """
        if wrong := [name for name, tensor in weights.items() if not tensor.isfinite().all()]:
            raise UserError(f"{self.into}: the weights contain NaN or Inf: {', '.join(wrong)}; lower the learning rate")
        for name, tensors in (("snapshots", snapshots), ("model", stored(weights))):
            with atomic_write(self.into / f"{name}.safetensors") as part:
                save_file(tensors, part)
