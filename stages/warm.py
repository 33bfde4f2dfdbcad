"""Run a stage as a fork of a process that has imported its libraries, which saves seconds a stage: warm.py STAGE [ARGUMENT...]

stages/run calls it where RARETOKENS_WARM names a folder, as stages/parallel does on Linux without GPUs. Each environment has
one waiting process, because libraries read variables such as OMP_NUM_THREADS when they are loaded. It runs no stage itself: it
imports what earlier stages imported, and forks. Once an import has started a thread it forks no more, and its clients run their
stages themselves.
"""

import fcntl
import gc
import hashlib
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import NoReturn, TextIO

FREE = ("DVC_", "CUDA_VISIBLE_DEVICES", "slot")  # beginnings of variables that no library reads when it is loaded
PASSED_ON = (signal.SIGINT, signal.SIGTERM)  # signals that a client hands to its stage
SIZE = 8  # bytes, of the number that says how long a request is
IDLE = 30.0  # seconds without a request after which a waiting process ends


def run(stage: list[str]) -> None:
    """Ask for a fork that runs the stage, and end as it ends. Without an answer, run the stage in this process."""
    with suppress(OSError):
        ask(_connection(Path(os.environ["RARETOKENS_WARM"])), stage)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)
    os.execv(sys.executable, [sys.executable, "-m", "reproduction.pipeline", *stage])


def ask(connection: socket.socket, command: list[str]) -> None:
    """Ask for a fork with the folder, environment and streams of this process, and end as it ends. Return without an answer."""
    signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON)  # until the fork is there to get them
    request = json.dumps({"command": command, "folder": os.getcwd(), "environment": dict(os.environ)}).encode()
    socket.send_fds(connection, [len(request).to_bytes(SIZE)], [0, 1, 2])
    connection.sendall(request)
    answers = connection.makefile()
    if answer := answers.readline():
        _follow(int(answer), answers)


def _follow(process: int, answers: TextIO) -> NoReturn:
    """Hand signals to a process, and end as it ends."""

    def pass_on(number: int, _: object) -> None:
        with suppress(ProcessLookupError):  # it has ended just now
            os.killpg(process, number)

    for one in PASSED_ON:
        signal.signal(one, pass_on)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)
    try:
        status = int(answers.readline())
    except (OSError, ValueError):  # whoever waits for it was killed
        status = signal.SIGKILL
    if os.WIFSIGNALED(status):
        signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
        os.kill(os.getpid(), os.WTERMSIG(status))
    os._exit(os.waitstatus_to_exitcode(status))


def _connection(folder: Path) -> socket.socket:
    """Connect to the waiting process of this environment, and start it if there is none."""
    variables = sorted((name, value) for name, value in os.environ.items() if not name.startswith(FREE))
    address = folder / hashlib.sha256(json.dumps(variables).encode()).hexdigest()[:16]
    connection = socket.socket(socket.AF_UNIX)
    with open(f"{address}.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            connection.connect(str(address))
        except OSError:
            address.unlink(missing_ok=True)
            with socket.socket(socket.AF_UNIX) as listener:
                listener.bind(str(address))
                listener.listen()
                number = listener.fileno()
                command = [sys.executable, __file__, "--wait", str(number), str(address)]
                # A pipe of the first client would stay open as long as this process waits.
                streams = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
                subprocess.Popen(command, pass_fds=[number], start_new_session=True, **streams)
            connection.connect(str(address))
    return connection


def wait(listener: socket.socket, imported: Path) -> list[str]:
    """Fork for each request, and return its command in the fork. End after a while without requests.

    Args:
        imported: file with the names of the modules that stages have imported.
    """
    listener.settimeout(IDLE)
    while True:
        try:
            connection, _ = listener.accept()
        except TimeoutError:
            sys.exit()
        for name in _names(imported):
            if name not in sys.modules:
                with suppress(Exception):  # some names have no module of their own
                    importlib.import_module(name)
        gc.freeze()  # a collection in a fork would copy every page that it looks at
        with connection:
            # A fork has one thread, and keeps locks that others held.
            if len(os.listdir("/proc/self/task")) == 1 and (command := forked(listener, connection)):
                return command


def _names(imported: Path) -> list[str]:
    return imported.read_text(encoding="utf-8").split() if imported.exists() else []


def forked(listener: socket.socket, connection: socket.socket) -> list[str]:
    """Fork for a request; in the fork take its folder, environment and streams, and return its command. Return nothing else.

    A second fork answers with the number and the status of the first. A client that goes takes it with it.
    """
    if os.fork():
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:  # earlier forks that have ended
                pass
        return []
    listener.close()
    connection.settimeout(None)
    length, streams, *_ = socket.recv_fds(connection, SIZE, 3)
    request = json.loads(connection.makefile("rb").read(int.from_bytes(length)))
    if process := os.fork():
        _report(connection, process)
    os.setpgid(0, 0)
    for place, stream in enumerate(streams):
        os.dup2(stream, place)
        os.close(stream)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    return request["command"]


def _report(connection: socket.socket, process: int) -> NoReturn:
    with suppress(OSError):
        os.setpgid(process, process)  # whichever of the two comes first
    with suppress(OSError):
        connection.sendall(f"{process}\n".encode())
    ended = os.pidfd_open(process)
    if ended not in select.select([connection, ended], [], [])[0]:
        os.killpg(process, signal.SIGKILL)
    _, status = os.waitpid(process, 0)
    with suppress(OSError):
        connection.sendall(f"{status}\n".encode())
    os._exit(0)


def _stage(command: list[str], imported: Path) -> None:
    sys.argv = ["stages/run", *command]
    try:
        importlib.import_module("reproduction.pipeline.__main__").main()
    finally:
        part = imported.with_suffix(f".{os.getpid()}")
        with suppress(OSError):  # the folder goes with stages/parallel
            part.write_text("\n".join(dict.fromkeys([*_names(imported), *sys.modules])), encoding="utf-8")
            part.replace(imported)


if __name__ == "__main__":
    if sys.argv[1] == "--wait":
        modules = Path(f"{sys.argv[3]}.modules")
        _stage(wait(socket.socket(fileno=int(sys.argv[2])), modules), modules)
    else:
        run(sys.argv[1:])
