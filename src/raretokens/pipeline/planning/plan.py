"""Needs of each run on a run sheet: FLOPs, hours, memory and disk.

The memory of a training step adds up the tensors of training/loop.py at the peak of the step. Activations are those that
autograd saves (memory.py). Weights, gradients, Adam's moments and the loss follow from their shapes. The estimate omits AGG's
window, a few hundred MB in full runs, and communication buffers beyond one copy of the gradients. docs/gpus.md compares it with
measured peaks.
"""

import json
import math
from dataclasses import dataclass
from importlib import import_module

from raretokens.loss import gated_cross_entropy
from raretokens.loss.objective import Objective
from raretokens.models.registry import flops_per_token
from raretokens.objectives.registry import declared
from raretokens.pipeline.machine import settings
from raretokens.pipeline.machine.cards import Card
from raretokens.pipeline.planning.data import Text
from raretokens.pipeline.planning.duration import FLOAT, rates_of, step_seconds
from raretokens.pipeline.planning.memory import ForwardPass, measure_forward
from raretokens.run import Run
from raretokens.tasks import describe
from raretokens.training.batches import least_tokens
from raretokens.training.config import Training, TrainJob
from raretokens.training.example_batches import bucket_tokens

SNAPSHOT_FLOAT = 2  # bytes of a number in a snapshot
LOG_LINE = 100  # bytes of log.tsv per step; data/scratch has a second copy
CHUNK = {"cpu": gated_cross_entropy.CHUNK, "cuda": gated_cross_entropy.CHUNK_CUDA}  # positions per chunk of the loss
# Factor for allocator fragmentation. It was measured on a CPU, where stages/run keeps large tensors in the heap.
SLACK = {"cpu": 1.6, "cuda": 1.1}
PROGRAM = {"cpu": 0.4e9, "cuda": 1.0e9}  # bytes of libraries, or of the CUDA context and the cuBLAS workspace
# Copies of the embedding matrix that a penalty keeps. Measured: 2.0 for CosReg, 1.1 for spectrum control, fewer for others.
PENALTY_COPIES = 2


