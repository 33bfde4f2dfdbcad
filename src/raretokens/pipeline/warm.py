"""A process that has the libraries imported and forks for each stage that stages/run asks it for.

Importing torch and its kin takes a stage two to three seconds of processor time, as much as many stages work. Only libraries
are imported here, which the environment pins: the project's own code is read anew by every stage, in a process, a folder and an
environment of its own. stages/parallel starts the server and ends it; stages/ask.py is the other side.
"""

import gc
import json
import os
import runpy
import selectors
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path

from raretokens.paths import TIMING

LIBRARIES = (
    "accelerate", "ctranslate2", "numpy", "pydantic", "regex", "sacrebleu", "safetensors.torch", "scipy.optimize",
    "scipy.sparse", "scipy.stats", "sentencepiece", "tokenizers", "torch", "yaml",
)  # fmt: skip
WATCHED = "OMP_NUM_THREADS"  # read by libraries when they are imported, so a stage with another number is refused
SPENT = TIMING / "stages.csv"  # what each stage took, for benchmarks/demo.py
SECONDS = 1.0  # between two looks whether whoever started the server is still there


def serve(path: str) -> None:
    """Listen on the socket at `path` until the parent process is gone; returns in the processes of stages, ready to run."""
    for name in LIBRARIES:
        with suppress(ModuleNotFoundError):  # what needs it will say so
            import_module(name)
    gc.freeze()  # so that a collection in a stage does not copy the pages of all that
    parent, children = os.getppid(), dict[int, tuple[socket.socket, str]]()
    SPENT.parent.mkdir(parents=True, exist_ok=True)
    with (
        socket.socket(socket.AF_UNIX) as listener,
        _ended() as bell,
        selectors.DefaultSelector() as ready,
        SPENT.open("w", buffering=1) as spent,
    ):
        spent.write("stage,processor_seconds\n")
        Path(path).unlink(missing_ok=True)  # of a server that was killed
        listener.bind(path)
        listener.listen()
        for source in (listener, bell):
            ready.register(source, selectors.EVENT_READ)
        while os.getppid() == parent:
            for key, _ in ready.select(SECONDS):
                if key.fileobj is listener:
                    asking, _ = listener.accept()
                    pid, stage = _answer(asking)
                    if pid == 0:
                        return  # sockets are closed on the way out
                    if pid:
                        children[pid] = asking, stage
                        ready.register(asking, selectors.EVENT_READ, pid)
                elif key.fileobj is bell:
                    bell.recv(1024)
                    for pid, code, seconds in _finished():
                        asking, stage = children.pop(pid)
                        spent.write(f"{stage},{seconds:.2f}\n")
                        with suppress(KeyError):  # whoever asked was gone before
                            ready.unregister(asking)
                        _say(asking, str(code))
                elif key.data in children:  # it says nothing more, so it is gone
                    ready.unregister(key.fileobj)
                    _kill(key.data)
        for pid in children:
            _kill(pid)
    sys.exit()


@contextmanager
def _ended() -> Iterator[socket.socket]:
    """A socket that can be read when a child has ended."""
    bell, rope = socket.socketpair()
    rope.setblocking(False)
    before = signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(rope.fileno(), warn_on_full_buffer=False)
    try:
        with bell, rope:
            yield bell
    finally:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, before)


def _answer(asking: socket.socket) -> tuple[int | None, str]:
    """Fork for what is asked: the child's number, 0 in the child, None where it is refused; the stage."""
    _, files, _, _ = socket.recv_fds(asking, 1, 3)
    with asking.makefile("rb") as lines:
        asked = json.loads(lines.readline() or "null")
    if asked is None or asked["environment"].get(WATCHED) != os.environ.get(WATCHED):
        pid = None
    elif (pid := os.fork()) == 0:
        os.setpgid(0, 0)
        for number, file in enumerate(files):
            os.dup2(file, number)
        os.chdir(asked["folder"])
        os.environ.clear()
        os.environ.update(asked["environment"])
        sys.argv = ["", *asked["arguments"]]
    for file in files:
        os.close(file)
    if not pid:
        asking.close() if pid == 0 else _say(asking, "no")
    return pid, asked["arguments"][0] if asked else ""


def _finished() -> Iterator[tuple[int, int, float]]:
    """Number, exit code (as of a shell where a signal ended it) and processor seconds of each child that has ended."""
    with suppress(ChildProcessError):
        while (found := os.wait4(-1, os.WNOHANG))[0]:
            code = os.waitstatus_to_exitcode(found[1])
            yield found[0], code if code >= 0 else 128 - code, found[2].ru_utime + found[2].ru_stime


def _say(asking: socket.socket, word: str) -> None:
    with asking, suppress(OSError):  # it may be gone
        asking.sendall(f"{word}\n".encode())


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


if __name__ == "__main__":
    serve(sys.argv[1])
    runpy.run_module("raretokens.pipeline", run_name="__main__", alter_sys=True)
