"""Needs of a run by formulas (FLOPs, hours, memory and disk), and checks before a training.

A run that needs more than is free is refused. Examples that the key `block` excludes or shortens are reported.

FLOPs are 6 per parameter of a matrix product and token (Kaplan et al., 2020; Hoffmann et al., 2022), and those of attention
(Chowdhery et al., 2022, appendix B). Hours are FLOPs at a share of a GPU's peak, but at least the time in which the host starts
the kernels. Memory adds up weights, gradients, Adam's moments, activations, a chunk of logits and copies of the embedding matrix.
"""

import json
import math
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import psutil
import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from raretokens.errors import UserError
from raretokens.loss import gated_cross_entropy
from raretokens.vocabulary import EOS, SPECIALS
from raretokens.yaml_files import read_yaml
from reproduction import paths
from reproduction.corpora.tokenization.settings import Subword, WordVocabulary
from reproduction.corpora.tokenization.token_files import META, Bitext, read_meta, tokens
from reproduction.paths import DATA, MACHINE, STATES, TOKENS
from reproduction.pipeline import settings
from reproduction.pipeline.settings import Card
from reproduction.run import Run
from reproduction.tasks import describe
from reproduction.tasks.parameters import Parameters
from reproduction.training.batches import least_tokens
from reproduction.training.example_batches import bucket_tokens
from reproduction.training.models.registry import build, flops_per_token
from reproduction.training.recipe import Training, TrainJob

FLOAT, SNAPSHOT_FLOAT = 4, 2  # bytes of a number in training, and in a snapshot of the embedding matrix
UTILISATION = 0.4  # share of the peak that training reaches; GPT-2 medium on an H200 reached 0.31 to 0.42
# Seconds in which the host starts a training step, and the kernels of each parameter tensor in a forward and backward pass.
# Measured on an H200, skip-gram gives the first, and the base translation model the second.
STEP, TENSOR = 2e-3, 0.3e-3
CHUNK = {"cpu": gated_cross_entropy.CHUNK, "cuda": gated_cross_entropy.CHUNK_CUDA}  # positions per chunk of the loss
FEW, MORE, SHORT = 2, 4, 16  # sequences of two measured forward passes, and their positions
HALF = 0.5  # activations in bfloat16 compared with float32; some operations stay in float32
SLACK = {"cpu": 1.25, "cuda": 1.0}  # factor for the fragmentation of the heap
PROGRAM = {"cpu": 0.4e9, "cuda": 1.0e9}  # bytes of libraries, or of the CUDA context and the cuBLAS workspace
CERTAIN = 0.6  # a run is refused if even this share of its estimated memory is not free
VOCABULARY_SIZES = Path(__file__).parent / "vocabulary_sizes.yaml"


@dataclass(frozen=True)
class ModelSize:
    parameters: int
    tensors: int  # parameter tensors
    width: int  # embedding dimension
    fixed: float  # bytes of activations in float32, independent of the number of positions
    activations: float  # bytes of activations in float32 per position; NaN if the forward pass reads the values of its tensors


