"""Stages that the process with the imported libraries forks for: as stages of their own, but for the time."""

import os
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest
from tiny import world

SOCKET = "data/scratch/warm"


@pytest.fixture(scope="module")
def warm(tmp_path_factory):
    """A world with such a process."""
    path = world.create(tmp_path_factory.mktemp("warm"))
    server = subprocess.Popen(["stages/run", "1", "warm", SOCKET], cwd=path, env=world.environment())
    wait(lambda: (path / SOCKET).exists())
    yield path, server.pid
    server.kill()


@pytest.fixture(scope="module")
def folder(warm) -> Path:
    return warm[0]


def wait(until) -> None:
    deadline = time.monotonic() + 60
    while not until():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def stage(folder: Path, *words: str, socket: str = SOCKET, **more) -> subprocess.Popen:
    environment = {**world.environment(), "RARETOKENS_WARM": socket}
    return subprocess.Popen(["stages/run", *words], cwd=folder, env=environment, text=True, **more)


def test_a_stage_writes_says_and_exits_as_alone(folder):
    assert stage(folder, "1", "jobs").wait() == 0
    made = {path: path.read_bytes() for path in (folder / "data/jobs").rglob("*.json")}
    for path in made:
        path.unlink()
    assert stage(folder, "1", "jobs", socket="none").wait() == 0
    assert {path: path.read_bytes() for path in (folder / "data/jobs").rglob("*.json")} == made
    said = []
    for socket in (SOCKET, "none"):
        failed = stage(folder, "1", "own", "nothing", socket=socket, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        said.append((*failed.communicate(), failed.returncode))
    assert said[0] == said[1] and said[0][1].startswith("error: own.nothing") and said[0][2] == 1


def test_another_number_of_threads_is_a_process_of_its_own(folder):
    spent = folder / "data/scratch/timing/stages.csv"
    before = spent.read_text()
    assert stage(folder, "2", "jobs").wait() == 0
    assert spent.read_text() == before


def test_a_stage_goes_with_whoever_asked_for_it(warm):
    folder, server = warm
    fifo = folder / "texts/fifo"
    os.mkfifo(fifo)
    parameters = folder / "params.yaml"
    declared = parameters.read_text()
    parameters.write_text(declared.replace("own:\n", "own:\n  slow: texts/fifo\n"))
    asking = stage(folder, "1", "own", "slow")  # it waits for what nobody writes

    def running() -> list[psutil.Process]:
        return psutil.Process(server).children()

    wait(running)
    parameters.write_text(declared)
    asking.send_signal(signal.SIGKILL)
    wait(lambda: not running())
    assert stage(folder, "1", "jobs").wait() == 0  # others are served as before
    assert "\njobs," in (folder / "data/scratch/timing/stages.csv").read_text()
