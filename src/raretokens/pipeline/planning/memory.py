"""Estimate of the memory of a training step, in bytes, before it runs.

The estimate adds up the tensors of training/loop.py at the peak of a step. Activations are those that autograd saves. Weights,
gradients, Adam's moments and the loss follow from their shapes. The estimate omits AGG's window, a few hundred MB in full runs,
and communication buffers beyond one copy of the gradients. docs/gpus.md compares the estimate with measured peaks.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd.graph import saved_tensors_hooks

from raretokens.loss import gated_cross_entropy
from raretokens.loss.objective import Objective
from raretokens.models.registry import build
from raretokens.objectives.registry import declared
from raretokens.pipeline.planning.data import Text
from raretokens.tasks import describe
from raretokens.training.config import Training, TrainJob
from raretokens.training.example_batches import bucket_tokens

FLOAT = 4  # bytes
CHUNK = {"cpu": gated_cross_entropy.CHUNK, "cuda": gated_cross_entropy.CHUNK_CUDA}  # positions per chunk of the loss
# Factor for allocator fragmentation. It was measured on a CPU, where stages/run keeps large tensors in the heap.
SLACK = {"cpu": 1.6, "cuda": 1.1}
PROGRAM = {"cpu": 0.4e9, "cuda": 1.0e9}  # bytes of libraries, or of the CUDA context and the cuBLAS workspace
# Copies of the embedding matrix that a penalty keeps. Measured: 2.0 for CosReg, 1.1 for spectrum control, fewer for others.
PENALTY_COPIES = 2
FEW, MORE = 2, 4  # sequences in two forward passes; their difference gives the bytes per sequence
FUSED_POSITIONS = 16  # so few that attention scores, which fused kernels do not save, are negligible


@dataclass(frozen=True)
class ForwardPass:
    """Dimensions of a model, and the bytes that its forward pass saves for the backward pass, final hidden states included.

    `fixed` and `per_sequence` are NaN if the computation depends on the values of its tensors.
    """

    parameters: int
    width: int  # embedding dimension
    positions: int  # positions of a sequence, on each side
    fixed: float  # bytes independent of the number of sequences, such as weights cast to bfloat16
    per_sequence: float  # bytes per sequence


@dataclass(frozen=True)
class Step:
    """The properties that determine the memory of a training step in one process."""

    job: TrainJob
    text: Text
    forward: ForwardPass
    device: str  # cpu or cuda
    processes: int
    micro_batch: int  # positions of one forward and backward pass, padding included
    snapshots: float  # bytes of the embedding snapshots, which are loaded at the end of training

    @property
    def name(self) -> str:
        return f"{self.job.run.task}/{self.job.run.name}"

    @property
    def has_penalty(self) -> bool:
        """Whether the objective adds a penalty on the embedding matrix to the loss."""
        module = import_module(f"raretokens.objectives.{declared(self.job.run.objective).module}")
        return module.Objective.penalty is not Objective.penalty

    @property
    def is_accumulated(self) -> bool:
        """Whether a step has several forward and backward passes. Padding divides a step that spans length buckets."""
        training, most = self.job.training, self.micro_batch
        if describe(self.job.run.task).kind == "bitext":
            most = min(most, bucket_tokens(training.tokens_per_step, training.block))
        return most < share_of_process(training, self.processes)

    @property
    def activations(self) -> float:
        forward = self.forward
        return forward.fixed + forward.per_sequence * self.micro_batch / forward.positions

    def on_device(self) -> dict[str, float]:
        """Return the peak bytes on the training device by kind; NaN if the activations are unknown."""
        working = SLACK[self.device] * self._fullest_moment()
        parts = {"weights": self._model, "Adam": 2 * self._model, "working": working, "program": PROGRAM[self.device]}
        if self.processes > 1:
            parts["exchange"] = self._model
        return {name: float(value) for name, value in parts.items()}

    def on_host(self) -> dict[str, float]:
        """Return the peak bytes of host memory by kind. With a GPU: the model at start and end, and the snapshots."""
        saving = {"saving": 3.0 * self._model}  # copy of weights and Adam's moments, written while training continues
        if self.device == "cpu":
            return self.on_device() | saving
        return {"program": 2.0e9, "model": float(self._model), "snapshots": self.snapshots} | saving

    @property
    def device_bytes(self) -> float:
        return sum(self.on_device().values())

    @property
    def host_bytes(self) -> float:
        return sum(self.on_host().values())

    @property
    def _model(self) -> int:
        return FLOAT * self.forward.parameters

    def _fullest_moment(self) -> float:
        """Return the peak bytes over the phases of a step, without weights and Adam's moments."""
        is_half = self.job.training.precision == "bfloat16"
        embedding = FLOAT * self.text.rows * self.forward.width
        grown = self.activations + FLOAT * self.micro_batch * self.forward.width  # with the gradient of the final hidden states
        logits = 2 * FLOAT * min(CHUNK[self.device], self.micro_batch) * self.text.rows  # with their exponentials
        gradients = self._model if self.is_accumulated else 0
        penalty = PENALTY_COPIES * embedding if self.has_penalty else 0
        moments = {
            "loss": grown + logits + embedding * (1.5 if is_half else 1) + gradients,
            "backward": grown + 2 * embedding + penalty + gradients,
            "first layer": self._model + 3 * embedding,  # all gradients; the embedding also has that of the look-up
            "end": self._model + self.snapshots if self.device == "cpu" else 0.0,  # mean of the checkpoints
        }
        return max(moments.values(), key=lambda size: (math.isnan(size), size))


