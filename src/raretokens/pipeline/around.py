"""What surrounds the stages and changes no answer: the machine's settings, progress, refusals, and where files come from."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from raretokens import paths
from raretokens.errors import UserError
from raretokens.yaml_files import read_yaml

if TYPE_CHECKING:
    from raretokens.machine.settings import Machine
    from raretokens.training.config import Execution
    from raretokens.training.config import TrainJob as Job
    from raretokens.training.observer import Observer


def root() -> Path:
    """The folder of the code, seen from here."""
    return Path(__file__).parents[3]


def mirror() -> Path | None:
    """The folder that is tried before the network: of a machine, so an environment variable goes before the parameter."""
    named = os.environ.get("RARETOKENS_MIRROR") or read_yaml(paths.PARAMETERS).get("mirror")
    return Path(named).expanduser() if named else None


def own_file(name: str) -> Path:
    """A file of a corpus of one's own, relative to the folder of params.yaml."""
    files = read_yaml(paths.PARAMETERS).get("own") or {}
    if name not in files:
        raise UserError(f"own.{name}: not in params.yaml; there are {', '.join(files) or 'none'}")
    return Path(files[name]).expanduser()


def machine() -> "Machine":
    from raretokens.machine import settings

    return settings.read()


def training(job: "Job", train: "Callable[[Execution, Observer], None]") -> None:
    """Train on this machine: by its launcher, if memory and disk will do, with progress; then write down how long it took."""
    from raretokens.machine.launch import launch

    settings = machine()
    launch(settings.launch)
    from raretokens.machine.watch import Watch
    from raretokens.planning import refusal

    refusal.check(job)
    with Watch(job, settings) as observer:
        train(settings.execution(), observer)
