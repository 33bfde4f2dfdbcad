"""When the resumable state is saved, and the generators of random numbers as a part of it."""

import time

import torch
from accelerate.utils import gather_object

from raretokens.training.execution import Execution

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
