"""Settings that affect speed but not results: data/scratch/machine.yaml, and its command that launches several processes."""

import os
import shlex
import sys
from pathlib import Path
from typing import Literal

import torch
from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from raretokens.errors import UserError
from raretokens.paths import MACHINE
from raretokens.schema import Strict
from raretokens.training.config import Execution
from raretokens.yaml_files import checked, read_yaml

LAUNCHED = "RARETOKENS_LAUNCHED"
LAUNCHER = "torchrun --standalone --nproc-per-node 8"
MICRO_BATCH = {"cpu": 2048, "cuda": 65536}  # tokens, where the file does not say


def device() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"


class Cluster(Strict):
    """Slurm resources of each run for stages/cluster; memory and hours come from the plan where they are not set."""

    partition: str = ""  # Slurm's own default
    gpus: NonNegativeInt = 0  # of each node
    gpu: str | None = None  # a card of cards.yaml, for hours; what torch sees, else an H200
    nodes: PositiveInt = 1  # more than one: `launch` spreads the run over them
    cpus: PositiveInt | None = None  # of each node
    memory: PositiveFloat | None = None  # GB of each node
    hours: PositiveFloat | None = None
    at_once: PositiveInt | None = None  # runs
    retries: NonNegativeInt = 3  # of a failed job, before the jobs that wait for it are cancelled
    options: list[str] = []  # more of sbatch, such as --account=mine
    setup: str = ""  # shell commands before the work, such as: module load cuda


class Machine(Strict):
    """Defaults follow the device."""

    launch: str = ""  # what starts several processes, such as: torchrun --standalone --nproc-per-node 8
    # Tokens of one forward and backward pass.
    micro_batch: PositiveInt = Field(default_factory=lambda: MICRO_BATCH[device()])
    # Source pieces that are translated at once.
    decoding_batch: PositiveInt = Field(default_factory=lambda: 16384 if device() == "cuda" else 1024)
    # Processes that prepare steps ahead of the training; 0: the training process prepares them.
    workers: NonNegativeInt = Field(default_factory=lambda: 2 if device() == "cuda" else 0)
    compile: bool = False  # torch.compile of the model
    save_seconds: PositiveFloat = 120.0  # between two saves of the resumable state
    save_updates: NonNegativeInt = 0  # saves by number of updates instead, if positive
    report_seconds: NonNegativeFloat = 5.0  # between two lines of progress
    cluster: Cluster = Cluster()
    trackers: list[Literal["tensorboard", "dvclive"]] = []  # that the training log is also sent to

    def execution(self) -> Execution:
        return Execution(self.micro_batch, self.workers, self.compile, self.save_seconds, self.save_updates)


def read(path: Path = MACHINE) -> Machine:
    """The machine's settings; keys that the file does not set have their defaults, as in an absent file."""
    return checked(Machine, read_yaml(path) or {}, path) if path.exists() else Machine()


def launch(command: str) -> None:
    """Replace this process by the command followed by the stage; return in the processes that the command starts.

    The command must set RANK and its kin, as torchrun does. Environment variables in it ($SLURMD_NODENAME) are expanded. It is
    searched first in the folder of this Python. An empty command does nothing.
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
