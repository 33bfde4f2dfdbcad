"""A training that is killed, whose disk fills, or whose files are damaged: does a rerun end with the same bytes?

* kills: the process is killed at a random moment, and again on its way to the end
* operations: the process is killed at each opening, renaming and removal of a file, one after the other
* disk: the system reports a full disk at each of these operations
* small-disk: the training runs on a disk of each of many sizes (of memory; needs root, or `unshare -rm`)
* damage: the process is killed, and a file of its state is cut, emptied, removed, or has a bit turned

Each trial is the real loop on 40 types, in a process of its own.
"""

import contextlib
import errno
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from tally import CORRECT, LOST, SILENT, TRACEBACK, Tally
from tiny.trainer import trainer, write_tokens

from raretokens.errors import exit_on_error
from reproduction.training.run import to_the_end

OPTIONS = {"steps": 8, "validate_every": 2, "snapshot_every": 2, "save_updates": 2, "keep": 2}
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
REACHED = "the operation is reached"
DAMAGE: tuple[Callable[[bytes], bytes | None], ...] = (
    lambda data: data[:-1],
    lambda data: b"",
    lambda data: None,
    lambda data: data[: (at := random.randrange(len(data)))] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1 :],
)


def train(folder: Path, hinder: Callable[[Path], None] | None = None) -> tuple[int, str]:
    """In a child: the run from where its state is to its end. Returns how it ended (negative: by a signal) and what it said."""
    child = os.fork()
    if child == 0:
        said = os.open(folder.parent / "said", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(said, 1)
        os.dup2(said, 2)
        sys.stdout = sys.stderr = open(said, "w", buffering=1)  # noqa: SIM115 - for as long as the child lives
        code = 0
        try:
            with exit_on_error():
                run = trainer(folder, "lm", "agg", **OPTIONS)
                if hinder:
                    hinder(folder)
                to_the_end(run)
                run.state.remove()
        except SystemExit as end:
            print(end.code, flush=True)
            code = 1
        except BaseException:
            sys.excepthook(*sys.exc_info())
            code = 2
        sys.stdout.flush()
        os._exit(code)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status), (folder.parent / "said").read_text(errors="replace")


def outputs(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((folder / "out/agg").glob("*"))}


@contextlib.contextmanager
def world() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made) / "world"
        folder.mkdir()
        write_tokens(folder)
        yield folder


def judge(tally: Tally, folder: Path, said: str, expected: dict[str, bytes], what: str) -> None:
    """A run that was hindered, said so, and is started again: it must end as if nothing had been."""
    if "Traceback" in said:
        return tally.add(TRACEBACK, f"{what}: {said[-500:]}")
    code, again = train(folder)
    if "Traceback" in again:
        return tally.add(TRACEBACK, f"{what}: {again[-500:]}")
    if code:
        return tally.add(LOST, f"{what}: {again}")
    return tally.add(CORRECT if outputs(folder) == expected else SILENT, f"{what}: other bytes")


def hooked(act: Callable[[int, str], None]) -> Callable[[Path], None]:
    """Calls with the number of each opening to write, renaming and removal below the folder, before it is done."""

    def hinder(folder: Path) -> None:
        done = 0

        def hook(event: str, arguments: tuple) -> None:
            nonlocal done
            opened = event == "open" and isinstance(arguments[2], int) and arguments[2] & WRITING
            if (opened or event in ("os.rename", "os.remove", "os.mkdir", "os.rmdir")) and str(folder) in str(
                arguments[0]
            ):
                done += 1
                act(done, str(arguments[0]))

        sys.addaudithook(hook)

    return hinder


def operations(tally: Tally, expected: dict[str, bytes], rounds: int) -> None:
    for number in range(1, rounds + 1):
        with world() as folder:
            code, said = train(
                folder, hooked(lambda done, _, n=number: done == n and os.kill(os.getpid(), signal.SIGKILL))
            )
            if code == 0:
                return
            judge(tally, folder, said, expected, f"killed at file operation {number}")


