"""What single objectives promise beyond the contract, and slips of public code that options bring back."""

import copy

import numpy as np
import pytest
import torch
from tiny.update import PAD, D, N, build, gradients, update


@pytest.fixture(autouse=True)
def exact():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def test_the_discriminator_of_frage_learns_and_the_table_deceives_it():
    objective = build("frage", {"lr": 1.0})
    weight = torch.randn(N, D, generator=torch.Generator().manual_seed(0)).requires_grad_()
    parameters = dict(objective.discriminator.named_parameters())
    before = float(objective.cross_entropy(weight, parameters).detach())
    for _ in range(50):
        objective.begin_update(torch.zeros(N, dtype=torch.int64))
        objective.end_update(weight)
    learnt = float(objective.cross_entropy(weight, parameters).detach())
    assert learnt < before - 0.05
    step = torch.autograd.grad(objective.penalty(weight), weight)[0]
    assert float(objective.cross_entropy((weight - 0.5 * step).detach(), parameters).detach()) > learnt


def test_steps_of_frages_discriminator_are_those_of_plain_descent():
    """Also where its step moves the table, as in the public code of translation."""
    for options in ({"steps": 3}, {"steps": 2, "moves_table": True}, {"steps": 2, "hidden": True, "balanced": False}):
        objective = build("frage", {"lr": 0.5, **options})
        weight = torch.nn.Parameter(torch.randn(N, D, generator=torch.Generator().manual_seed(0)))
        twin = copy.deepcopy(objective.discriminator)
        table = weight.detach().clone().requires_grad_(options.get("moves_table", False))
        descent = torch.optim.SGD([*twin.parameters(), table], lr=0.5)
        for _ in range(options["steps"]):
            descent.zero_grad()
            logits = twin(table).squeeze(1)
            of_popular = -torch.nn.functional.logsigmoid(logits)[objective.popular]
            of_rare = -torch.nn.functional.logsigmoid(-logits)[objective.rare]
            both = torch.cat((of_popular, of_rare)).mean()
            ((of_popular.mean() + of_rare.mean()) / 2 if objective.balanced else both).backward()
            descent.step()
        objective.begin_update(torch.zeros(N, dtype=torch.int64))
        objective.end_update(weight)
        torch.testing.assert_close(weight.detach(), table.detach(), atol=1e-12, rtol=1e-12)
        for ours, plain in zip(objective.discriminator.parameters(), twin.parameters(), strict=True):
            torch.testing.assert_close(ours, plain, atol=1e-12, rtol=1e-12)


def test_classes_weighted_by_the_other_s_share_are_frages_balanced_cross_entropy():
    """So the public code of language models needs no option: its two-class loss, weighted so, is the default."""
    objective = build("frage", {"popular_types": 7})
    weight = torch.randn(N, D, generator=torch.Generator().manual_seed(0))
    parameters = dict(objective.discriminator.named_parameters())
    logits, used = objective.discriminator(weight), objective.facts.used
    two_way = torch.cat((logits, torch.zeros_like(logits)), dim=1)[used]
    share = objective.rare.sum() / used.sum()
    expected = torch.nn.functional.cross_entropy(
        two_way, objective.rare[used].long(), weight=torch.stack((share, 1 - share)).double()
    )
    torch.testing.assert_close(objective.cross_entropy(weight, parameters), expected, atol=1e-7, rtol=0)


def test_unmasked_padding_reaches_the_states_alone():
    """The public code's slip: padded states learn to emit padding; neither the table nor the reported NLL shows it."""
    hidden, weight, targets, counts = update(3)
    padded = targets == PAD
    both = []
    for unmasked in (False, True):
        objective = build("agg", {"unmasked_pad": unmasked})
        objective.begin_update(counts)
        loss = objective.loss(hidden, weight, targets)
        both.append((*gradients(loss.loss, hidden, weight), loss.nll))
    (states, table, nll), (leaking_states, leaking_table, leaking_nll) = both
    assert torch.equal(table, leaking_table) and torch.equal(nll, leaking_nll)
    assert not states[padded].any() and leaking_states[padded].any(-1).all()
    assert torch.equal(states[~padded], leaking_states[~padded])


def test_aggs_window_is_that_of_the_paper_or_of_the_code():
    """The discrepancy shows: with the paper's window a type seen only in this update is still rare."""
    counts = torch.zeros(N, dtype=torch.int64)
    counts[10] = 5
    now, past = (build("agg", {"include_current": flag}) for flag in (True, False))
    for objective in (now, past):
        objective.begin_update(counts)
    assert not now.rare[10] and past.rare[10]


@pytest.mark.parametrize("scale", [1.0, 0.25])
def test_coupled_adam_divides_by_the_vocabulary_s_mean(scale):
    """Ten steps against a plain loop over the rule."""
    random = np.random.default_rng(0)
    table = torch.nn.Parameter(torch.from_numpy(random.normal(size=(7, 3))))
    other = torch.nn.Parameter(torch.from_numpy(random.normal(size=(2, 2))))
    expected, m, v = table.detach().numpy().copy(), np.zeros((7, 3)), np.zeros((7, 3))
    groups = [{"params": [table], "table": True}, {"params": [other], "table": False}]
    twin = torch.nn.Parameter(other.detach().clone())
    settings = {"lr": 0.01, "betas": (0.9, 0.98), "eps": 1e-8, "weight_decay": 0.1}
    optimizer = build("coupled_adam", {"average_scale": scale}).optimizer(groups, **settings)
    plain = torch.optim.AdamW([twin], **settings)
    for step in range(1, 11):
        gradient = random.normal(size=(7, 3))
        table.grad = torch.from_numpy(gradient)
        other.grad = torch.from_numpy(random.normal(size=(2, 2)))
        twin.grad = other.grad.clone()
        optimizer.step()
        plain.step()
        m, v = 0.9 * m + 0.1 * gradient, 0.98 * v + 0.02 * gradient**2
        mean = scale * v.mean(0) / (1 - 0.98**step)
        expected = expected * (1 - 0.01 * 0.1) - 0.01 * (m / (1 - 0.9**step)) / (np.sqrt(mean) + 1e-8)
    np.testing.assert_allclose(table.detach().numpy(), expected, atol=1e-12)
    torch.testing.assert_close(other, twin, atol=0, rtol=0)


def test_weight_decay_acts_on_the_table_alone():
    parameters = [torch.nn.Parameter(torch.ones(2, 2)) for _ in range(2)]
    groups = [{"params": [parameters[0]], "table": True}, {"params": [parameters[1]], "table": False}]
    optimizer = build("weight_decay", {}).optimizer(groups, lr=0.1, weight_decay=0.01)
    assert [group["weight_decay"] for group in optimizer.param_groups] == [0.2, 0.01]


def test_freeze_until_lets_go_after_that_update():
    objective = build("freeze", {"until": 3})
    held = []
    for _ in range(5):
        objective.begin_update(torch.zeros(N, dtype=torch.int64))
        held.append(objective.frozen_rows() is not None)
    assert held == [True, True, True, False, False]
