"""Resumable state of a run, kept outside DVC's outputs in a folder named by what the run depends on.

A run that was killed finds its state again only if parameters, token files and code are the same; anything else gets a
folder of its own, so an old checkpoint cannot leak into a changed run.
"""

import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import IO

import torch
from torch import Tensor

from raretokens.config import UserError

SCRATCH = Path("data/scratch/runs")


def fingerprint(resolved: dict, files: Iterable[Path]) -> str:
    """Hash of parameters and of the contents of files (tokens and code)."""
    digest = hashlib.sha256(json.dumps(resolved, sort_keys=True).encode())
    for path in files:
        with open(path, "rb") as file:
            digest.update(path.name.encode() + hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:24]


class Folder:
    """The scratch folder of one run, locked by its main process while it trains; rank counts the processes from 0."""

    def __init__(self, name: str, mark: str, root: Path = SCRATCH, rank: int = 0) -> None:
        self.path, self.rank = root / f"{name}-{mark}", rank
        self.path.mkdir(parents=True, exist_ok=True)
        self._parent = os.getppid()
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
        if os.getppid() != self._parent:
            raise UserError(
                f"{self.path}: the process that started this run is gone; its state is kept, start again to resume"
            )

    def save(self, state: dict) -> None:
        """Write the state of this process; a crash in the middle leaves the previous one."""
        part = self.path / f"state-{self.rank}.part"
        torch.save(state, part)
        os.replace(part, self.path / f"state-{self.rank}.pt")

    def restore(self) -> dict | None:
        path = self.path / f"state-{self.rank}.pt"
        return torch.load(path, map_location="cpu", weights_only=True) if path.exists() else None

    def keep_table(self, update: int, table: Tensor) -> None:
        """Set a copy of the embedding table aside, in half precision: curves over training are drawn from these."""
        if self.rank == 0:
            torch.save(table.detach().to("cpu", torch.float16), self.path / f"table-{update:06d}.pt")

    def tables(self) -> dict[str, Tensor]:
        """Update (six digits) -> N x d, float16."""
        found = sorted(self.path.glob("table-*.pt"))
        return {path.stem.removeprefix("table-"): torch.load(path, weights_only=True) for path in found}

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
