"""Try an installed package: all public names, a training step with each objective, and what each installed extra adds.

python -I .ci/installed.py [EXTRA ...]     # without an extra: that commands which need one name the packages to install
"""

import json
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import save_file

import raretokens
from raretokens import Loop, build, facts

TYPES, WIDTH = 60, 8


def train_a_step(name: str) -> None:
    embedding = torch.nn.Parameter(torch.randn(TYPES, WIDTH))
    counts = torch.arange(TYPES, 0, -1)
    loop = Loop(build(name, facts(counts, width=WIDTH, steps_per_epoch=4)), embedding)
    optimizer = loop.optimizer([embedding], lr=0.1)
    targets = torch.randint(TYPES, (1, 4, 6))  # micro-batches x sequences x positions
    loop.begin(targets)
    loop.loss(torch.randn(4, 6, WIDTH, requires_grad=True), targets[0]).backward()
    loop.step(optimizer)
    assert torch.isfinite(embedding).all(), name


def run(folder: Path, *words: str) -> str:
    """The output of a command of raretokens; of one that fails, its error."""
    command = [sys.executable, "-I", "-m", "raretokens", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert "Traceback" not in done.stderr, done.stderr
    return done.stderr if done.returncode else done.stdout


def measure(folder: Path) -> None:
    rows = np.random.default_rng(0).normal(0.3, 1, (300, WIDTH)).astype(np.float32)
    save_file({"model.embed_tokens.weight": rows}, folder / "model.safetensors")
    assert "\n  I(W) " in (printed := run(folder, "measure", "model.safetensors", "--sorted")), printed


def measure_with_page(folder: Path, installed: bool) -> None:
    printed = run(folder, "measure", "model.safetensors", "--sorted", "--out", "page")
    assert (folder / "page/index.html").exists() or not installed and "pip install" in printed, printed


def judge(folder: Path, installed: bool) -> None:
    claim = {"statement": "a is better", "metric": "accuracy", "left": "a", "right": "b", "effect": "difference"}
    (folder / "claims.yaml").write_text(json.dumps({"better": {**claim, "expect": "higher"}}))
    scores = {"a": [1, 1, 0, 1, 1, 1] * 5, "b": [0, 0, 1, 0, 1, 0] * 5}
    runs = [{"system": name, "metrics": {"accuracy": items}} for name, items in scores.items()]
    (folder / "scores.json").write_text(json.dumps(runs))
    printed = run(folder, "claims", "claims.yaml", "scores.json", "--csv")
    assert "reproduced" in printed or not installed and "pip install" in printed, printed
    for name, items in scores.items():  # two systems, without a file of claims
        (folder / f"{name}.csv").write_text("\n".join(["id,accuracy", *(f"{row},{item}" for row, item in enumerate(items))]))
    printed = run(folder, "claims", "a.csv", "b.csv", "--csv")
    assert "B is lower" in printed or not installed and "pip install" in printed, printed


def import_trainer(_: Path, installed: bool) -> None:
    code = "from raretokens.transformers import ObjectiveTrainer"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True)
    assert done.returncode == 0 or not installed and "transformers" in done.stderr, done.stderr


EXTRAS = {"measure": measure_with_page, "claims": judge, "transformers": import_trainer}

assert all(getattr(raretokens, name).__doc__ for name in raretokens.__all__)
names = list(raretokens.objectives())
for each in names:
    train_a_step(each)
with tempfile.TemporaryDirectory() as place:
    measure(Path(place))
    for extra, attempt in EXTRAS.items():
        attempt(Path(place), extra in sys.argv[1:])
versions = f"raretokens {version('raretokens')}, Python {sys.version.split()[0]}, torch {torch.__version__}"
tried = f"{len(raretokens.__all__)} public names, {len(names)} objectives, measure"
print(f"{versions}: {tried}; extras: {', '.join(sys.argv[1:]) or 'none'}")
