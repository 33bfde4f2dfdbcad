"""Context of the stages that does not affect results: machine settings, progress, resource checks, and sources of files."""

import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from raretokens.errors import UserError
from raretokens.yaml_files import read_yaml
from reproduction import paths

if TYPE_CHECKING:
    from reproduction.pipeline.settings import Machine
    from reproduction.training.recipe import Execution, Observer, TrainJob

CODE = (":/src", ":/stages", ":/dvc.yaml", "params.yaml")  # git paths that a run depends on, without the reports


def root() -> Path:
    """Return the root of the repository."""
    return Path(__file__).parents[3]


def revision() -> str | None:
    """Return the commit, with suffix -dirty if code or parameters of a run are modified; None outside a git repository.

    In a repository where git does not work, print git's message and return None.
    """
    try:
        return git("describe", "--always") + ("-dirty" if git("status", "--porcelain", "--", *CODE) else "")
    except UserError as error:
        if (root() / ".git").exists():
            print(f"no revision is recorded: {error}", file=sys.stderr, flush=True)
        return None


def git(*command: str) -> str:
    """Return the output of a git command. Raises UserError with git's message in one line if it fails."""
    try:
        done = subprocess.run(["git", *command], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise UserError("git is not installed") from None
    if done.returncode:
        raise UserError(f"git {shlex.join(command)}: {' '.join(done.stderr.split())}")
    return done.stdout.strip()


def mirror() -> Path | None:
    """Return the folder that is searched before the network: RARETOKENS_MIRROR, else `mirror` of params.yaml."""
    named = os.environ.get("RARETOKENS_MIRROR") or read_yaml(paths.PARAMETERS).get("mirror")
    return Path(named).expanduser() if named else None


def own_file(name: str) -> Path:
    """Return the path of a file of a custom corpus, relative to the folder of params.yaml."""
    files = read_yaml(paths.PARAMETERS).get("own") or {}
    if name not in files:
        raise UserError(f"own.{name}: not in params.yaml; there are {', '.join(files) or 'none'}")
    return Path(files[name])


def check_folder(own: Mapping[str, str]) -> None:
    """Check that DVC can work in this folder.

    Args:
        own: name -> file of custom corpora.

    Raises:
        UserError: `data` is a symbolic link that leaves the git repository, or DVC has copied the project without a file that
            is not in git.
    """
    here = Path.cwd()
    repository = next((folder for folder in (here, *here.parents) if (folder / ".git").exists()), None)
    if paths.DATA.is_symlink() and repository and not paths.DATA.resolve().is_relative_to(repository):
        raise UserError(
            f"{paths.DATA}: is a symbolic link out of the git repository, where DVC tracks no files; "
            "put the whole checkout on the other disk, or mount a folder of that disk at data (mount --bind)"
        )
    if {".dvc", "tmp", "exps"} <= {*here.parts}:
        for name, file in own.items():
            if not Path(file).exists():
                raise UserError(
                    f"own.{name}: {file}: no such file in the copy that `dvc exp run --temp` works in, "
                    "which has the files of git alone; write an absolute path"
                )


def machine() -> "Machine":
    from reproduction.pipeline import settings

    return settings.read()


def training(job: "TrainJob", train: "Callable[[Execution, Observer], None]") -> None:
    """Train with the launcher of this machine, print progress, and record the time.

    Raises:
        UserError: memory or disk does not suffice, or `block` leaves out all sentence pairs.
    """
    from reproduction.pipeline.settings import launch

    settings = machine()
    launch(settings.launch)
    from reproduction.pipeline.monitor import Monitor
    from reproduction.pipeline.plan import check_block, check_resources

    check_resources(job)
    check_block(job)
    with Monitor(job, settings, revision()) as observer:
        train(settings.execution(job.training.steps), observer)
