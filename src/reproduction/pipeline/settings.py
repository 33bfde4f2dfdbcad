"""Settings of this machine in data/scratch/machine.yaml, which affect speed but not results; its GPU; launch of processes."""

import os
import shlex
import sys
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any, Literal

import torch
from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt, field_validator
from pydantic_core import PydanticCustomError

from raretokens.errors import UserError
from raretokens.schema import Strict
from raretokens.yaml_files import checked, read_yaml
from reproduction.paths import MACHINE
from reproduction.training.models.registry import compiles
from reproduction.training.recipe import Execution

LAUNCHED = "RARETOKENS_LAUNCHED"
LAUNCHER = "torchrun --standalone --nproc-per-node 8"
# Training steps from which on `compile: auto` compiles. On an H200 a small translation model compiled for 34 s until its first
# step. By the plan, compilation would save at most 96 s of a run of the small scale with up to 8,000 steps, and 14 hours of
# a run of translation at the paper scale.
LONG = 10_000
MICRO_BATCH = {"cpu": 2048, "cuda": 65536}  # default, in tokens
CARDS = Path(__file__).parent / "cards.yaml"
DEFAULT_CARD = "h200"


def device() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"


class Cluster(Strict):
    """Slurm resources of each run for stages/cluster. Unset memory and hours are taken from the plan."""

    partition: str = ""  # empty: Slurm's default
    gpus: NonNegativeInt = 0  # per node
    gpu: str | None = None  # card of cards.yaml for the planned hours; None: the GPU that torch detects, else an H200
    nodes: PositiveInt = 1  # with several nodes, `launch` must distribute the run over them
    cpus: PositiveInt | None = None  # per node
    memory: PositiveFloat | None = None  # GB per node
    hours: PositiveFloat | None = None
    at_once: PositiveInt | None = None  # maximum number of parallel runs
    retries: NonNegativeInt = 3  # retries of a failed job, before the jobs that depend on it are cancelled
    options: list[str] = []  # additional options of sbatch, such as --account=mine
    setup: str = ""  # shell commands to run first, such as: module load cuda


class Machine(Strict):
    """Schema of machine.yaml. Some defaults depend on the device."""

    launch: str = ""  # command that starts several processes, such as: torchrun --standalone --nproc-per-node 8
    # Most tokens of one forward and backward pass.
    micro_batch: PositiveInt = Field(default_factory=lambda: MICRO_BATCH[device()])
    # Source tokens of one decoding batch.
    decoding_batch: PositiveInt = Field(default_factory=lambda: 16384 if device() == "cuda" else 1024)
    # Data-loader processes that prepare batches in advance; 0: the training process prepares them.
    workers: NonNegativeInt = Field(default_factory=lambda: 2 if device() == "cuda" else 0)
    # Use torch.compile for the model; auto: on a GPU, if the architecture is declared to compile and the run is long.
    compile: bool | Literal["auto"] = "auto"
    save_seconds: PositiveFloat = 120.0  # seconds between two saves of the resumable state
    save_updates: NonNegativeInt = 0  # if positive, training steps between two saves, instead of save_seconds
    report_seconds: NonNegativeFloat = 5.0  # minimum seconds between two progress lines
    cluster: Cluster = Cluster()
    # Also send the training log to these trackers of accelerate: their options by name, or a list of names.
    trackers: dict[str, dict[str, Any]] = {}

    @field_validator("trackers", mode="before")
    @classmethod
    def _options_by_tracker(cls, given: Any) -> Any:
        if not given:
            return {}
        from accelerate.tracking import LOGGER_TYPE_TO_CLASS  # takes long, and few machines have trackers

        names = list(given) if isinstance(given, list | dict) else []
        if not names or not all(isinstance(name, str) and name in LOGGER_TYPE_TO_CLASS for name in names):
            known = ", ".join(sorted(LOGGER_TYPE_TO_CLASS))
            raise PydanticCustomError(
                "trackers", "should be names, or options by name; names are {known}", {"known": known}
            )
        return {name: (given[name] or {}) if isinstance(given, dict) else {} for name in names}

    def execution(self, steps: int) -> Execution:
        """Return the settings of a training of so many steps."""
        compile = "auto" if self.compile == "auto" and steps >= LONG else self.compile is True
        return Execution(self.micro_batch, self.workers, compile, self.save_seconds, self.save_updates)

    def compiles(self, architecture: str, steps: int) -> bool:
        """Return whether the model of such a training is compiled on a GPU."""
        return compiles(architecture) if self.execution(steps).compile == "auto" else self.compile is True


