"""Resumable state of a run, kept outside DVC's outputs in a folder named by what the run depends on.

A run that was killed finds its state again only if parameters, token files and code are the same; anything else gets a
folder of its own, so an old checkpoint cannot leak into a changed run. Of several processes the first one writes and all read,
so nodes must share the folder.
"""

import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import IO

import psutil
import torch
from safetensors.torch import save_file
from torch import Tensor

from raretokens.errors import UserError
from raretokens.files import whole


def fingerprint(job: bytes, files: Iterable[Path]) -> str:
    """Hash of what the run is told and of the contents of files."""
    digest = hashlib.sha256(job)
    for path in files:
        with open(path, "rb") as file:
            digest.update(path.name.encode() + hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:24]


class State:
    """The scratch folder of one run, locked by its main process while it trains; rank counts the processes from 0."""

    def __init__(self, path: Path, rank: int = 0) -> None:
        self.path, self.rank = path, rank
        self.path.mkdir(parents=True, exist_ok=True)
        self._started_by = _starters()
        self._lock = self._locked() if rank == 0 else None

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
                f"{self.path}: the process that started this run is gone; its state is kept, start again to resume"
            )

    def save(self, state: dict) -> None:
        """Write the state; a crash in the middle leaves the previous one, and the weights that it keeps."""
        if self.rank == 0:
            with whole(self.path / "state.pt") as part:
                torch.save(state, part)

    def restore(self) -> dict | None:
        path = self.path / "state.pt"
        return torch.load(path, map_location="cpu", weights_only=True) if path.exists() else None

    def keep_weights(self, update: int, weights: dict[str, Tensor]) -> None:
        """Set the weights after an update aside."""
        if self.rank == 0:
            with whole(self.weights(update)) as part:
                save_file({name: tensor.detach().cpu() for name, tensor in weights.items()}, part)

    def weights(self, update: int) -> Path:
        """File of the weights that were set aside after an update."""
        return self.path / f"weights-{update:06d}.safetensors"

    def forget_weights(self, kept: Iterable[int]) -> None:
        """Remove weights of other updates; only after `save`, since the state saved before may still name them."""
        if self.rank == 0:
            for path in set(self.path.glob("weights-*.safetensors")) - set(map(self.weights, kept)):
                path.unlink()

    def keep_table(self, update: int, table: Tensor) -> None:
        """Set a copy of the embedding table aside, in half precision: curves over training are drawn from these."""
        if self.rank == 0:
            with whole(self.path / f"table-{update:06d}.pt") as part:
                torch.save(table.detach().to("cpu", torch.float16), part)

    def tables(self) -> dict[str, Tensor]:
        """Update (six digits) -> N x d, float16."""
        copies = sorted(self.path.glob("table-*.pt"))
        return {path.stem.removeprefix("table-"): torch.load(path, weights_only=True) for path in copies}

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)


def _starters() -> tuple[int, ...]:
    """Who started this process; where that is a launcher of several, also who started the launcher. Empty if one just ended."""
    parent = os.getppid()
    try:
        return (parent, psutil.Process(parent).ppid()) if "RANK" in os.environ else (parent,)
    except psutil.NoSuchProcess:
        return ()
