"""Operations of a model against torch's own counter, and against printed sizes."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from raretokens.models.building import build, flops_per_token

SHAPE = {"layers": 2, "width": 32, "heads": 4, "feedforward": 64, "dropout": 0.0, "attention_dropout": 0.0,
         "activation": "relu"}  # fmt: skip


@pytest.mark.parametrize(("architecture", "inputs"), [("decoder", 1), ("encoder_decoder", 2)])
def test_operations_are_those_that_torch_counts(architecture, inputs):
    """Forward and backward of whole sequences, the softmax written out; torch counts attention causal or not alike, as we do."""
    vocabulary, block, rows = 40, 16, 3
    model = build(architecture, SHAPE, vocabulary, block)
    ids = torch.randint(4, vocabulary, (rows, block))
    with FlopCounterMode(display=False) as counter, torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        hidden = model(*[ids] * inputs)
        (hidden @ model.table.T).sum().backward()
    counted = flops_per_token(architecture, SHAPE, vocabulary, block)
    assert counter.get_total_flops() == pytest.approx(rows * block * counted)


def test_a_printed_model_costs_six_operations_a_parameter_and_its_attention():
    """GPT-2 medium of the AGG paper: 24 layers of 1024, 44,256 types; 6 * 347 million and 12 * 24 * 1024 * 1024."""
    medium = SHAPE | {"layers": 24, "width": 1024, "heads": 16, "feedforward": 4096}
    assert flops_per_token("decoder", medium, 44256, 1024) == pytest.approx(6 * 347.3e6 + 302e6, rel=1e-3)