def share_of_process(training: Training, processes: int) -> int:
    """Return the tokens of a training step that one process computes."""
    return max(training.tokens_per_step // processes, training.block)


@cache
def measure_forward(
    architecture: str, shape: str, rows: int, positions: int, sides: int, is_half: bool, device: str
) -> ForwardPass:
    """Measure the saved bytes of a forward pass with FakeTensorMode, which allocates no memory.

    Fused attention on a GPU does not save its scores. The measurement uses CPU kernels, which may save them. For a GPU it
    therefore uses FUSED_POSITIONS positions, and scales the result.

    Args:
        shape: shape of the model as JSON.
        rows: rows of the embedding matrix.
        positions: positions of a sequence.
        sides: number of inputs of the model.
        is_half: use bfloat16.
        device: cpu or cuda; this machine need not have it.
    """
    shape_values = json.loads(shape)
    with torch.device("meta"):
        model = build(architecture, shape_values, rows, positions)
    parameters, width = sum(parameter.numel() for parameter in model.parameters()), model.embedding.shape[1]
    is_fused = device == "cuda" and "heads" in shape_values
    passed = min(positions, FUSED_POSITIONS) if is_fused else positions
    is_onednn, torch.backends.mkldnn.enabled = torch.backends.mkldnn.enabled, False  # oneDNN's LSTM hides its workspace
    try:
        with FakeTensorMode(allow_non_fake_inputs=True):
            model.to_empty(device="cpu")
            few, more = (saved_bytes(model, sequences, passed, sides, is_half) for sequences in (FEW, MORE))
    except RuntimeError:  # an operation reads the values of a tensor
        few = more = math.nan
    finally:
        torch.backends.mkldnn.enabled = is_onednn
    per_sequence = (more - few) / (MORE - FEW)
    return ForwardPass(parameters, width, positions, few - FEW * per_sequence, per_sequence * positions / passed)


def saved_bytes(model: nn.Module, sequences: int, positions: int, sides: int, is_half: bool) -> float:
    """Return the bytes of the tensors that outlive a forward pass on a CPU. A storage with several views counts once."""
    inputs = _inputs(model, sequences, positions, sides)
    storages = set()

    def keep(tensor: Tensor) -> Tensor:
        storages.add(tensor.untyped_storage())
        return tensor

    with saved_tensors_hooks(keep, lambda tensor: tensor), torch.autocast("cpu", torch.bfloat16, enabled=is_half):
        states = _loss_inputs(model, model(*inputs), inputs[-1])
    storages.update(tensor.untyped_storage() for tensor in states)
    own = {tensor.untyped_storage() for tensor in (*model.parameters(), *model.buffers(), *inputs)}
    return float(sum(storage.nbytes() for storage in storages - own))


def _loss_inputs(model: nn.Module, output: Any, targets: Tensor) -> tuple[Tensor, ...]:
    """Return the inputs of the loss. A recurrent model computes them from its output."""
    if not isinstance(output, tuple):
        return (output,)
    return (*output, *([model.nll(output.hidden, targets)] if hasattr(model, "nll") else model.softmax(output.hidden)))


def _inputs(model: nn.Module, sequences: int, positions: int, sides: int) -> Sequence[Tensor]:
    """Return one tensor of token ids per side, each (sequences, positions), unless the model defines example inputs."""
    example = getattr(model, "example", None)
    return example(sequences, positions) if example else [torch.zeros(sequences, positions, dtype=torch.int64)] * sides
