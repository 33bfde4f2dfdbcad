"""Speed of a run in the units that people compare."""

import pytest
import torch

from raretokens.planning.cards import peak_flops
from raretokens.training import speed
from raretokens.training.progress import clock, spoken


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
    assert peak_flops(card) == peak


def test_utilisation_is_the_share_of_all_cards_peak(monkeypatch):
    """GPT-2 medium, 2.386 GFLOP a token: eight A100 at 400,000 tokens a second are used to 38 %."""
    measured = speed.Speed(2.386e9, processes=8)
    measured.peak, measured.start, measured.tokens = peak_flops("NVIDIA A100-SXM4-80GB"), 100.0, 4_000_000
    monkeypatch.setattr(speed.time, "monotonic", lambda: 110.0)
    facts = measured.facts()
    assert facts["tokens_per_second"] == 400_000
    assert facts["model_flop_utilisation"] == pytest.approx(400_000 * 2.386e9 / (8 * 312e12), abs=1e-4)
    assert "400,000 tokens/s  MFU 38%  " in spoken(facts)
    measured.peak = None
    assert measured.facts()["model_flop_utilisation"] is None and "MFU" not in spoken(measured.facts())


@pytest.mark.skipif(torch.cuda.is_available(), reason="of a machine without a GPU")
def test_peak_memory_follows_what_is_allocated():
    before = speed.peak_memory()
    torch.ones(60_000_000)  # 240 MB
    assert 0.15e9 < speed.peak_memory() - before < 0.5e9


def test_the_time_left_is_said_in_hours_when_it_is_long():
    assert [clock(seconds) for seconds in (5, 65.9, 3599, 3600, 200_000)] == [
        "0:05",
        "1:05",
        "59:59",
        "1:00:00",
        "55:33:20",
    ]
