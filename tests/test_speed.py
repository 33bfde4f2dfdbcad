"""Speed of a run in the units that people compare."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from reproduction.pipeline import monitor
from reproduction.pipeline.monitor import clock, speed_text
from reproduction.pipeline.settings import find_card
from reproduction.pipeline.surroundings import revision

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    ("card", "peak"),
    [
        ("NVIDIA H100 80GB HBM3", 989.5e12),
        ("NVIDIA H100 PCIe", 756e12),
        ("NVIDIA A100-SXM4-40GB", 312e12),
        ("NVIDIA RTX A6000", 154.8e12),
        ("NVIDIA GeForce RTX 4090", 165.2e12),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", None),
        ("NVIDIA RTX 6000 Ada Generation", None),
        ("", None),
    ],
)
def test_the_peak_of_a_card_is_that_of_its_data_sheet_or_unknown(card, peak):
    found = find_card(card)
    assert (found and found.flops) == peak


def test_utilisation_is_the_share_of_all_cards_peak(monkeypatch):
    """GPT-2 medium, 2.386 GFLOP a token: eight A100 at 400,000 tokens a second are used to 38 %."""
    measured = monitor.Speed(2.386e9, processes=8)
    measured.peak, measured.start, measured.tokens = find_card("NVIDIA A100-SXM4-80GB").flops, 100.0, 4_000_000
    monkeypatch.setattr(monitor.time, "monotonic", lambda: 110.0)
    facts = measured.facts()
    assert facts["tokens_per_second"] == 400_000
    assert facts["model_flop_utilisation"] == pytest.approx(400_000 * 2.386e9 / (8 * 312e12), abs=1e-4)
    assert "400,000 tokens/s  MFU 38%  " in speed_text(facts)
    measured.peak = None
    assert measured.facts()["model_flop_utilisation"] is None and "MFU" not in speed_text(measured.facts())


def test_peak_memory_follows_what_is_allocated():
    """In a process of its own: a peak that an earlier test left behind would hide this one."""
    script = """
import torch
from reproduction.pipeline import monitor
torch.cuda.is_available = lambda: False
before = monitor.peak_memory()
torch.ones(60_000_000)
print(monitor.peak_memory() - before)
"""
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert 0.2e9 < int(done.stdout) < 0.5e9  # 240 MB


def test_a_run_names_the_commit_of_its_code(tmp_path, monkeypatch):
    """Reports that are being made anew do not make it dirty, code and parameters do."""
    monkeypatch.chdir(tmp_path)
    assert revision() is None
    for name in ("src/code.py", "reports/index.md", "params.yaml"):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text("old")
    git = ["git", "-c", "user.name=n", "-c", "user.email=n@example.org"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run([*git, *command], check=True)
    Path("reports/index.md").unlink()
    clean = revision()
    assert re.fullmatch(r"[0-9a-f]{7,}", clean)
    Path("params.yaml").write_text("new")
    assert revision() == f"{clean}-dirty"


def test_the_time_left_is_said_in_hours_when_it_is_long():
    assert [clock(seconds) for seconds in (5, 65.9, 3599, 3600, 200_000)] == [
        "0:05",
        "1:05",
        "59:59",
        "1:00:00",
        "55:33:20",
    ]
