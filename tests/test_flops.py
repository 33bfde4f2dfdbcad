"""Operations of a model against torch's own counter, and against printed sizes."""

import pytest
import torch
from raretokens.models.flops import flops_per_token
from torch.utils.flop_counter import FlopCounterMode

from raretokens.config import Shape
from raretokens.models.building import build

SHAPE = {"layers": 2, "width": 32, "heads": 4, "feedforward": 64, "dropout": 0.0, "attention_dropout": 0.0}


@pytest.mark.parametrize("task", ["lm", "nmt"])
def test_operations_are_those_that_torch_counts(task):
    """Forward and backward of whole sequences, the softmax written out; torch counts attention causal or not alike, as we do."""
    size, vocabulary, block, rows = Shape(activation="relu", **SHAPE), 40, 16, 3
    model = build(task, size, vocabulary, block)
    ids = torch.randint(4, vocabulary, (rows, block))
    with FlopCounterMode(display=False) as counter, torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        hidden = model(*(ids for _ in range({"lm": 1, "nmt": 2}[task])))
        (hidden @ model.table.T).sum().backward()
    assert counter.get_total_flops() == pytest.approx(rows * block * flops_per_token(task, size, vocabulary, block))


def test_a_printed_model_costs_six_operations_a_parameter_and_its_attention():
    """GPT-2 medium of the AGG paper: 24 layers of 1024, 44,256 types; 6 * 347 million and 12 * 24 * 1024 * 1024."""
    size = Shape(
        layers=24, width=1024, heads=16, feedforward=4096, dropout=0.1, attention_dropout=0.1, activation="gelu"
    )
    assert flops_per_token("lm", size, 44256, 1024) == pytest.approx(6 * 347.3e6 + 302e6, rel=1e-3)
