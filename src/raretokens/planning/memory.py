"""Memory that a training step needs, in bytes: an estimate from shapes, checked against measured peaks in the tests.

Counted are the tensors of training/loop.py at its fullest moment. Under autocast matrix products and what they keep are
bfloat16; weights, gradients, Adam's moments, norms and sums stay float32. Not counted: AGG's window (a few hundred MB at full
size), and what several processes exchange beyond one copy of the gradients.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from raretokens.loss import gated_cross_entropy

TRANSFORMER = {"layers", "width", "heads", "feedforward", "attention_dropout", "activation"}  # what the formula reads
FLOAT, HALF = 4, 2
CHUNK = {"cpu": gated_cross_entropy.CHUNK, "cuda": gated_cross_entropy.CHUNK_CUDA}  # positions of the loss at a time
# What allocators lose between tensors that come and go: measured on a CPU, where stages/run keeps large ones in the heap.
SLACK = {"cpu": 1.6, "cuda": 1.1}
PROGRAM = {"cpu": 0.4e9, "cuda": 1.0e9}  # libraries; on a GPU its context and the workspace of matrix products


@dataclass(frozen=True)
class Step:
    """What decides the memory of a step of one process."""

    name: str  # task/run
    sides: int  # 2: an encoder and a decoder
    shape: Mapping[str, Any]
    vocabulary: int  # N
    parameters: int  # P
    micro_batch: int  # positions of one forward and backward pass, padding counted
    length: int  # longest sequence
    is_accumulated: bool  # an update has several micro-batches
    half: bool  # bfloat16
    device: str  # cpu or cuda
    kept: float | None = None  # bytes of a position, of an architecture without a formula
    objective: float = 0.0  # bytes of its penalty and its state
    snapshots: float = 0.0  # bytes of the table's copies, which are read again at the end
    processes: int = 1

    @property
    def width(self) -> int:
        return self.shape["width"]

    @property
    def table(self) -> int:
        return FLOAT * self.vocabulary * self.width


def activations(step: Step) -> float:
    """What the forward pass keeps for the backward pass.

    Of a layer and position, in widths d: self-attention keeps its input, query, key, value and result, the sum and its norm,
    and two dropout masks; a decoder layer of translation a second attention; the feed-forward part its inner values, with GELU
    also before it. Scores are kept (three L x L matrices a head) only where no fused kernel has dropout: on a CPU.
    """
    if step.kept is not None:
        return step.micro_batch * step.kept
    shape, width = step.shape, step.width
    inner = shape["feedforward"] * (2 if shape["activation"] == "gelu" else 1)
    bytes_, encoder, decoder = (HALF, 24, 42) if step.half else (FLOAT, 40, 72)
    scores = 0
    if step.device == "cpu" and shape["attention_dropout"]:
        scores = 3 * FLOAT * shape["heads"] * step.length + 2 * FLOAT * width
    layer = encoder * width + bytes_ * inner + scores
    if step.sides == 2:
        layer += decoder * width + bytes_ * inner + 2 * scores
    ends = 4 * FLOAT * width  # the embedding and its mask, the last states and their gradient
    return float(step.micro_batch * (shape["layers"] * layer + ends))


def on_device(step: Step) -> dict[str, float]:
    """Peak of the training device by what takes it; `working` is the largest of the moments that exclude each other."""
    model, table = FLOAT * step.parameters, step.table
    grown = activations(step)
    casts = HALF * (step.parameters - step.vocabulary * step.width) if step.half else 0
    chunk = 2 * FLOAT * min(CHUNK[step.device], step.micro_batch) * step.vocabulary  # logits, and their exponentials
    gradients = model * (1 if step.is_accumulated else 0)
    moments = {
        "loss": grown + casts + chunk + table * (1.5 if step.half else 1) + gradients,
        "backward": grown + casts + 2 * table + step.objective + gradients,
        "first layer": model + 3 * table,  # all gradients; the table's also from the look-up, on their way to be added
        "end": model + step.snapshots if step.device == "cpu" else 0.0,  # the mean of the checkpoints
    }
    parts = {"weights": model, "Adam": 2 * model, "working": SLACK[step.device] * max(moments.values())}
    parts["program"] = PROGRAM[step.device]
    if step.processes > 1:
        parts["exchange"] = model
    return {name: float(value) for name, value in parts.items()}


def on_host(step: Step) -> dict[str, float]:
    """Memory of the computer itself: on a CPU all of it, with a GPU the model before and after, and copies of the table."""
    if step.device == "cpu":
        return on_device(step)
    return {"program": 2.0e9, "model": float(FLOAT * step.parameters), "snapshots": step.snapshots}


def total(parts: dict[str, float]) -> float:
    return sum(parts.values())