@dataclass(frozen=True)
class Planned:
    """Needs of a run; memory and disk are in bytes. With several processes, memory is that of one of them."""

    job: TrainJob
    text: Text
    forward: ForwardPass
    device: str  # cpu or cuda
    processes: int
    micro_batch: int  # positions of one forward and backward pass, padding included
    pass_tokens: int  # most tokens of a pass; a step of random length may have more than tokens_per_step
    snapshots: float  # bytes of the embedding snapshots, which are loaded at the end of training
    is_eager: bool  # whether the model trains without torch.compile

    @property
    def name(self) -> str:
        return f"{self.run.task}/{self.run.name}"

    @property
    def run(self) -> Run:
        return self.job.run

    @property
    def training(self) -> Training:
        return self.job.training

    @property
    def parameters(self) -> int:
        """Number of trained parameters."""
        return self.forward.parameters

    @property
    def sides(self) -> int:
        """Number of sides of the text: 2 for source and target."""
        return len(describe(self.run.task).sides)

    @property
    def tokens(self) -> int:
        """Target tokens of the whole training. In translation this is an upper bound, which includes padding."""
        return self.training.steps * self.training.tokens_per_step

    @property
    def flops(self) -> float:
        """FLOPs of the whole training, including attention."""
        return self.tokens * self._flops_per_token(self.training.block)

    @property
    def attention_flops(self) -> float:
        """FLOPs of attention scores, which 6 x parameters x tokens omits."""
        return self.flops - self.tokens * self._flops_per_token(0)

    def _flops_per_token(self, block: int) -> float:
        positions = min(block, describe(self.run.task).positions or block)
        return flops_per_token(self.run.architecture, self.run.shape, self.text.rows, positions)

    def seconds(self, card: Card) -> dict[str, float]:
        """Seconds of a training step by kind of operation, on as many cards as the run has processes (duration.py)."""
        return step_seconds(
            self.job, self.text.rows, self.parameters, self.pass_tokens, self.device, rates_of(card, self.is_eager),
            self.processes, self.has_penalty,
        )  # fmt: skip

    def hours(self, card: Card, utilisation: float | None = None) -> float:
        """Training hours, estimated from counted operations, or from a given share of the peak of the run's precision."""
        if utilisation is None:
            return self.training.steps * sum(self.seconds(card).values()) / 3600
        return self.flops / (self.processes * card.peak(self.training.precision) * utilisation) / 3600

    def utilisation(self, card: Card) -> float:
        """Share of the peak of the run's precision in the estimated hours."""
        peak = self.processes * card.peak(self.training.precision)
        return self.flops / (3600 * self.hours(card) * peak) if self.flops else math.nan

    @property
    def has_penalty(self) -> bool:
        """Whether the objective adds a penalty on the embedding matrix to the loss."""
        module = import_module(f"raretokens.objectives.{declared(self.run.objective).module}")
        return module.Objective.penalty is not Objective.penalty

    @property
    def is_accumulated(self) -> bool:
        """Whether a step has several forward and backward passes. Padding divides a step that spans length buckets."""
        training, most = self.training, self.micro_batch
        if describe(self.run.task).kind == "bitext":
            most = min(most, bucket_tokens(training.tokens_per_step, training.block))
        return most < share_of_process(training, self.processes)

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
        """Bytes of the weights."""
        return FLOAT * self.parameters

    def _fullest_moment(self) -> float:
        """Return the peak bytes over the phases of a step, without weights and Adam's moments."""
        is_half = self.training.precision == "bfloat16"
        forward = self.forward
        embedding = FLOAT * self.text.rows * forward.width
        activations = forward.fixed + forward.per_sequence * self.micro_batch / forward.positions
        grown = activations + FLOAT * self.micro_batch * forward.width  # with the gradient of the final hidden states
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

    @property
    def disk_left(self) -> float:
        """Bytes of the run's outputs in data/runs: weights, embedding snapshots and log."""
        return self.snapshots + self._model + LOG_LINE * self.training.steps

    @property
    def disk_while_training(self) -> float:
        """Bytes in data/scratch: log, embedding snapshots, a new and two earlier resumable states, and checkpoints.

        A state contains the weights and both of Adam's moments. The training and the two earlier states may each keep different
        checkpoints, and one more is being written.
        """
        training = self.training
        kept = 1 if training.keep == "best" else training.keep
        snapshots = snapshot_bytes(training, self.forward.width, self.text.rows)
        return snapshots + (3 * 3 + 3 * kept + 1) * self._model + LOG_LINE * training.steps


def share_of_process(training: Training, processes: int) -> int:
    """Return the tokens of a training step that one process computes."""
    return max(training.tokens_per_step // processes, training.block)


def snapshot_bytes(training: Training, width: int, rows: int) -> float:
    """Return the bytes of the embedding snapshots: the first, one every snapshot_every steps, and the last."""
    copies = 1 + -(-training.steps // training.snapshot_every)
    return float(copies * rows * width * SNAPSHOT_FLOAT)


def plan(job: TrainJob, text: Text, device: str, processes: int = 1) -> Planned:
    """Estimate the needs of a run on `device` (cpu or cuda) with data parallelism over `processes`."""
    task, training = describe(job.run.task), job.training
    micro = share = share_of_process(training, processes)
    machine = settings.read()
    own = machine.micro_batch if "micro_batch" in machine.model_fields_set else settings.MICRO_BATCH[device]
    if not task.whole_steps:
        micro = min(own, share)
        if task.kind == "bitext":  # a micro-batch is from one length bucket, or spans small buckets, padded to the longest pair
            bucket, least = bucket_tokens(training.tokens_per_step, training.block), least_tokens(device)
            micro = min(micro, bucket) if bucket >= least else min(own, least)
    forward = forward_of(job, text.rows, device)
    snapshots = snapshot_bytes(training, forward.width, text.rows)
    micro = max(micro, training.block)
    most = micro if task.kind == "bitext" else own
    is_eager = not machine.compiles(job.run.architecture, training.steps)
    return Planned(job, text, forward, device, processes, micro, most, snapshots, is_eager)


def forward_of(job: TrainJob, rows: int, device: str) -> ForwardPass:
    """Measure the forward pass of the run's model with `rows` rows in the embedding matrix."""
    run, training = job.run, job.training
    sides, is_half = len(describe(run.task).sides), training.precision == "bfloat16"
    return measure_forward(run.architecture, json.dumps(run.shape), rows, training.block, sides, is_half, device)
