"""Objectives with a loss of their own: the example's formula, the hooks that act with it, and what is refused."""

import pytest
import torch
from test_public import example
from tiny.update import PAD, facts, gradients, update
from torch.nn.functional import cross_entropy

from raretokens import Head, LogitsObjective
from raretokens.loss import logits_objective

pytestmark = pytest.mark.usefixtures("float64")
HEAD = Head(torch.randn(26, dtype=torch.float64, generator=torch.Generator().manual_seed(3)), 0.5, 1.5)


@pytest.mark.parametrize("chunk", [2, 1024])
@pytest.mark.parametrize("head", [Head(), HEAD])
def test_the_example_is_focal_loss_with_its_gradients(chunk, head, monkeypatch):
    monkeypatch.setattr(logits_objective, "CHUNK", chunk)
    hidden, weight, targets, _ = update(2)
    ours = example("focal").Objective(facts(label_smoothing=0.0), gamma=2.0).loss(hidden, weight, targets, head=head)
    logits = head.scale * (hidden @ weight.T + (0 if head.bias is None else head.bias))
    logits = logits if head.softcap is None else head.softcap * torch.tanh(logits / head.softcap)
    p = logits.softmax(-1).gather(-1, targets[..., None]).squeeze(-1)[targets != PAD]
    formula = (-((1 - p) ** 2) * p.log()).sum()
    torch.testing.assert_close(ours.loss, formula)
    torch.testing.assert_close(ours.nll, -p.log().sum().detach())
    for own, expected in zip(gradients(ours.loss, hidden, weight), gradients(formula, hidden, weight), strict=True):
        torch.testing.assert_close(own, expected)


def test_terms_of_states_and_looked_up_rows_are_added():
    class Objective(LogitsObjective):
        def position_losses(self, logits, targets):
            return cross_entropy(logits, targets, reduction="none")

        def hidden_term(self, hidden, targets):
            return hidden.square().sum()

        def input_term(self, embedding, inputs):
            return embedding[inputs[0]].sum()

    hidden, weight, targets, _ = update(2)
    own = Objective(facts()).loss(hidden, weight, targets, inputs=[targets], input_embedding=2 * weight)
    torch.testing.assert_close(own.loss, own.nll + hidden.square().sum() + 2 * weight[targets].sum())


def test_a_batch_without_targets_has_loss_zero_and_a_sum_is_refused():
    class Objective(LogitsObjective):
        def position_losses(self, logits, targets):
            return cross_entropy(logits, targets)

    hidden, weight, targets, _ = update(2)
    empty = example("focal").Objective(facts(), gamma=2.0).loss(hidden, weight, torch.full_like(targets, PAD))
    assert float(empty.loss.detach()) == 0 and not gradients(empty.loss, weight)[0].any()
    with pytest.raises(ValueError, match=r"position_losses returned shape \(\); expected one loss for each of 20 positions"):
        Objective(facts()).loss(hidden, weight, targets)
