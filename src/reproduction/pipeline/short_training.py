"""Short trainings that show whether two versions of the code train a run to identical bits.

The interface to both versions is the one that every version has: stages/run, the JSON job file, data/scratch/machine.yaml, and
the output files of a run. No code of the other version is imported.
"""

import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import torch
import yaml
from safetensors.torch import load_file

from raretokens.errors import UserError
from raretokens.files import write_text
from reproduction import paths

STEPS = (20, 8, 4)  # steps of a trial; the next smaller number is tried if a step takes longer than SLOW
SLOW = 10.0  # CPU seconds per step
VALIDATION_TOKENS = {"classify": 65536}  # task -> tokens; more than FEWEST, since documents are not cut
FEWEST = 2048  # validation tokens of all other tasks
LATE = ("until", "start")  # options of objectives that are numbers of steps
FORMAT = 1  # version of the kept outcome of a trial
POLL = 0.01  # seconds
STATE = "state after step"  # prefix of the name of a saved state in an outcome
OUTPUT = "output.txt"


@dataclass(frozen=True)
class Version:
    """A version of the code. `root` is the folder with src and stages."""

    root: Path

    def start(self, command: list[str], folder: Path, output: str = OUTPUT) -> subprocess.Popen:
        """Start a stage in the folder of a scale.

        Args:
            command: threads, stage and its arguments, as in the command in dvc.lock.
            output: name of the file to which stdout and stderr are appended.
        """
        path = os.pathsep.join((os.path.dirname(sys.executable), os.environ.get("PATH", "")))
        unset = ("PYTHONPATH", "OMP_NUM_THREADS")
        environment = {name: value for name, value in os.environ.items() if name not in unset} | {"PATH": path}
        words = [str(self.root.absolute() / "stages/run"), *command]
        with open(folder / output, "a", encoding="utf-8") as file:
            return subprocess.Popen(words, cwd=folder, env=environment, stdout=file, stderr=subprocess.STDOUT)

    def run(self, command: list[str], folder: Path, output: str = OUTPUT) -> None:
        """Run a stage and wait for it. Raises UserError with the stage's last line of output if it fails."""
        check(self.start(command, folder, output).wait(), folder / output)


def check(code: int, output: Path) -> None:
    """Raise UserError if the exit code of a stage is not zero."""
    if code:
        raise UserError(f"{output}: the stage exited with {code}: {last_line(output)}")


def last_line(output: Path) -> str:
    """Return the last line that is not blank, or an empty string."""
    return "".join(output.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:])