def read(path: Path = MACHINE) -> Machine:
    """Read machine.yaml. Keys that are not set get their defaults, and so do all keys if the file does not exist."""
    return checked(Machine, read_yaml(path) or {}, path) if path.exists() else Machine()


def launch(command: str) -> None:
    """Replace this process by the launch command followed by the stage. In the processes that it starts, return at once.

    Args:
        command: must set RANK, WORLD_SIZE and so on, as torchrun does. Its program is searched first in the folder of this
            Python. Environment variables such as $SLURMD_NODENAME are expanded. An empty command does nothing.

    Raises:
        UserError: the command cannot be started, or it did not set RANK.
    """
    if not command or "RANK" in os.environ:
        return
    if LAUNCHED in os.environ:
        raise UserError(f"{MACHINE}: launch: {command!r} started a process without a rank; allowed: such as {LAUNCHER}")
    path = os.pathsep.join((os.path.dirname(sys.executable), os.environ.get("PATH", "")))
    words = [*map(os.path.expandvars, shlex.split(command)), *sys.argv]
    sys.stdout.flush()
    try:
        os.execvpe(words[0], words, {**os.environ, "PATH": path, LAUNCHED: "1"})
    except OSError as error:
        reason = f"{words[0]} cannot be started ({error.strerror})"
        raise UserError(f"{MACHINE}: launch: {command!r}: {reason}; allowed: such as {LAUNCHER}") from None


# GPUs for which a run can be planned: those in cards.yaml, and the GPU that torch detects.


@dataclass(frozen=True)
class Card:
    name: str
    device: str  # pattern of torch's names for the card
    memory: float  # bytes
    flops: float  # peak dense bfloat16 operations per second
    float32: float  # peak float32 operations per second, without TF32

    def peak(self, precision: str) -> float:
        """Return the peak operations per second of matrix products in `precision` (float32 or bfloat16)."""
        return self.flops if precision == "bfloat16" else self.float32


def card(name: str | None = None) -> Card:
    """Return the card of a name. Without a name, return the GPU that torch detects, or an H200 if there is none.

    Raises:
        UserError: the name is unknown, or cards.yaml has no row for the detected GPU. The message lists the known cards.
    """
    known = _cards()
    if name is None and torch.cuda.is_available():
        device = torch.cuda.get_device_name()
        if (found := find_card(device)) is None:
            raise UserError(f"GPU {device!r} is not known; choose one with --gpu: {', '.join(known)}")
        return replace(found, memory=torch.cuda.get_device_properties(0).total_memory)
    name = (name or DEFAULT_CARD).lower()
    if name not in known:
        raise UserError(f"--gpu: {name!r} is not known; allowed: {', '.join(known)}")
    return known[name]


def find_card(device: str) -> Card | None:
    """Return the card with this torch name, or None if cards.yaml lacks it."""
    fitting = [card for card in _cards().values() if fnmatchcase(device, card.device)]
    return max(fitting, key=lambda card: len(card.device), default=None)


@cache
def _cards() -> dict[str, Card]:
    return {
        name: Card(name, row["torch"], row["memory"] * 1e9, row["tflops"] * 1e12, row["float32"] * 1e12)
        for name, row in read_yaml(CARDS).items()
    }
