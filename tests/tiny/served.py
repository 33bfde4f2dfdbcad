"""Commands of a tiny world in processes forked from one that has imported what takes long, instead of in new ones.

Importing torch, pandas and DVC takes more processor time than a stage of a tiny world. `folder()` starts the server and returns
a virtual environment whose `python -m MODULE` and `dvc` are its clients. No module of raretokens is imported before the fork,
because a world has code of its own, which tests edit.
"""

import atexit
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path

LIBRARIES = (
    "accelerate", "ctranslate2", "dvc.cli.parser", "dvc.repo.reproduce", "jinja2", "matplotlib.backends.backend_svg",
    "matplotlib.pyplot", "pandas", "psutil", "pydantic", "requests", "rich.console", "rich.progress", "sacrebleu", "sacremoses",
    "safetensors.torch", "scipy.optimize", "scipy.sparse", "scipy.stats", "sentencepiece", "tokenizers", "torch._dynamo", "tqdm",
    "yaml",
)  # fmt: skip
THREADS = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "MKL", "OPENBLAS", "RAYON")}
LIMIT = 300.0  # seconds, of two processes that train together
ENDED = "\nended\n"
SIZE = 8  # bytes, of the number that says how long a request is


def load_libraries() -> None:
    for name in LIBRARIES:
        with suppress(ModuleNotFoundError):  # the library's tests do without those of the pipeline
            import_module(name)


@cache
def folder() -> Path:
    """Return the virtual environment of a server that lives as long as this process."""
    place = tempfile.TemporaryDirectory(prefix="served")
    programs = Path(place.name, "bin")
    programs.mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{place.name}/socket")
        listener.listen(64)
        script = f'#!/bin/sh\nexec "{sys.executable}" -IS "{__file__}" "{sys.executable}" "{place.name}/socket" "$0" "$@"\n'
        for name in ("python", "dvc"):
            (programs / name).write_text(script)
            (programs / name).chmod(0o755)
        environment = {**os.environ, **THREADS, "PYTHONHASHSEED": "0"}
        environment.pop("PYTHONPATH", None)
        command = [sys.executable, __file__, str(listener.fileno())]
        server = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, pass_fds=[listener.fileno()])
    atexit.register(lambda: (server.stdin.close(), server.wait(), place.cleanup()))
    return Path(place.name)


def environment(own: dict[str, str]) -> dict[str, str]:
    """Return variables with which `dvc`, and `python` here and in stages/run, are clients of the server."""
    return {**own, **THREADS, "PATH": os.pathsep.join((f"{folder()}/bin", own["PATH"])), "VENV": str(folder())}


def on_two_processes(variables: dict[str, str], *words: str, limit: float = LIMIT) -> None:
    """Run `python -m MODULE ...` on two processes that torch.distributed finds together, until each has called `end`."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    shared = {**environment(variables), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2"}
    ranks = [{**shared, "RANK": rank, "LOCAL_RANK": rank} for rank in "01"]
    command = [f"{folder()}/bin/python", "-m", *words]
    deadline = time.monotonic() + limit
    with tempfile.TemporaryFile() as first, tempfile.TemporaryFile() as second:
        files = (first, second)  # not pipes, which would fill
        running = [subprocess.Popen(command, env=rank, stderr=file) for rank, file in zip(ranks, files, strict=True)]
        while True:
            left = any(one.poll() is not None for one in running)
            errors = [os.pread(file.fileno(), 1 << 20, 0).decode(errors="replace") for file in files]
            ended = all(ENDED in text for text in errors)
            if ended or left or time.monotonic() > deadline:
                break
            time.sleep(0.05)
        for one in running:
            one.kill()
            one.wait()
    assert ended, errors


def end() -> None:
    """Say that this process has done its work, and wait to be killed. Two processes that leave gloo at once can hang."""
    print(ENDED, end="", file=sys.stderr, flush=True)
    signal.pause()


def ask(python: str, address: str, program: str, *words: str) -> None:
    """The client: have the server run a module with this process's folder, environment and files; exit as the module does."""
    command = ["-m", "dvc", *words] if os.path.basename(program) == "dvc" else [*words]
    if command[:1] != ["-m"] or os.environ.get("OMP_NUM_THREADS", "1") != "1":
        os.execv(python, [python, *command])
    request = json.dumps([os.getcwd(), dict(os.environ), command[1:]]).encode()
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(address)
        socket.send_fds(connection, [len(request).to_bytes(SIZE)], [0, 1, 2])
        connection.sendall(request)
        sys.exit((connection.recv(1) or b"\1")[0])


def serve(listener: socket.socket) -> None:
    """Fork a process for each request, until the process that started this one is gone."""
    import gc

    gc.disable()  # for good: a process ends before its garbage counts
    load_libraries()
    while True:
        ready, *_ = select.select([listener, sys.stdin], [], [])
        if sys.stdin in ready:
            return
        connection, _ = listener.accept()
        with connection:
            if os.fork() == 0:
                listener.close()
                header, files, *_ = socket.recv_fds(connection, SIZE, 3)
                with connection.makefile("rb") as stream:
                    request = json.loads(stream.read(int.from_bytes(header)))
                if (process := os.fork()) == 0:
                    answer(*request, files)
                    return
                report(connection, process)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def report(connection: socket.socket, process: int) -> None:
    """Wait for a process and tell its client how it ended. Kill it when the client is killed."""
    ended = os.pidfd_open(process)
    if ended not in select.select([ended, connection], [], [])[0]:
        os.kill(process, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    with suppress(BrokenPipeError):
        connection.sendall(bytes([code if code >= 0 else 128 - code]))
    os._exit(0)


def answer(place: str, environment: dict[str, str], command: list[str], files: list[int]) -> None:
    """Run a module in a folder as `python -m` does."""
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.chdir(place)
    os.environ.clear()
    os.environ.update(environment)
    sys.pycache_prefix = environment.get("PYTHONPYCACHEPREFIX") or None
    sys.dont_write_bytecode = bool(environment.get("PYTHONDONTWRITEBYTECODE"))
    sources = filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))
    sys.path[:1] = [place, *map(os.path.abspath, sources)]
    sys.argv = command
    code = [1]

    def leave() -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code[0])

    atexit.register(leave)
    try:
        runpy.run_module(command[0], run_name="__main__", alter_sys=True)
        code[0] = 0
    except SystemExit as stopped:
        code[0] = stopped.code or 0 if isinstance(stopped.code, int | None) else 1
        raise


if __name__ == "__main__":
    if len(sys.argv) > 2:
        ask(*sys.argv[1:])
    else:
        serve(socket.socket(fileno=int(sys.argv[1])))
