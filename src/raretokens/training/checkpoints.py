"""When the resumable state is saved, and the generators of random numbers as a part of it.

What a run leaves: log and summary, kept up to date while it trains, and the weights at its end.
"""

import json
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
from accelerate.utils import gather_object
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from raretokens.errors import UserError
from raretokens.files import DIGITS, atomic_write, round_digits, write_text
from raretokens.models.registry import stored
from raretokens.training.config import Execution

SAVE_TOGETHER = 500  # updates between two saves of several processes


class Clock:
    """When to save: several processes save their states together, which clocks cannot tell them to do."""

    def __init__(self, execution: Execution, processes: int) -> None:
        self.updates = execution.save_updates or (SAVE_TOGETHER if processes > 1 else 0)
        self.seconds, self.saved = execution.save_seconds, time.monotonic()

    def due(self, update: int) -> bool:
        if self.updates:
            return update % self.updates == 0
        now = time.monotonic()
        if now - self.saved <= self.seconds:
            return False
        self.saved = now
        return True


def random_states() -> list[tuple[torch.Tensor, torch.Tensor | None]]:
    """Of each process: the generator of the CPU, and of its GPU."""
    cuda = torch.cuda.get_rng_state() if torch.cuda.is_available() else None
    return gather_object([(torch.get_rng_state(), cuda)])


def restore_random_states(states: list[tuple[torch.Tensor, torch.Tensor | None]], rank: int) -> None:
    if rank >= len(states):  # a process more than before goes on with its own seed
        return
    cpu, cuda = states[rank]
    torch.set_rng_state(cpu)
    if cuda is not None:
        torch.cuda.set_rng_state(cuda)


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

    def publish(self, log: list[dict], kept: list[Checkpoint], valid_nll: float | None = None) -> None:
        """Write log.tsv and training.json as they stand; valid_nll is that of the weights as kept, once it is known."""
        if not self.is_main:
            return
        columns, last = list(log[-1]), log[-1]
        lines = ["\t".join(_cell(row[column]) for column in columns) for row in log]
        write_text(self.into / "log.tsv", "\n".join(["\t".join(columns), *lines, ""]))
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


def _cell(value: float | int | None) -> str:
    return "" if value is None else f"{value:.{DIGITS}g}" if isinstance(value, float) else str(value)
