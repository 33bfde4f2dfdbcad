"""Estimate of the time of a training step from its counted operations and the rates of a machine.

A call of a kernel takes the longest of three times: of its FLOPs, of its bytes, and of its exponentials, random or pooled
numbers. On a GPU the host starts kernels while earlier ones run, so starts count only as far as they take longer than all
kernels. A step adds the optimizer, the sum of gradients over micro-batches, a penalty on the embedding matrix, and the start of
the step. On a CPU it also adds the start of each micro-batch.

Times of starts and shares of the data sheet were measured on an H200, or fitted to steps that were measured there
(benchmarks/card-cuda.csv, benchmarks/planning-cuda.csv). In a model without torch.compile, a start includes views, the optimizer
and the Python of the model. cuDNN starts or fuses the positions of a recurrent layer without Python. The estimate leaves out
validation, saves, the preparation of batches, the exchange of gradients between cards, and what an objective does apart from a
penalty.
"""

import json
import math
import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from raretokens import tasks
from raretokens.errors import UserError
from raretokens.pipeline.machine.cards import Card
from raretokens.pipeline.planning.data import write_random_text
from raretokens.pipeline.planning.operations import FUSED, STARTED, Counts, Operation, count_batch
from raretokens.tasks import describe
from raretokens.training.batches import Batch, PreparedSteps
from raretokens.training.config import TrainJob

FLOAT = 4  # bytes
# Share of the data sheet that kernels reach. An H200 reached 0.60 to 0.78, 0.37, and 0.84 to 0.85.
PRODUCTS, ATTENTION, BANDWIDTH = 0.7, 0.4, 0.85
START = 17e-6  # seconds in which the host starts a kernel: mean of an operation and those of its gradient, measured alone
# The same in a training step without torch.compile, for each counted kernel: geometric mean over the four small Transformers that
# had an H200 to themselves. Kernels of recurrent positions count with START, because no Python lies between them.
EAGER_START = 43e-6
SHORTEST = 2e-6  # seconds of the shortest kernel
# Seconds of the shortest kernel of a position that cuDNN fuses with the others, and the share of the data sheet in products of
# positions, which have few rows. The classifier paper/imdb and the AWD-LSTM paper/awd-wt2 on an H200 give one each.
SHORTEST_FUSED, POSITION_PRODUCTS = 0.7e-6, 0.2
STEP = 1e-3  # seconds of Python in a training step beside its kernels
SPARE = 2  # length of the random text, in steps
# Bytes that the optimizer's step moves for each number: Adam reads four and writes three, the others clip, decay and average.
OPTIMIZER = {"warmup_adam": 7 * FLOAT, "adam": 7 * FLOAT}
OTHER_OPTIMIZER = 6 * FLOAT
PENALTY_PASSES = 12  # times that a penalty and its gradient read or write the embedding matrix


@dataclass(frozen=True)
class Rates:
    """What a machine does in a second."""

    products: Mapping[str, float]  # FLOPs of matrix products by type of number
    attention: float  # share of these in attention
    bandwidth: float  # bytes
    convolutions: float = 1.0  # share of the products' rate in convolutions
    positions: float = 1.0  # share of the products' rate in the positions of a recurrent layer
    exponentials: float = math.inf  # numbers
    random: float = math.inf  # numbers
    pooling: float = math.inf  # numbers of the input
    start: float = START  # seconds to start a kernel
    convolution_start: float = 0.0  # seconds to start a convolution, if longer
    shortest: float = SHORTEST  # seconds of the shortest kernel
    is_ahead: bool = True  # whether the host starts kernels while earlier ones run
    step: float = STEP  # seconds of a training step beside its kernels and micro-batches
    micro_batch: float = 0.0  # seconds of a micro-batch beside its kernels


def rates_of(card: Card, is_eager: bool) -> Rates:
    """Return the estimated rates of a GPU. Float32 means float32, because TF32 is not set anywhere.

    is_eager: whether the model trains without torch.compile.
    """
    half = PRODUCTS * card.peak("bfloat16")
    products = {"bfloat16": half, "float16": half, "float32": PRODUCTS * card.peak("float32")}
    start = EAGER_START if is_eager else START
    shares = {"attention": ATTENTION / PRODUCTS, "positions": POSITION_PRODUCTS / PRODUCTS}
    return Rates(products, bandwidth=BANDWIDTH * card.bandwidth, start=start, **shares)


