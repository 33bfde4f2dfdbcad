"""Operations of every architecture against torch's own counter, and against printed sizes."""

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from reproduction.training.models.registry import build, flops_per_token
from tests.tiny import architectures


@pytest.mark.parametrize("architecture", architectures.EVERY)
def test_operations_are_those_that_torch_counts(architecture, monkeypatch):
    """Forward and backward of whole sequences, the softmax written out; torch counts attention causal or not alike, as we do.

    At its first position a recurrent layer has no state whose gradient is wanted: less than 2 % that torch does not count.
    """
    monkeypatch.setattr(torch.backends.mkldnn, "enabled", False)  # its recurrent layers are not counted
    vocabulary, block, rows = 40, 16, 3
    shape = architectures.shape(architecture)
    model = build(architecture, shape, vocabulary, block)
    is_recurrent = any(isinstance(part, nn.RNNBase) for part in model.modules())
    ids = torch.randint(4, vocabulary, (rows, block))
    with FlopCounterMode(display=False) as counter, torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        example = getattr(model, "example", None)
        hidden = model(*example(rows, block)) if example else model(*[ids] * architectures.sides(model))
        if "classes" in shape or example:
            scores = hidden  # of classes, or of sampled words
        elif hasattr(model, "nll"):
            scores = model.log_probabilities(hidden.hidden.flatten(0, 1))
        else:
            scores = (hidden[0] if isinstance(hidden, tuple) else hidden) @ model.embedding.T
        scores.sum().backward()
    counted = rows * block * flops_per_token(architecture, shape, vocabulary, block)
    assert counter.get_total_flops() == pytest.approx(counted, rel=0.02 if is_recurrent else 1e-6)


def test_a_printed_model_costs_six_operations_a_parameter_and_its_attention():
    """GPT-2 medium of the AGG paper: 24 layers of 1024, 44,256 types; 6 * 347 million and 12 * 24 * 1024 * 1024."""
    medium = architectures.shape("decoder", layers=24, width=1024, heads=16, feedforward=4096)
    assert flops_per_token("decoder", medium, 44256, 1024) == pytest.approx(6 * 347.3e6 + 302e6, rel=1e-3)
