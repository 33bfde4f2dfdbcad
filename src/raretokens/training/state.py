"""Resumable state of a run, kept outside DVC's outputs in a folder named by what the run depends on.

A run that was killed finds its state again only if parameters, token files and code are the same; anything else gets a
folder of its own, so an old checkpoint cannot leak into a changed run. Of several processes the first one writes and all read,
so nodes must share the folder.
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
from raretokens.training.checked_files import CheckedFiles, HashingFile
from raretokens.training.log import NAME as LOG
from raretokens.training.log import Log, Position

KEPT = 2  # states


def fingerprint(job: bytes, files: Iterable[Path]) -> str:
    """Hash of what the run is told and of the contents of files."""
    digest = hashlib.sha256(job)
    for path in files:
        with open(path, "rb") as file:
            digest.update(path.name.encode() + hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:24]


class State:
    """The scratch folder of one run, locked by its main process while it trains; rank counts the processes from 0.

    state-<update>-<checksum>.pt is named by its own content and holds the checksums of the embeddings, weights and log rows that
    it goes on with. The last `KEPT` of them are kept.
    """

    def __init__(self, path: Path, rank: int = 0) -> None:
        self.path, self.rank = path, rank
        self.path.mkdir(parents=True, exist_ok=True)
        self._started_by = _starters()
        self._lock = self._locked() if rank == 0 else None
        self._files = CheckedFiles(path, rank == 0)
        self.log = Log(path, rank == 0)
        self._needed: list[set[str]] = []  # weights of each state that is kept
        self._kept: Iterable[int] = ()  # steps of the weights that the training keeps
        self.saved: int | None = None  # update of the last state

    def _locked(self) -> IO[str]:
        lock = open(self.path / "lock", "w")  # noqa: SIM115 - held until the process ends
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UserError(f"{self.path}: another process is training this run; wait for it or stop it") from None
        return lock

    def check_parent(self) -> None:
        """Stop when whoever started this process is gone: a killed `dvc` does not take its stages with it."""
        if _starters() != self._started_by:
            raise UserError(
                f"{self.path}: the process that started this run is gone; {self.left()}; start again to resume"
            )

    def left(self) -> str:
        """What a run that stops now goes on from."""
        if self.saved is None:
            return "no state was saved yet"
        return f"its state after update {self.saved} is kept in {self.path}"

    def begin_save(self, kept: Iterable[int], position: Position) -> dict[str, str]:
        """Return the checksums of the files that a state of this moment continues from; they stay until the next states.

        kept: steps of the weights that are set aside; position: of the log.
        """
        weights = {self.weights(update).name for update in kept}
        self._files.sums[LOG] = position.sum
        self._needed.append(weights)
        return {name: self._files.sums[name] for name in sorted({*weights, *self._snapshots(), LOG})}

    def write(self, state: dict, sums: dict[str, str]) -> None:
        """Write the state after state["update"] updates. Another thread may do so: nothing else here is used or changed.

        A crash in the middle leaves the states before, and what they go on with.
        """
        nameless = self.path / "state"
        with atomic_write(nameless) as part, open(part, "wb") as file:
            hashing = HashingFile(file)
            torch.save({"state": state, "sums": sums}, hashing)
        os.replace(nameless, self.path / f"state-{state['update']:06d}-{hashing.checksum()}.pt")
        sync(self.path)

    def end_save(self, update: int) -> None:
        """Remove what the last states do not need."""
        self.saved, self._needed = update, self._needed[-KEPT:]
        for path in self._states()[KEPT:]:
            path.unlink()
        self.forget_weights(self._kept)

    def restore(self, tell: Callable[[str], None] = print) -> dict | None:
        """The last state that is sound, with all that it goes on with; None where there is none. tell: hears what is not."""
        damaged: list[str] = []
        saved = next((found for path in self._states() if (found := self._sound(path, damaged))), None)
        if saved:
            self.saved, self._files.sums = saved["state"]["update"], saved["sums"]
            self._needed = [{path.name for path in self._weights()}]  # the state before may name any of them
        self.log.resume(Position.of(saved["sums"][LOG], saved["state"]["row"]) if saved else Position())
        if damaged:
            now = "starting from the beginning" if saved is None else f"going on after update {self.saved}"
            tell(f"{', '.join(dict.fromkeys(damaged))} in {self.path}: damaged, set aside; {now}")
        return saved and saved["state"]

    def _sound(self, path: Path, damaged: list[str]) -> dict | None:
        """Content of a state's file, if it and all that it names are as they were written."""
        if bad := self._files.damaged({path.name: path.stem.rpartition("-")[2]}):
            damaged += bad
            return None
        saved = torch.load(path, map_location="cpu", weights_only=True)
        if bad := self._files.damaged(saved["sums"]):
            damaged += bad
            self._files.damaged({path.name: ""})  # what it needs is gone
            return None
        return saved

    def _states(self) -> list[Path]:
        """Files of states, the last one first."""
        return sorted(self.path.glob("state-*-*.pt"), key=_update, reverse=True)

    def verify(self, kept: Iterable[int]) -> None:
        """Raise UserError where the log, the embedding matrices, or the weights of these updates are not as they were written."""
        self._files.sums[LOG] = self.log.position().sum
        names = {LOG, *self._snapshots(), *(self.weights(update).name for update in kept)}
        if bad := self._files.damaged({name: self._files.sums[name] for name in sorted(names)}):
            raise UserError(f"{', '.join(bad)} in {self.path}: damaged, set aside; start again to train what is lost")

    def keep_weights(self, update: int, weights: dict[str, Tensor]) -> None:
        """Set the weights after an update aside."""
        tensors = {name: tensor.detach().cpu() for name, tensor in weights.items()}
        self._files.keep(self.weights(update).name, lambda part: save_file(tensors, part))

    def weights(self, update: int) -> Path:
        """File of the weights that were set aside after an update."""
        return self.path / f"weights-{update:06d}.safetensors"

    def forget_weights(self, kept: Iterable[int]) -> None:
        """Remove weights of other updates that no state goes on with."""
        self._kept = tuple(kept)
        needed = {self.weights(update).name for update in self._kept}.union(*self._needed)
        self._files.forget({path.name for path in self._weights()} - needed)

    def _weights(self) -> Iterable[Path]:
        return self.path.glob("weights-*.safetensors")

    def keep_snapshot(self, update: int, embedding: Tensor) -> None:
        """Set a copy of the embedding matrix aside, in half precision: curves over training are drawn from these."""
        half = embedding.detach().to("cpu", torch.float16)
        self._files.keep(f"table-{update:06d}.pt", lambda part: torch.save(half, part))

    def snapshots(self) -> dict[str, Tensor]:
        """Update (six digits) -> N x d, float16."""
        paths = [self.path / name for name in sorted(self._snapshots())]
        return {path.stem.removeprefix("table-"): torch.load(path, weights_only=True) for path in paths}

    def _snapshots(self) -> set[str]:
        return {name for name in self._files.sums if name.startswith("table-")}

    def remove(self) -> None:
        """Remove the folder, the states first: killed on the way, a start finds one that is whole or none."""
        if self.rank == 0:
            for path in reversed(self._states()):
                path.unlink()
            sync(self.path)
            shutil.rmtree(self.path, ignore_errors=True)


def _update(path: Path) -> int:
    number = path.name.split("-")[1]
    return int(number) if number.isdigit() else -1


def _starters() -> tuple[int, ...]:
    """Who started this process; where that is a launcher of several, also who started the launcher. Empty if one just ended."""
    parent = os.getppid()
    try:
        return (parent, psutil.Process(parent).ppid()) if "RANK" in os.environ else (parent,)
    except psutil.NoSuchProcess:
        return ()
