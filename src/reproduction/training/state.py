"""Resumable state of a run, stored outside DVC's outputs in a folder whose name is a hash of the run's inputs.

A killed run resumes only if parameters, token files and code are unchanged. A changed run gets a new folder, so it cannot use an
old checkpoint. The first process writes and all processes read, so nodes must share the folder.
"""

import fcntl
import hashlib
import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO

import psutil
import torch
from safetensors.torch import save_file
from torch import Tensor

from raretokens.errors import UserError
from raretokens.files import atomic_write, sync
from reproduction.training.checked_files import LOG, CheckedFiles, HashingFile, Log, Position

KEPT = 2  # number of states to keep


def fingerprint(job: bytes, files: Iterable[Path]) -> str:
    """Return a hash of the job spec and of the names and contents of files."""
    digest = hashlib.sha256(job)
    for path in files:
        with open(path, "rb") as file:
            digest.update(path.name.encode() + hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:24]


class State:
    """State folder of one run, which its main process locks during training; rank: number of this process, from 0.

    The name of state-<step>-<checksum>.pt contains the checksum of the file. The file contains the checksums of the snapshots,
    weights and log rows that it needs. The last `KEPT` states are kept.
    """

    def __init__(self, path: Path, rank: int = 0) -> None:
        self.path, self.rank = path, rank
        self.path.mkdir(parents=True, exist_ok=True)
        self._started_by = _starters()
        self._lock = self._locked() if rank == 0 else None
        self._files = CheckedFiles(path, rank == 0)
        self.log = Log(path, rank == 0)
        self._needed: list[set[str]] = []  # names of the weight files that each kept state needs
        self._kept: Iterable[int] = ()  # steps of the weights that training keeps
        self.saved: int | None = None  # step of the last state

    def _locked(self) -> IO[str]:
        lock = open(self.path / "lock", "w")  # noqa: SIM115 - open until the process ends
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UserError(f"{self.path}: another process is training this run; wait for it or stop it") from None
        return lock

    def check_parent(self) -> None:
        """Raise UserError if the parent process has ended, because a killed `dvc` does not stop its stages."""
        if _starters() != self._started_by:
            raise UserError(f"{self.path}: the process that started this run is gone; {self.left()}; start again to resume")

    def left(self) -> str:
        """Return a description of the state from which the run can resume, for error messages."""
        if self.saved is None:
            return "no state was saved yet"
        return f"its state after step {self.saved} is kept in {self.path}"

    def begin_save(self, kept: Iterable[int], position: Position) -> dict[str, str]:
        """Return the checksums of the files that a state saved now needs. The files stay until newer states replace this one.

        kept: steps of the saved weights; position: end of the log.
        """
        weights = {self.weights(step).name for step in kept}
        self._files.sums[LOG] = position.sum
        self._needed.append(weights)
        return {name: self._files.sums[name] for name in sorted({*weights, *self._snapshots(), LOG})}

    def write(self, state: dict, sums: dict[str, str]) -> None:
        """Write the state after step state["update"]. The method changes no attributes, so another thread may call it.

        A crash during the write leaves earlier states and their files intact.
        """
        nameless = self.path / "state"
        with atomic_write(nameless) as part, open(part, "wb") as file:
            hashing = HashingFile(file)
            torch.save({"state": state, "sums": sums}, hashing)
        os.replace(nameless, self.path / f"state-{state['update']:06d}-{hashing.checksum()}.pt")
        sync(self.path)

    def end_save(self, step: int) -> None:
        """Remove states and weights that the last states do not need."""
        self.saved, self._needed = step, self._needed[-KEPT:]
        for path in self._states()[KEPT:]:
            path.unlink()
        self.forget_weights(self._kept)

    def restore(self, tell: Callable[[str], None] = print) -> dict | None:
        """Return the last state that is undamaged, together with all its files, or None; tell: receives reports of damage."""
        damaged: list[str] = []
        saved = next((found for path in self._states() if (found := self._sound(path, damaged))), None)
        if saved:
            self.saved, self._files.sums = saved["state"]["update"], saved["sums"]
            self._needed = [{path.name for path in self._weights()}]  # the previous state may need any of them
        self.log.resume(Position(saved["sums"][LOG], saved["state"]["row"]) if saved else Position())
        if damaged:
            now = "starting from the beginning" if saved is None else f"going on after step {self.saved}"
            tell(f"{', '.join(dict.fromkeys(damaged))} in {self.path}: damaged, set aside; {now}")
        return saved and saved["state"]

    def _sound(self, path: Path, damaged: list[str]) -> dict | None:
        """Return the content of a state file if the checksums of the file and of all files that it needs are correct."""
        if bad := self._files.damaged({path.name: path.stem.rpartition("-")[2]}):
            damaged += bad
            return None
        saved = torch.load(path, map_location="cpu", weights_only=True)
        if bad := self._files.damaged(saved["sums"]):
            damaged += bad
            self._files.damaged({path.name: ""})  # set the state aside, because it is unusable without its files
            return None
        return saved

    def _states(self) -> list[Path]:
        """Return the state files, the last state first."""
        return sorted(self.path.glob("state-*-*.pt"), key=lambda path: int(path.name.split("-")[1]), reverse=True)

    def verify(self, kept: Iterable[int]) -> None:
        """Raise UserError if the checksum of the log, a snapshot, or the weights of these steps is wrong."""
        self._files.sums[LOG] = self.log.position().sum
        names = {LOG, *self._snapshots(), *(self.weights(step).name for step in kept)}
        if bad := self._files.damaged({name: self._files.sums[name] for name in sorted(names)}):
            raise UserError(f"{', '.join(bad)} in {self.path}: damaged, set aside; start again to train what is lost")

    def keep_weights(self, step: int, weights: dict[str, Tensor]) -> None:
        """Save the weights after a step."""
        tensors = {name: tensor.detach().cpu() for name, tensor in weights.items()}
        self._files.keep(self.weights(step).name, lambda part: save_file(tensors, part))

    def weights(self, step: int) -> Path:
        """Return the path of the weights that were saved after a step."""
        return self.path / f"weights-{step:06d}.safetensors"

    def forget_weights(self, kept: Iterable[int]) -> None:
        """Remove weights of all steps that neither `kept` nor a state needs."""
        self._kept = tuple(kept)
        needed = {self.weights(step).name for step in self._kept}.union(*self._needed)
        self._files.forget({path.name for path in self._weights()} - needed)

    def _weights(self) -> Iterable[Path]:
        return self.path.glob("weights-*.safetensors")

    def keep_snapshot(self, step: int, embedding: Tensor) -> None:
        """Save a snapshot of the embedding matrix in float16, for plots of the training history."""
        half = embedding.detach().to("cpu", torch.float16)
        self._files.keep(f"table-{step:06d}.pt", lambda part: torch.save(half, part))

    def snapshots(self) -> dict[str, Tensor]:
        """Return all snapshots: step (six digits) -> embedding matrix (N x d, float16)."""
        paths = [self.path / name for name in sorted(self._snapshots())]
        return {path.stem.removeprefix("table-"): torch.load(path, weights_only=True) for path in paths}

    def _snapshots(self) -> set[str]:
        return {name for name in self._files.sums if name.startswith("table-")}

    def remove(self) -> None:
        """Remove the folder, states first, so that a kill during removal leaves complete states or none."""
        if self.rank == 0:
            for path in reversed(self._states()):
                path.unlink()
            sync(self.path)
            shutil.rmtree(self.path, ignore_errors=True)


def _starters() -> tuple[int, ...]:
    """Return the parent process id, followed by that of the launcher's parent if a launcher started this process.

    The result is empty if one of these processes just ended.
    """
    parent = os.getppid()
    try:
        return (parent, psutil.Process(parent).ppid()) if "RANK" in os.environ else (parent,)
    except psutil.NoSuchProcess:
        return ()