@dataclass(frozen=True)
class Planned:
    """Needs of a run; memory and disk are in bytes. With several processes, memory is that of one of them."""

    job: TrainJob
    vocabulary: int  # rows of the embedding matrix
    model: ModelSize
    device: str  # cpu or cuda
    processes: int
    micro_batch: int  # positions of one forward and backward pass, padding included
    passes: int  # forward and backward passes of a process in a training step

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
    def tokens(self) -> int:
        """Target tokens of the whole training. In translation this is an upper bound, which includes padding."""
        return self.training.steps * self.training.tokens_per_step

    @property
    def flops(self) -> float:
        """FLOPs of the whole training, including attention."""
        positions = min(self.training.block, describe(self.run.task).positions or self.training.block)
        return self.tokens * flops_per_token(self.run.architecture, self.run.shape, self.vocabulary, positions)

    def hours(self, card: Card, utilisation: float = UTILISATION) -> float:
        """Return the training hours at a share of the peak of the run's precision, on one card per process."""
        computing = self.flops / self.training.steps / (self.processes * card.peak(self.training.precision) * utilisation)
        return self.training.steps * max(computing, STEP + TENSOR * self.passes * self.model.tensors) / 3600

    @property
    def memory(self) -> float:
        """Peak bytes on the training device; NaN if the activations are unknown."""
        is_half, weights = self.training.precision == "bfloat16", FLOAT * self.model.parameters
        embedding = FLOAT * self.vocabulary * self.model.width  # counts twice: gradients of the softmax and of the look-up
        activations = (HALF if is_half else 1) * (self.model.fixed + self.model.activations * self.micro_batch)
        classes = 0 if describe(self.run.task).kind in ("documents", "images") else self.vocabulary
        logits = 2 * (HALF if is_half else 1) * FLOAT * min(CHUNK[self.device], self.micro_batch) * classes
        moments = 1 if "sgd" in self.training.rule.name else 2  # SGD keeps at most a mean of the weights, Muon less than two
        states = 2 + moments + is_half * HALF + (self.processes > 1)  # weights, gradients; weights in bfloat16; exchange
        return PROGRAM[self.device] + SLACK[self.device] * (states * weights + activations + logits + 2 * embedding)

    @property
    def host_memory(self) -> float:
        """Peak bytes of host memory, with the copy of weights and moments that is saved while training continues."""
        saving = 3.0 * FLOAT * self.model.parameters
        if self.device == "cpu":
            return self.memory + saving
        return 2.0e9 + FLOAT * self.model.parameters + self.snapshots + saving

    @property
    def snapshots(self) -> float:
        """Bytes of the embedding snapshots: the first, one every snapshot_every steps, and the last."""
        copies = 1 + -(-self.training.steps // self.training.snapshot_every)
        return float(copies * self.vocabulary * self.model.width * SNAPSHOT_FLOAT)

    @property
    def disk(self) -> float:
        """Bytes of the run's outputs in data/runs: weights and embedding snapshots."""
        return self.snapshots + FLOAT * self.model.parameters

    @property
    def disk_while_training(self) -> float:
        """Bytes in data/scratch: snapshots, a new and two earlier states with two moments, and their kept checkpoints."""
        kept = 1 if self.training.keep == "best" else self.training.keep
        return self.disk + (3 * 3 + 3 * kept) * FLOAT * self.model.parameters


def plan(job: TrainJob, vocabulary: int, device: str, processes: int = 1) -> Planned:
    """Estimate the needs of a run on `device` (cpu or cuda) with data parallelism over `processes`."""
    task, run, training = describe(job.run.task), job.run, job.training
    share, machine = max(training.tokens_per_step // processes, training.block), settings.read()
    own = machine.micro_batch if "micro_batch" in machine.model_fields_set else settings.MICRO_BATCH[device]
    micro = share if task.whole_steps else min(own, share)
    if task.kind == "bitext":  # a micro-batch is from one length bucket, or spans small buckets, padded to the longest pair
        micro = min(own, max(min(micro, bucket_tokens(training.tokens_per_step, training.block)), least_tokens(device)))
    micro = max(micro, training.block)
    size = measure_model_size(run.architecture, json.dumps(run.shape), vocabulary, training.block, len(task.sides), device)
    return Planned(job, vocabulary, size, device, processes, micro, -(-share // micro))


@cache
def measure_model_size(architecture: str, shape: str, rows: int, positions: int, sides: int, device: str) -> ModelSize:
    """Measure a model on the meta device, which has shapes and no memory.

    Fused attention on a GPU does not save its scores, and the positions of a recurrent layer are many kernels. So few positions
    of such models are measured, and the result grows with the positions. `shape` is JSON; `sides` is the number of inputs.
    """
    values = json.loads(shape)
    with torch.device("meta"):
        model = build(architecture, values, rows, positions)
    is_scaled = (device == "cuda" and "heads" in values) or any(isinstance(part, nn.RNNBase) for part in model.modules())
    positions = min(positions, SHORT) if is_scaled else positions
    try:
        few, more = (saved_bytes(model, sequences, positions, sides) for sequences in (FEW, MORE))
    except RuntimeError:  # an operation reads the values of a tensor
        few = more = float("nan")
    each = (more - few) / (MORE - FEW)
    sizes = [parameter.numel() for parameter in model.parameters()]
    return ModelSize(sum(sizes), len(sizes), model.embedding.shape[1], few - FEW * each, each / positions)


def saved_bytes(model: nn.Module, sequences: int, positions: int, sides: int) -> float:
    """Return the bytes that autograd saves in a forward pass on the meta device. A storage with several views counts once."""
    example = getattr(model, "example", None)  # a model may define its own inputs
    inputs = example(sequences, positions) if example else [torch.zeros(sequences, positions, dtype=torch.int64)] * sides
    inputs, storages = [one.to("meta") for one in inputs], set()

    def keep(tensor: Tensor) -> Tensor:
        storages.add(tensor.untyped_storage())
        return tensor

    with saved_tensors_hooks(keep, lambda tensor: tensor):
        model(*inputs)
    own = {tensor.untyped_storage() for tensor in (*model.parameters(), *model.buffers(), *inputs)}
    return float(sum(storage.nbytes() for storage in storages - own))


# Token types of a text: those of its token files, else as many as vocabulary_sizes.yaml or params.yaml lets expect.


def vocabulary_size(parameters: Parameters, name: str, data: Path = TOKENS) -> int:
    """Return the token types of the token files `name`, including special tokens and fillers.

    Raises:
        UserError: the vocabulary is not known before encoding, as for the full word vocabulary of a custom corpus.
    """
    return encoded_size(name, data) or _expected_size(parameters, name)


def encoded_size(name: str, data: Path = TOKENS) -> int | None:
    """Return the token types of existing token files; None if there are none."""
    return read_meta(data / name)["vocabulary"] if (data / name / META).exists() else None


def _expected_size(parameters: Parameters, name: str) -> int:
    declared = parameters.tokens[name].vocabulary
    number, rows = _declared_number(declared), getattr(declared, "rows", None)
    corpus = parameters.corpus_of(name)
    kind = "words" if isinstance(declared, WordVocabulary) else describe(corpus.task).kind
    expected = read_yaml(VOCABULARY_SIZES).get(corpus.corpus, {}).get(kind)
    if rows:
        return rows
    if expected and number in (None, expected["vocabulary"]):
        return expected["rows"]
    if number is None:
        raise UserError(
            f"tokens.{name}.vocabulary: how many types {corpus.corpus} has is known when it is encoded; dvc repro encode@{name}"
        )
    return -(-(number + len(SPECIALS) - 1) // 8) * 8  # SentencePiece's own <unk> is one of SPECIALS


def _declared_number(declared: int | Subword | WordVocabulary) -> int | None:
    """Return the number of subword tokens, merges or words in params.yaml; None if the text or the model determines it."""
    if isinstance(declared, int):
        return declared
    return declared.merges if isinstance(declared, Subword) else declared.size


# Refusal of runs that need more memory or disk than is free on this machine.


@dataclass(frozen=True)
class Resources:
    """Free bytes of a machine."""

    host: float
    disk: float
    device: float | None = None  # memory of the GPU; None without a GPU


def available(run: Run | None = None) -> Resources:
    """Return the free resources. The run's own resumable state counts as free space, since it is overwritten."""
    state = STATES.glob(f"{run.task}-{run.name}-{'[0-9a-f]' * 24}/*") if run else ()
    own = sum(path.stat().st_size for path in state if path.is_file())
    folder = next(folder for folder in (DATA, *DATA.parents) if folder.exists())
    # Each process queries only its own GPU, since the query allocates memory on that GPU.
    number = int(os.environ.get("LOCAL_RANK", "0"))
    device = torch.cuda.mem_get_info(number)[0] if torch.cuda.is_available() else None
    return Resources(psutil.virtual_memory().available, shutil.disk_usage(folder).free + own, device)


def check_resources(job: TrainJob) -> None:
    """Raise UserError if memory or disk of this machine does not suffice. Each process of a run checks separately."""
    processes, neighbours = (int(os.environ.get(name, "1")) for name in ("WORLD_SIZE", "LOCAL_WORLD_SIZE"))
    planned = plan(job, encoded_size(job.run.tokens) or 0, settings.device(), processes)
    if lacking := list(shortfalls(planned, available(job.run), neighbours)):
        raise UserError("\n".join(lacking))


def shortfalls(planned: Planned, free: Resources, processes: int = 1) -> Iterator[str]:
    """Yield one line for each shortage, with what to change; `processes` of the run share the memory of the machine."""
    advice = f"lower micro_batch ({planned.micro_batch}) in {MACHINE}, or take another GPU or machine"
    if free.device is not None and CERTAIN * planned.memory > free.device:
        yield f"{planned.name}: needs about {_gb(planned.memory)} of GPU memory, {_gb(free.device)} are free; {advice}"
    if CERTAIN * processes * planned.host_memory > free.host:
        needed = processes * planned.host_memory
        yield f"{planned.name}: needs about {_gb(needed)} of memory, {_gb(free.host)} are free; {advice}"
    if (needed := planned.disk + planned.disk_while_training) > free.disk:
        key = f"{planned.run.task}.training.snapshot_every"
        yield f"{planned.name}: needs {_gb(needed)} of disk in {DATA}, {_gb(free.disk)} are free; free some or raise {key}"


def fits(need: float, free: float) -> str:
    """Return whether an estimated need fits; `tight` if the estimate is too uncertain to refuse the run."""
    if math.isnan(need):
        return "unknown"
    return "yes" if need <= free else "tight" if CERTAIN * need <= free else "no"


def _gb(value: float) -> str:
    return f"{value / 1e9:.1f} GB"


# Examples that the key `block` excludes from a training or shortens.


def check_block(job: TrainJob) -> None:
    """Print how many examples of each split are longer than `block`. Raises UserError if no pair of a split is left."""
    lines = list(_left_out(job))
    if int(os.environ.get("RANK", "0")) == 0:
        print(*(f"{job.run.task}/{job.run.name}: {line}\n" for line in lines), sep="", end="", flush=True)


def _left_out(job: TrainJob) -> Iterator[str]:
    block, kind, folder = job.training.block, describe(job.run.task).kind, paths.tokens(job.run.tokens)
    if kind not in ("bitext", "documents"):
        return
    for split in ("train", "valid"):
        sizes = Bitext(folder, split).lengths.max(1) if kind == "bitext" else _documents(tokens(folder, split))
        longer, value = int((sizes > block).sum()), f"{_block_key(job)}: {block}"
        if kind == "bitext" and len(sizes) == longer:
            allowed = f"the shortest has {sizes.min(initial=block + 1)} tokens; allowed: at least that many"
            raise UserError(f"{value} leaves out all {longer:,} pairs of {split}; {allowed}")
        if longer:
            what = "leaves out" if kind == "bitext" else "cuts"
            noun = "pairs" if kind == "bitext" else "documents"
            yield f"{value} {what} {longer:,} of {len(sizes):,} {noun} of {split}, which are longer"


def _documents(ids: np.ndarray) -> np.ndarray:
    """Return the tokens of each document, including its end."""
    return np.diff(np.flatnonzero(ids == EOS), prepend=-1)


def _block_key(job: TrainJob) -> str:
    """Return the key of params.yaml that the block of a run comes from. A trial has no such file, and gets that of the task."""
    run, tree = job.run, read_yaml(paths.PARAMETERS) if paths.PARAMETERS.is_file() else {}
    overrides = tree.get(run.task, {}).get("models", {}).get(run.model, {})
    return f"{run.task}.models.{run.model}.block" if "block" in overrides else f"{run.task}.training.block"
