"""Stages as forks of a process that has their libraries: streams, status, signals, and what cannot be forked."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

WARM = Path(__file__).parents[1] / "stages" / "warm.py"
# A pipeline with one stage, which does what its first argument says.
PIPELINE = """
import os, sys, time

def main():
    from library import value
    try:
        print(sys.argv[1:], os.getcwd(), os.environ.get("ONE"), value, os.getpid(), flush=True)
        time.sleep(60 if sys.argv[1] == "sleep" else 0)
    except KeyboardInterrupt:
        sys.exit(130)
    if sys.argv[1] == "fail":
        print("error: failed", file=sys.stderr)
        sys.exit(3)

if __name__ == "__main__":
    main()
"""
LIBRARY = "value = 7\nwith open('imports.txt', 'a') as file: file.write('imported\\n')\n"


class World:
    def __init__(self, folder: Path, library: str = LIBRARY) -> None:
        self.folder = folder
        package = folder / "source" / "reproduction" / "pipeline"
        package.mkdir(parents=True)
        for one in (package.parent, package):
            (one / "__init__.py").touch()
        (package / "__main__.py").write_text(PIPELINE, encoding="utf-8")
        (folder / "source" / "library.py").write_text(library, encoding="utf-8")
        (folder / "warm").mkdir()

    def start(self, *stage: str, **variables: str) -> subprocess.Popen[str]:
        warm = {"PYTHONPATH": str(self.folder / "source"), "RARETOKENS_WARM": str(self.folder / "warm")}
        return subprocess.Popen([sys.executable, "-I", "-S", WARM, *stage], cwd=self.folder, text=True, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, env=os.environ | warm | variables, start_new_session=True)  # fmt: skip

    def run(self, *stage: str, **variables: str) -> tuple[int | None, str, str]:
        process = self.start(*stage, **variables)
        return process.wait(60), process.stdout.read(), process.stderr.read()

    @property
    def imports(self) -> int:
        return len((self.folder / "imports.txt").read_text(encoding="utf-8").splitlines())


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_libraries_are_imported_once_and_each_stage_is_a_process_of_its_own(world: World) -> None:
    said = [world.run("print", "a", CUDA_VISIBLE_DEVICES=str(number)) for number in range(4)]
    assert world.imports == 2  # of the first stage, then of the waiting process
    assert len({output.split()[-1] for _, output, _ in said}) == 4
    start = f"['print', 'a'] {world.folder} None 7 "
    assert all(status == 0 and output.startswith(start) and not error for status, output, error in said)


def test_status_and_streams_are_those_of_the_stage(world: World) -> None:
    for _ in range(2):
        status, output, error = world.run("fail", ONE="two")
        assert (status, error) == (3, "error: failed\n")
        assert output.startswith(f"['fail'] {world.folder} two 7 ")


def test_another_environment_has_another_process(world: World) -> None:
    for threads in ("1", "2", "1", "2"):
        assert world.run("print", OMP_NUM_THREADS=threads)[0] == 0
    assert world.imports == 4


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, -15), (signal.SIGKILL, -9)])
def test_a_stage_ends_with_its_client(world: World, number: int, status: int) -> None:
    client = world.start("sleep")
    stage = psutil.Process(int(client.stdout.readline().split()[-1]))
    client.send_signal(number)
    assert client.wait(10) == status
    assert psutil.wait_procs([stage], timeout=10)[1] == []


def test_a_process_with_threads_is_not_forked(tmp_path: Path) -> None:
    thread = "import threading, time\nthreading.Thread(target=time.sleep, args=(5,), daemon=True).start()\n"
    world = World(tmp_path, LIBRARY + thread)
    assert [world.run("print")[0] for _ in range(3)] == [0, 0, 0]
    assert world.imports == 4  # of the stages, and of the waiting process, which then forks no more


def test_without_the_folder_the_stage_runs_alone(world: World) -> None:
    status, output, error = world.run("print", RARETOKENS_WARM=str(world.folder / "absent"))
    assert status == 0 and output.startswith("['print']") and not error
