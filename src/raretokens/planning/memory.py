"""Memory that a training step needs, in bytes: an estimate, checked against measured peaks in the tests.

Counted are the tensors of training/loop.py at its fullest moment: what the forward pass keeps, as torch says (forward.py), and by
their shapes weights, gradients, Adam's moments and the loss. Not counted: AGG's window (a few hundred MB at full size), and what
several processes exchange beyond one copy of the gradients.
"""

import math
from dataclasses import dataclass

from raretokens.loss import gated_cross_entropy
from raretokens.planning.forward import Forward

FLOAT = 4
CHUNK = {"cpu": gated_cross_entropy.CHUNK, "cuda": gated_cross_entropy.CHUNK_CUDA}  # positions of the loss at a time
# What allocators lose between tensors that come and go: measured on a CPU, where stages/run keeps large ones in the heap.
SLACK = {"cpu": 1.6, "cuda": 1.1}
PROGRAM = {"cpu": 0.4e9, "cuda": 1.0e9}  # libraries; on a GPU its context and the workspace of matrix products


@dataclass(frozen=True)
class Step:
    """What decides the memory of a step of one process."""

    name: str  # task/run
    forward: Forward
    vocabulary: int  # N
    micro_batch: int  # positions of one forward and backward pass, padding counted
    is_accumulated: bool  # an update has several micro-batches
    half: bool  # bfloat16
    device: str  # cpu or cuda
    objective: float = 0.0  # bytes of its penalty and its state
    snapshots: float = 0.0  # bytes of the table's copies, which are read again at the end
    processes: int = 1

    @property
    def width(self) -> int:
        return self.forward.width

    @property
    def length(self) -> int:
        """Positions of the longest sequence."""
        return self.forward.positions

    @property
    def table(self) -> int:
        return FLOAT * self.vocabulary * self.width


def activations(step: Step) -> float:
    """Bytes that the forward pass keeps for the backward pass; NaN where they cannot be told."""
    forward = step.forward
    return forward.once + forward.sequence * step.micro_batch / forward.positions


def on_device(step: Step) -> dict[str, float]:
    """Peak of the training device by what takes it; `working` is the largest of the moments that exclude each other.

    It is NaN where the activations are.
    """
    model, table = FLOAT * step.forward.parameters, step.table
    grown = activations(step) + FLOAT * step.micro_batch * step.width  # and the gradient of the last states
    chunk = 2 * FLOAT * min(CHUNK[step.device], step.micro_batch) * step.vocabulary  # logits, and their exponentials
    gradients = model * (1 if step.is_accumulated else 0)
    moments = {
        "loss": grown + chunk + table * (1.5 if step.half else 1) + gradients,
        "backward": grown + 2 * table + step.objective + gradients,
        "first layer": model + 3 * table,  # all gradients; the table's also from the look-up, on their way to be added
        "end": model + step.snapshots if step.device == "cpu" else 0.0,  # the mean of the checkpoints
    }
    fullest = max(moments.values(), key=lambda size: (math.isnan(size), size))
    parts = {"weights": model, "Adam": 2 * model, "working": SLACK[step.device] * fullest}
    parts["program"] = PROGRAM[step.device]
    if step.processes > 1:
        parts["exchange"] = model
    return {name: float(value) for name, value in parts.items()}


def on_host(step: Step) -> dict[str, float]:
    """Memory of the computer itself: on a CPU all of it, with a GPU the model before and after, and copies of the table."""
    if step.device == "cpu":
        return on_device(step)
    return {"program": 2.0e9, "model": float(FLOAT * step.forward.parameters), "snapshots": step.snapshots}


def total(parts: dict[str, float]) -> float:
    return sum(parts.values())
