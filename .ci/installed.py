"""Try an installed package: all public names, a training step with each objective, and `raretokens measure`.

python -I .ci/installed.py
"""

import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch

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


def measure(folder: Path) -> None:
    rows = np.random.default_rng(0).normal(0.3, 1, (300, WIDTH)).astype(np.float32)
    np.save(folder / "embedding.npy", rows)
    command = [sys.executable, "-m", "raretokens", "measure", "embedding.npy", "--sorted", "--out", "page"]
    printed = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout
    assert "I(W)" in printed and (folder / "page/index.html").exists(), printed


assert all(getattr(raretokens, name).__doc__ for name in raretokens.__all__)
names = list(raretokens.objectives())
for each in names:
    train_a_step(each)
with tempfile.TemporaryDirectory() as place:
    measure(Path(place))
print(f"raretokens {version('raretokens')}, Python {sys.version.split()[0]}, torch {torch.__version__}: "
      f"{len(raretokens.__all__)} public names, {len(names)} objectives, measure")  # fmt: skip
