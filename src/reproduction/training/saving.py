"""What a run writes: its output files, and its resumable state, which a background thread saves while training continues."""

import copy
import json
import math
import time
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from accelerate.utils import gather_object
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from raretokens.errors import UserError
from raretokens.files import atomic_write, round_digits, sync, write_text
from reproduction.training.checked_files import LOG, Log, Position
from reproduction.training.models.registry import stored
from reproduction.training.recipe import Execution
from reproduction.training.state import State

SAVE_TOGETHER = 500  # least training steps between two saves with several processes
SHARE = 0.01  # largest share of the training time for saves


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


class Clock:
    """Schedule of saves.

    A save is due `save_seconds` after the end of the last save, or later, so that saves take at most 1 % of the training time.
    Several processes must save after the same step, but their clocks differ. At each save they therefore agree on the step of the
    next save. A positive `save_updates` overrides both rules.
    """

    def __init__(self, execution: Execution, processes: int = 1, step: int = 0) -> None:
        self.every, self.is_shared = execution.save_updates, processes > 1
        self.seconds, self.rest = execution.save_seconds, 0.0
        self.start = self.ended = time.monotonic()
        self.first, self.next = step, step + SAVE_TOGETHER

    def due(self, step: int) -> bool:
        if self.every:
            return step % self.every == 0
        if self.is_shared:
            return step >= self.next
        return time.monotonic() - self.ended > max(self.seconds, self.rest)

    def agree(self, step: int) -> None:
        """Choose the step of the next save; all processes must call this method together at a save."""
        if self.is_shared and not self.every:
            rate = (step - self.first) / (time.monotonic() - self.start)
            self.next = step + max(SAVE_TOGETHER, *gather_object([math.ceil(self.rest * rate)]))

    def saved(self, cost: float) -> None:
        """Record the end of a save; cost: seconds by which the save delayed training."""
        self.ended, self.rest = time.monotonic(), cost * (1 / SHARE - 1)


class Saver(AbstractContextManager):
    """Saver of a run's state and log; at most one save runs at a time.

    The cost of a save is the time that training waits plus the CPU time of the thread, without disk time. If `save_updates` is
    positive, training waits for the end of each save.
    """

    def __init__(self, clock: Clock, state: State, outputs: Outputs, thread: Executor | None = None) -> None:
        self.clock, self.state, self.outputs = clock, state, outputs
        self._thread = thread or ThreadPoolExecutor(1, "save")
        self._running: Future[float] | None = None
        self._step, self._waited = 0, 0.0

    def due(self, step: int) -> bool:
        """Return whether to save now. Raises the error of the last save, if it failed."""
        if self._running and self._running.done():
            self.wait()
        is_counted = self.clock.every or self.clock.is_shared
        return bool(is_counted or not self._running) and self.clock.due(step)

    def save(self, content: dict[str, Any], kept: list[Checkpoint]) -> None:
        """Copy the state and start its save in the background."""
        self.wait()
        begun = time.monotonic()
        position = self.state.log.position()
        sums = self.state.begin_save([item.step for item in kept], position)
        content = copied(content | {"row": position.last})
        self._step, self._running = content["update"], self._thread.submit(self._write, content, sums, position, kept)
        self._waited = time.monotonic() - begun
        if self.clock.every:
            self.wait()

    def agree(self, step: int) -> None:
        """With several processes, choose the step of the next save from the cost of the last one."""
        self.wait()
        self.clock.agree(step)

    def _write(self, content: dict, sums: dict[str, str], position: Position, kept: list[Checkpoint]) -> float:
        """Write the state and publish the log, in the background thread. Return the thread's CPU seconds."""
        begun = time.thread_time()
        sync(self.state.log.path)
        self.state.write(content, sums)
        self.outputs.publish(self.state.log, position, kept)
        return time.thread_time() - begun

    def wait(self) -> None:
        """Wait for the running save, if any. Raises the save's error, if it failed."""
        if self._running is None:
            return
        begun = time.monotonic()
        self._running.exception()  # an interrupt during the wait leaves the save running
        ended, self._running = self._running, None
        spent = ended.result()
        self.state.end_save(self._step)
        self.clock.saved(self._waited + (time.monotonic() - begun) + spent)

    def __exit__(self, *_: object) -> None:
        try:
            self.wait()
        finally:
            self._thread.shutdown()


def copied(tree: Any, known: dict[tuple, Tensor] | None = None) -> Any:
    """Return a copy of nested dictionaries, lists and tuples with all tensors on the CPU; tensors that share memory still do."""
    known = {} if known is None else known
    if isinstance(tree, Tensor):
        location = tree.device, tree.data_ptr(), tree.dtype, tree.shape, tree.stride()
        if location not in known or not tree.numel():
            known[location] = tree.detach().to("cpu", copy=True)
        return known[location]
    if isinstance(tree, dict):
        new = copy.copy(tree)  # also copies the version attribute of a module's state_dict
        new.update((name, copied(value, known)) for name, value in tree.items())
        return new
    if isinstance(tree, list | tuple):
        return type(tree)(copied(value, known) for value in tree)
    return tree


def random_states() -> list[tuple[Tensor, Tensor | None]]:
    """Return the generator states of each process: CPU, and GPU if there is one."""
    cuda = torch.cuda.get_rng_state() if torch.cuda.is_available() else None
    return gather_object([(torch.get_rng_state(), cuda)])


def restore_random_states(states: list[tuple[Tensor, Tensor | None]], rank: int) -> None:
    if rank >= len(states):  # a process that the saved run did not have keeps its own seed
        return
    cpu, cuda = states[rank]
    torch.set_rng_state(cpu)
    if cuda is not None:
        torch.cuda.set_rng_state(cuda)