def disk(tally: Tally, expected: dict[str, bytes], rounds: int) -> None:
    def full(number: int, path: str, at: int) -> None:
        if number == at:
            print(REACHED, flush=True)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    for at in range(1, rounds + 1):
        with world() as folder:
            code, said = train(folder, hooked(lambda number, path, at=at: full(number, path, at)))
            if REACHED not in said:
                return
            if code == 0:  # as where a folder is there already
                tally.add(CORRECT if outputs(folder) == expected else SILENT, f"full at file operation {at}")
            elif code != 1 or "no space left on the disk" not in said:
                tally.add(TRACEBACK if "Traceback" in said else SILENT, f"full at operation {at}: {said[-300:]}")
            else:
                judge(tally, folder, said, expected, f"full at file operation {at}")


def small_disk(tally: Tally, expected: dict[str, bytes], rounds: int) -> None:
    """A ballast leaves so many KB of a disk of memory; then it goes, as when a person makes room."""
    if os.getuid():
        raise SystemExit("training small-disk mounts a disk: call this as root, or after `unshare -rm`")
    for number in range(rounds):
        with world() as folder:
            command = ["mount", "-t", "tmpfs", "-o", "size=8m", "none", str(folder)]
            subprocess.run(command, check=True)
            try:
                write_tokens(folder)
                ballast, left = folder / "ballast", 8 * (number + 1) << 10
                ballast.write_bytes(bytes(shutil.disk_usage(folder).free - left))
                code, said = train(folder)
                ballast.unlink()
                if code == 0:
                    tally.add(CORRECT if outputs(folder) == expected else SILENT, f"{left} bytes: other bytes")
                elif code != 1 or "no space left on the disk" not in said:
                    tally.add(TRACEBACK, f"{left} bytes free: {said[-500:]}")
                else:
                    judge(tally, folder, said, expected, f"{left} bytes free")
            finally:
                subprocess.run(["umount", str(folder)], check=True)


def kills(tally: Tally, expected: dict[str, bytes], rounds: int) -> None:
    start = time.monotonic()
    with world() as folder:
        train(folder)
    usual = time.monotonic() - start
    for number in range(rounds):
        with world() as folder:
            for _ in range(random.randint(1, 3)):
                moment = random.uniform(0, usual)
                said = train(folder, lambda _, moment=moment: _killed_after(moment))[1]
            judge(tally, folder, said, expected, f"round {number}")


def _killed_after(seconds: float) -> None:
    threading.Timer(seconds, lambda: os.kill(os.getpid(), signal.SIGKILL)).start()


def damage(tally: Tally, expected: dict[str, bytes], rounds: int) -> None:
    for number in range(rounds):
        with world() as folder:
            at = random.randint(12, 60)
            train(folder, hooked(lambda done, _, at=at: done == at and os.kill(os.getpid(), signal.SIGKILL)))
            files = [path for path in (folder / "scratch").rglob("*") if path.is_file() and path.stat().st_size]
            if files:
                path, change = random.choice(files), random.choice(DAMAGE)
                content = change(path.read_bytes())
                path.unlink()
                if content is not None:
                    path.write_bytes(content)
                judge(tally, folder, "", expected, f"round {number}: {path.name}")


def _undisturbed(test: Callable[[Tally, dict[str, bytes], int], None]) -> Callable[[Tally, int], None]:
    """Return a test that first trains without a fault, whose outputs the trials must equal."""

    def run(tally: Tally, rounds: int) -> None:
        torch.set_num_threads(1)
        with world() as folder:
            code, said = train(folder)
            if code:
                raise SystemExit(f"the run fails by itself: {said}")
            expected = outputs(folder)
        test(tally, expected, rounds)

    return run


TESTS = {
    name: _undisturbed(test)
    for name, test in {
        "kills": kills, "operations": operations, "disk": disk, "small-disk": small_disk, "damage": damage
    }.items()
}  # fmt: skip
