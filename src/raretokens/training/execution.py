"""How a machine carries a training out: what changes the speed and not the answer."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Execution:
    micro_batch: int = 2048  # tokens of one forward and backward pass
    workers: int = 0  # processes that prepare updates ahead of the training; 0: it does so itself
    compile: bool = False  # torch.compile of the model
    save_seconds: float = 120.0  # between two saves of the resumable state
    save_updates: int = 0  # saves by number of updates instead, if positive
