"""The benchmark of a card runs on an image without this project's packages, and one missing package costs no other row."""

import csv
import os
import subprocess
import sys
from pathlib import Path

import pytest

from raretokens.objectives.registry import known

ROOT = Path(__file__).parents[1]
TORCH = {
    "torch", "torchgen", "functorch", "numpy", "sympy", "mpmath", "filelock", "typing_extensions", "jinja2", "markupsafe",
    "networkx", "fsspec", "triton", "packaging",
}  # fmt: skip
IMAGE = TORCH | {"accelerate", "safetensors", "psutil", "yaml", "_yaml"}
# Python runs this module at its start, in every process that card.py starts.
BARE = """
import socket, sys
from importlib.machinery import PathFinder

class Bare:
    find_distributions = PathFinder.find_distributions

    @staticmethod
    def find_spec(name, path=None, target=None):
        if path is None and name not in {allowed!r}:
            path = [folder for folder in sys.path if "site-packages" not in folder]
        return PathFinder.find_spec(name, path, target)

sys.meta_path[:] = [Bare if finder is PathFinder else finder for finder in sys.meta_path if "editable" not in str(finder)]

connect = socket.socket.connect

def refuse(self, address):
    if self.family != socket.AF_UNIX:  # by which processes of this machine pass tensors
        raise OSError("no network")
    return connect(self, address)

socket.socket.connect = refuse
"""


def measured(folder: Path, allowed: set[str], *options: str) -> list[dict]:
    """Rows of a tiny run on the CPU in which no other package of site-packages can be imported."""
    (folder / "sitecustomize.py").write_text(BARE.format(allowed=allowed))
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    command = [sys.executable, str(ROOT / "benchmarks/card.py"), "all", "out", "--device", "cpu", "--tiny"]
    done = subprocess.run(
        [*command, "--rounds", "1", "--seconds", "3000", *options],
        cwd=folder, env=environment | {"PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1"}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    with open(folder / "out/card-cpu.csv", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def of(rows: list[dict], part: str) -> list[dict]:
    return [row for row in rows if row["part"] == part and row["case"]]


def test_every_part_runs_without_pydantic_ctranslate2_and_network(tmp_path):
    rows = measured(tmp_path, IMAGE)
    errors = {
        (row["part"], row["case"].split()[-1], row["note"].split(": ")[-1])
        for row in rows
        if row["quantity"] == "error"
    }
    assert errors == {
        ("loss", "liger", "liger_kernel is not installed"),
        ("loss", "cce", "cut_cross_entropy is not installed"),
        ("decoding", "float32", "No module named 'transformers'"),
    }
    assert {row["part"] for row in rows if row["quantity"] == "part took"} == {
        "ceilings", "correctness", "profile", "synchronisations", "attention", "save", "loss", "decoding", "steps", "resume"
    }  # fmt: skip
    assert {row["case"].split()[0] for row in of(rows, "correctness")} == {*known()}
    assert all(row["note"].endswith("right: yes") for row in of(rows, "correctness"))
    waits = {row["case"]: int(row["value"]) for row in of(rows, "synchronisations")}
    assert {*waits} == {*known()} and waits["mle"] <= waits["agg"]
    calls = {row["case"]: row["note"] for row in of(rows, "attention") if row["quantity"] == "kernels"}
    assert len(calls) == 2 and all(note.startswith("right: yes") for note in calls.values())
    assert {"without a mask"} <= {row["note"] for row in of(rows, "attention")}
    assert all(float(row["value"]) == 0 for row in of(rows, "resume")) and len(of(rows, "resume")) == 2
    assert any("aten::" in row["case"] for row in of(rows, "profile"))
    assert all(row["value"] for part in ("ceilings", "save", "steps") for row in of(rows, part))


def test_a_part_that_cannot_start_is_a_row_and_the_next_one_runs(tmp_path):
    rows = measured(tmp_path, TORCH, "--parts", "save,ceilings")
    (failed,) = of(rows, "save")
    assert failed["quantity"] == "error" and failed["note"] == "ModuleNotFoundError: No module named 'accelerate'"
    assert {"product float32", "product bfloat16", "copy"} <= {row["case"] for row in of(rows, "ceilings")}


def test_recorded_model_configs_are_those_of_the_scales(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    from workload import RECORDED, Workload

    for name in RECORDED:
        recorded, declared = Workload.recorded(name).record(), Workload.named(name).record()
        if name.startswith("demo"):  # counted on the text where it is encoded
            recorded.pop("vocabulary"), declared.pop("vocabulary")
        assert recorded == declared, f"{name}: python benchmarks/workload.py writes it anew"


@pytest.mark.parametrize("parts", ["loss,lost"])
def test_an_unknown_part_is_named(parts, tmp_path):
    command = [sys.executable, str(ROOT / "benchmarks/card.py"), "1", str(tmp_path), "--parts", parts]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2 and "--parts: 'lost' is unknown; allowed: ceilings, " in done.stderr