def seconds(counts: Counts, rates: Rates) -> dict[str, float]:
    """Return the seconds of counted operations by kind."""
    found: Counter[str] = Counter()
    starts = 0.0
    limits = {"exponential": rates.exponentials, "random": rates.random, "pooling": rates.pooling}
    for one, times in counts.items():
        shortest = min(rates.shortest, SHORTEST_FUSED) if one.position == FUSED else rates.shortest
        took = max(shortest, one.bytes / rates.bandwidth)
        if one.flops:
            rate = rates.products.get(one.type, rates.products["float32"])
            took = max(took, one.flops / (rate * _share(one, rates)))
        elif one.kind in limits:
            took = max(took, one.numbers / limits[one.kind])
        found[one.kind] += times * took
        starts += times * _start(one, rates)
    found["starts"] = max(starts - found.total(), 0.0) if rates.is_ahead else starts
    return dict(found)


def _share(one: Operation, rates: Rates) -> float:
    """Return the share of the products' rate that a kernel reaches."""
    if one.position == STARTED:
        return rates.positions
    return {"attention": rates.attention, "convolution": rates.convolutions}.get(one.kind, 1.0)


def _start(one: Operation, rates: Rates) -> float:
    """Return the seconds in which the host starts a kernel. Only a GPU has cuDNN, and only there the host runs ahead."""
    if one.kind == "convolution":
        return max(rates.start, rates.convolution_start)
    if not rates.is_ahead or not one.position:
        return rates.start
    return 0.0 if one.position == FUSED else min(rates.start, START)


def step_seconds(
    job: TrainJob, rows: int, parameters: int, micro_batch: int, device: str, rates: Rates, processes: int = 1,
    has_penalty: bool = False,
) -> dict[str, float]:  # fmt: skip
    """Return the seconds of a training step by kind; NaN if its operations depend on numbers.

    Args:
        rows: rows of the embedding matrix.
        parameters: parameters of the model.
        micro_batch: most tokens of a forward and backward pass.
        processes: processes that share the step.
        has_penalty: whether the objective adds a penalty on the embedding matrix.
    """
    try:
        counts, number, touched = counted(_key(job, rows, micro_batch, device, processes))
    except RuntimeError:
        return {"unknown": math.nan}
    parts = {kind: number * took for kind, took in seconds(counts, rates).items()}
    dense = parameters if touched is None else 0.0
    moved = OPTIMIZER.get(job.training.rule.name, OTHER_OPTIMIZER) * dense + 6 * FLOAT * (touched or 0.0) * number
    parts["optimizer"] = (moved + 3 * FLOAT * dense * (number - 1)) / rates.bandwidth
    if has_penalty:
        parts["penalty"] = PENALTY_PASSES * FLOAT * rows * job.run.shape["width"] / rates.bandwidth
    return parts | {"start of the step": rates.step + number * rates.micro_batch}


def _key(job: TrainJob, rows: int, micro_batch: int, device: str, processes: int) -> str:
    """Return what the counted operations depend on: the job without its name, objective, seed and length."""
    run = job.run.replaced(name="", objective="mle", options={}, seed=1, init_from=None, model="", tokens="")
    training = job.training.replaced(steps=1, snapshot_every=1, validation_tokens=None, stop_window=None)
    plain = job.replaced(run=run, training=training).model_dump(mode="json")
    return json.dumps([plain, rows, micro_batch, device, processes])


@cache
def counted(key: str) -> tuple[Counts, int, float | None]:
    """Return the operations of a micro-batch of middle size, their number in a step, and the numbers of sparse gradients.

    Sparse gradients are those of embedding rows that a step reads; None if gradients are dense.
    """
    plain, rows, micro_batch, device, processes = json.loads(key)
    job = TrainJob.model_validate(plain)
    batches = random_batches(job, rows, micro_batch, processes, device)
    middle = sorted(batches, key=lambda batch: batch.inputs[0].numel())[len(batches) // 2]
    touched = None
    if job.run.architecture == "skip_gram":
        touched = float(sum(one.numel() for one in middle.inputs) * job.run.shape["width"])
    return count_batch(job, rows, middle, device), len(batches), touched


def random_batches(
    job: TrainJob, rows: int, micro_batch: int, processes: int = 1, device: str = "cpu"
) -> list[Batch]:
    """Return the micro-batches of one process in a training step on random text, which have the shapes of real ones.

    Sentences have the mean length of the task; documents have uniform lengths up to `block`. Tasks that train on one process do
    not share a step.
    """
    run, training = job.run, job.training
    task = describe(run.task)
    longest = 2 * (task.positions or training.block) if task.kind == "bitext" else training.block
    length = SPARE * max(training.tokens_per_step, training.block) + 1
    with tempfile.TemporaryDirectory(prefix="raretokens-") as name:
        folder = Path(name) / "tokens"
        write_random_text(folder, job, rows, {"train": length, "valid": length}, longest)
        data, _ = tasks.load(run.task).training_data(job, folder)
        try:
            return PreparedSteps(data, rows, micro_batch, 0, processes, device)[0].batches
        except UserError:  # the task trains on one process only, as its training says
            return PreparedSteps(data, rows, micro_batch, 0, 1, device)[0].batches
