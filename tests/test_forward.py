"""What a forward pass keeps, followed without numbers, is what torch keeps and what a process takes, of any architecture."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from raretokens.models.registry import build
from raretokens.planning import forward
from tests.tiny import architectures

ROOT = Path(__file__).parents[1]
ROWS, POSITIONS, SEQUENCES = 40, 16, 6
HALF_LSTM = torch.ops.mkldnn._is_mkldnn_bf16_supported()  # without avx512 oneDNN has no LSTM in bfloat16


def sides(architecture: str) -> int:
    model = build(architecture, architectures.shape(architecture), ROWS, POSITIONS)
    return architectures.sides(model)


def followed(
    architecture: str, shape: dict, is_half: bool = False, device: str = "cpu", positions: int = POSITIONS
) -> forward.Forward:
    return forward.follow(architecture, json.dumps(shape), ROWS, positions, sides(architecture), is_half, device)


@pytest.mark.parametrize("is_half", [False, True])
@pytest.mark.parametrize("dropout", [0.0, 0.1])
@pytest.mark.parametrize("architecture", architectures.EVERY)
def test_it_is_what_a_pass_with_numbers_keeps(architecture, dropout, is_half):
    shape = architectures.shape(architecture, dropout=dropout, attention_dropout=dropout)
    model = build(architecture, shape, ROWS, POSITIONS)
    with forward.kernels("cpu", is_half):
        kept = forward.kept(model, SEQUENCES, POSITIONS, sides(architecture), is_half)
    told = followed(architecture, shape, is_half)
    assert told.once + SEQUENCES * told.sequence == kept
    assert told.parameters == sum(parameter.numel() for parameter in model.parameters())
    assert told.width == shape["width"]


def test_it_is_the_memory_that_a_process_takes():
    """Resident memory of a CPU with its own kernels, those of oneDNN among them; of all that is planned, to 15 %."""
    transformer = {"layers": 3, "width": 128, "feedforward": 512, "dropout": 0.1}
    cases = [
        (
            architecture,
            architectures.shape(architecture, **shape),
            rows,
            positions,
            sides(architecture),
            is_half,
            sequences,
        )
        for architecture, shape, rows, positions, sequences in (
            ("decoder", transformer | {"attention_dropout": 0.1}, 500, 64, 64),
            ("encoder_decoder", transformer, 500, 64, 32),
            (architectures.RECURRENT, {"layers": 2, "width": 256, "dropout": 0.1}, 500, 64, 64),
        )
        for is_half in (False, True)
        if not is_half or architecture != architectures.RECURRENT or HALF_LSTM
    ]
    # Every block is given back at once: what an earlier pass left behind would hide what a pass takes.
    environment = os.environ | {"MALLOC_MMAP_THRESHOLD_": "65536", "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    command = [sys.executable, "-m", "tests.tiny.kept_memory", json.dumps(cases)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    for (architecture, shape, rows, positions, number, is_half, sequences), taken in zip(
        cases, json.loads(done.stdout), strict=True
    ):
        told = forward.follow(architecture, json.dumps(shape), rows, positions, number, is_half, "cpu")
        assert told.once + sequences * told.sequence == pytest.approx(taken, rel=0.15), (architecture, is_half)


@pytest.mark.parametrize("architecture", ["decoder", "encoder_decoder"])
def test_a_gpu_keeps_no_scores_and_masks_of_one_byte(architecture):
    """Attention then grows with the positions and not with their square."""
    shape = architectures.shape(architecture, dropout=0.1, attention_dropout=0.1)
    short, long = (
        followed(architecture, shape, device="cuda", positions=positions).sequence for positions in (64, 256)
    )
    assert long == pytest.approx(4 * short, rel=0.01)
    short, long = (followed(architecture, shape, positions=positions).sequence for positions in (64, 256))
    assert long > 6 * short
    plain = followed(architecture, architectures.shape(architecture), device="cuda", positions=64).sequence
    masks = {"decoder": 1 + 2 * 2, "encoder_decoder": 2 + 2 * 2 + 3 * 2}[architecture]  # at the ends, and in two layers
    told = followed(architecture, shape, device="cuda", positions=64).sequence
    assert told - plain == masks * 64 * shape["width"]


def test_a_large_model_takes_no_memory_and_leaves_nothing_changed():
    medium = architectures.shape("decoder", layers=24, width=1024, heads=16, feedforward=4096, dropout=0.1)
    before, dropout, lstm = torch.random.get_rng_state(), nn.functional.dropout, torch._VF.lstm
    told = forward.follow("decoder", json.dumps(medium), 44_256, 512, 1, True, "cuda")
    assert told.once == 2 * 24 * (4 * 1024**2 + 2 * 1024 * 4096)  # matrices of the layers in bfloat16
    assert torch.equal(before, torch.random.get_rng_state()) and torch.backends.mkldnn.enabled
    assert nn.functional.dropout is dropout and torch._VF.lstm is lstm


def test_a_pass_that_reads_its_numbers_is_not_known(monkeypatch):
    class Reading(nn.Module):
        def __init__(self, vocabulary: int, positions: int) -> None:
            super().__init__()
            self.table = nn.Parameter(torch.empty(vocabulary, 8))

        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            return nn.functional.embedding(inputs, self.table) * int(inputs.max())

    monkeypatch.setitem(sys.modules, "raretokens.models.reading", SimpleNamespace(MODEL=Reading))
    told = forward.follow("reading", "{}", ROWS, POSITIONS, 1, False, "cpu")
    assert (told.parameters, told.width) == (ROWS * 8, 8) and math.isnan(told.once) and math.isnan(told.sequence)