def shortened(job: dict[str, Any], steps: int) -> dict[str, Any]:
    """Shorten the parameters of a training to `steps` steps that still exercise every save, schedule and option."""
    job = json.loads(json.dumps(job))
    training, run = job.get("training", {}), job.get("run", {})
    few = {"steps": steps, "warmup": steps // 2, "validate_every": steps // 4, "snapshot_every": steps // 3}
    few["validation_tokens"] = VALIDATION_TOKENS.get(run["task"], FEWEST)
    training |= {name: few[name] for name in few.keys() & training.keys()}  # an earlier version may lack a key
    _at_most(training, "stop_window", 2)
    _at_most(training, "keep", 2)
    _at_most(training.get("rule", {}), "window", 1)
    for name in LATE:
        _at_most(run.get("options", {}), name, steps // 2)
    return job


def _at_most(tree: dict[str, Any], name: str, value: int) -> None:
    if isinstance(tree.get(name), int):
        tree[name] = min(tree[name], value)


@dataclass
class TrialRun:
    """Run of a trial by one version of the code, in a separate folder with the layout of a scale."""

    version: Version
    command: list[str]  # threads, train, task, name
    folder: Path
    job: dict[str, Any]  # content of the job file, not shortened
    path: str  # of the job file, below the folder
    links: dict[str, Path]  # path of a link below the folder -> its target

    def prepare(self, steps: int) -> None:
        job = {**self.job, "job": shortened(self.job["job"], steps)}
        write_text(self.folder / self.path, json.dumps(job, indent=1, ensure_ascii=False) + "\n")
        write_text(self.folder / paths.MACHINE, yaml.safe_dump({"save_updates": saved_every(steps)}))
        for path, target in self.links.items():
            link = self.folder / path
            link.parent.mkdir(parents=True, exist_ok=True)
            link.unlink(missing_ok=True)
            link.symlink_to(target.absolute())

    def train(self, seconds: float | None = None, is_killed: bool = False) -> bool:
        """Train, and keep every saved state.

        Args:
            seconds: CPU seconds after which a process without a saved state is killed; None: no limit.
            is_killed: kill the process after its first saved state.

        Returns:
            False if the process was killed because of `seconds`.
        """
        process = self.version.start(self.command, self.folder)
        try:
            while process.poll() is None:
                self._set_states_aside()
                if self.states() and is_killed:
                    return True
                if seconds and not self.states() and _processor_seconds(process.pid) > seconds:
                    return False
                time.sleep(POLL)
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()
        check(process.returncode, self.folder / OUTPUT)
        return True

    def _set_states_aside(self) -> None:
        """Create a hard link to every saved state, because the run removes its states at the end."""
        with suppress(FileNotFoundError):  # the run may remove the folder meanwhile
            for state in (self.folder / paths.STATES).glob("*/state-*-*.pt"):
                kept = self.folder / "states" / f"{int(state.name.split('-')[1])}.pt"
                kept.parent.mkdir(exist_ok=True)
                with suppress(FileExistsError):
                    os.link(state, kept)

    def states(self) -> dict[int, Path]:
        """Return step -> path of the kept state."""
        return {int(path.stem): path for path in sorted((self.folder / "states").glob("*.pt"))}

    def states_outcome(self, steps: int) -> dict[str, Any]:
        """Return the hashes of the first two saved states, the part of outcome() that a killed run has."""
        kept, every = self.states(), saved_every(steps)
        return {f"{STATE} {step}": _read(_state, kept[step]) for step in (every, 2 * every) if step in kept}

    def outcome(self, steps: int) -> dict[str, Any]:
        """Return everything that is compared, as hashes and text. Raises UserError if fewer than two states were kept."""
        found, trained = self.states_outcome(steps), paths.trained(*self.command[2:])
        if len(found) < 2:
            raise UserError(f"{self.folder}: only {', '.join(found) or 'no state'} was seen; start again")
        for name in ("model.safetensors", "snapshots.safetensors"):
            found[name] = _read(_tensors, self.folder / trained / name)
        for name in ("training.json", "log.tsv"):
            found[name] = _read(lambda file: file.read_bytes().decode(), self.folder / trained / name)
        return found


def _processor_seconds(pid: int) -> float:
    """Return the CPU seconds of a process, which do not depend on the load of the machine as wall-clock time does."""
    try:
        times = psutil.Process(pid).cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return times.user + times.system


def saved_every(steps: int) -> int:
    """Return the steps between two saves, such that the second save is near the end."""
    return (steps - 2) // 2


def difference(old: dict[str, Any], new: dict[str, Any]) -> str | None:
    """Describe the first difference of two outcomes; None if there is none.

    The new outcome of a killed run contains only its saved states. Missing parts are skipped.
    """
    for name, value in old.items():
        if name not in new:
            continue
        if isinstance(value, str):
            if value != new[name]:
                return f"{name}: {_first_line(value, new[name])}"
            continue
        for key in [*value, *new[name]]:
            if value.get(key) != new[name].get(key):
                return f"{name}: {key}"
    return None


def _first_line(old: str, new: str) -> str:
    pairs = zip(old.splitlines(), new.splitlines(), strict=False)
    return next((f"line {n}: {a!r} became {b!r}" for n, (a, b) in enumerate(pairs, 1) if a != b), "length")


def _read(function: Callable[[Path], Any], path: Path) -> Any:
    """Read an output of a trial. Raises UserError if it is missing, or has another format than this code expects."""
    try:
        return function(path)
    except Exception as error:  # torch and safetensors have exceptions of their own
        raise UserError(f"{path}: cannot be read: {type(error).__name__}: {' '.join(str(error).split())}") from error


def _state(path: Path) -> dict[str, str]:
    """Return the model and optimizer of a saved state as name -> type, shape and hash of a tensor, or repr of a value."""
    saved = torch.load(path, map_location="cpu", weights_only=True)["state"]
    return {name: value for part in ("model", "optimizer") for name, value in _leaves(saved[part], part)}


def _leaves(tree: Any, prefix: str) -> Iterator[tuple[str, str]]:
    if isinstance(tree, dict):
        for name, value in tree.items():
            yield from _leaves(value, f"{prefix}.{name}")
    elif isinstance(tree, list | tuple):
        for number, value in enumerate(tree):
            yield from _leaves(value, f"{prefix}.{number}")
    else:
        yield prefix, _of_tensor(tree) if isinstance(tree, torch.Tensor) else repr(tree)


def _tensors(path: Path) -> dict[str, str]:
    found = {name: _of_tensor(tensor) for name, tensor in sorted(load_file(path).items())}
    return {**found, "all bytes": _hash(path.read_bytes())}


def _of_tensor(tensor: torch.Tensor) -> str:
    raw = tensor.detach().contiguous().reshape(-1).view(torch.uint8) if tensor.numel() else tensor.reshape(-1)
    return f"{tensor.dtype} {tuple(tensor.shape)} {_hash(raw.numpy().tobytes())}"


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:24]
