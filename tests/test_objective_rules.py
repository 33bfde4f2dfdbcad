"""What single objectives promise beyond the contract, and slips of public code that options bring back."""

import copy

import numpy as np
import pytest
import torch
from tiny.update import PAD, D, N, build, facts, gradients, update

from raretokens import Loop
from raretokens.errors import UserError
from raretokens.loss.objective import Objective
from raretokens.loss.terms import Head
from raretokens.metrics.frequency import popularity_accuracy
from raretokens.objectives import registry

pytestmark = pytest.mark.usefixtures("float64")
ADAM = {"lr": 0.01, "betas": (0.9, 0.98), "eps": 1e-8, "weight_decay": 0.1}


def table_and_another(seed: int):
    """A table, another parameter, its twin, and their groups; a function that gives the table a random gradient."""
    random = np.random.default_rng(seed)
    table, other = (torch.nn.Parameter(torch.from_numpy(random.normal(size=size))) for size in ((7, 3), (2, 2)))
    twin = torch.nn.Parameter(other.detach().clone())

    def draw() -> np.ndarray:
        gradient = random.normal(size=(7, 3))
        table.grad, other.grad = torch.from_numpy(gradient), torch.from_numpy(random.normal(size=(2, 2)))
        twin.grad = other.grad.clone()
        return gradient

    return table, other, twin, [{"params": [table], "embedding": True}, {"params": [other], "embedding": False}], draw


def test_the_discriminator_of_frage_learns_and_the_table_deceives_it():
    objective = build("frage", {"lr": 1.0})
    weight = torch.randn(N, D, generator=torch.Generator().manual_seed(0)).requires_grad_()
    parameters = dict(objective.discriminator.named_parameters())
    before = float(objective.cross_entropy(weight, parameters).detach())
    for _ in range(50):
        objective.begin_step(torch.zeros(N, dtype=torch.int64))
        objective.end_step(weight)
    learnt = float(objective.cross_entropy(weight, parameters).detach())
    assert learnt < before - 0.05
    step = torch.autograd.grad(objective.penalty(weight), weight)[0]
    assert float(objective.cross_entropy((weight - 0.5 * step).detach(), parameters).detach()) > learnt


def played(table: torch.Tensor, updates: int, **options) -> float:
    """Balanced accuracy of a discriminator that is trained anew, after a game that Adam plays without a task."""
    counts, table = torch.arange(len(table), 0, -1), torch.nn.Parameter(table.clone())
    known = facts(counts=counts, rare=counts < 60, types=len(table), pad=-100, width=table.shape[1])
    objective, adam = registry.build("frage", known, hidden=True, **options), torch.optim.Adam([table], lr=0.01)
    for _ in range(updates):
        objective.begin_step(torch.zeros(len(table), dtype=torch.int64))
        adam.zero_grad()
        objective.penalty(table).backward()
        adam.step()
        objective.end_step(table)
    groups = np.where(known.rare, 2, 0)
    return popularity_accuracy(table.detach().numpy(), counts.numpy(), groups)[0]["accuracy"]


def test_frage_hides_frequency_where_its_discriminator_keeps_up_and_shows_it_where_that_lags():
    torch.manual_seed(0)
    told = torch.randn(300, 8) * 0.3
    plain = told.clone()
    told[:60] += 0.5
    assert played(told, 0) > 95 and played(plain, 0) < 60
    assert played(told, 150, lr=1.0, steps=5) < 60
    assert played(plain, 30, strength=0.05, lr=0.05) > 75


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
            of_popular = -torch.nn.functional.logsigmoid(logits)[objective.popular_rows]
            of_rare = -torch.nn.functional.logsigmoid(-logits)[objective.rare_rows]
            both = torch.cat((of_popular, of_rare)).mean()
            (of_popular.mean() + of_rare.mean() if objective.balanced else both).backward()
            descent.step()
        objective.begin_step(torch.zeros(N, dtype=torch.int64))
        objective.end_step(weight)
        torch.testing.assert_close(weight.detach(), table.detach(), atol=1e-12, rtol=1e-12)
        for ours, plain in zip(objective.discriminator.parameters(), twin.parameters(), strict=True):
            torch.testing.assert_close(ours, plain, atol=1e-12, rtol=1e-12)


def test_classes_weighted_by_the_other_s_share_are_half_of_frages_cross_entropy():
    """So the public code of language models needs no option: its two-class loss, weighted so, is half of equation 2."""
    objective = build("frage", {"popular_types": 7})
    weight = torch.randn(N, D, generator=torch.Generator().manual_seed(0))
    parameters = dict(objective.discriminator.named_parameters())
    logits, used = objective.discriminator(weight), objective.facts.used
    two_way = torch.cat((logits, torch.zeros_like(logits)), dim=1)[used]
    share = len(objective.rare_rows) / used.sum()
    is_rare = torch.isin(objective.facts.used_ids, objective.rare_rows)
    weights = torch.stack((share, 1 - share)).double()
    expected = 2 * torch.nn.functional.cross_entropy(two_way, is_rare.long(), weight=weights)
    torch.testing.assert_close(objective.cross_entropy(weight, parameters), expected, atol=1e-7, rtol=0)


def test_spectrum_control_depends_on_the_shape_of_the_spectrum_alone():
    objective, weight = build("spectrum_control", {}), torch.randn(N, D, generator=torch.Generator().manual_seed(0))
    values = torch.linalg.svdvals(objective.rows(weight))
    prior = torch.arange(1, D + 1) ** -0.3
    expected = (values / values[0] - prior).square().mean()
    for scale in (0.01, 1.0, 100.0):
        torch.testing.assert_close(objective.penalty(scale * weight), expected)


def test_unmasked_padding_reaches_the_states_alone():
    """The public code's slip: padded states learn to emit padding; neither the table nor the reported NLL shows it."""
    hidden, weight, targets, counts = update(3)
    padded = targets == PAD
    both = []
    for unmasked in (False, True):
        objective = build("agg", {"unmasked_pad": unmasked})
        objective.begin_step(counts)
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
        objective.begin_step(counts)
    assert not now.rare[10] and past.rare[10]


@pytest.mark.parametrize("scale", [1.0, 0.25])
def test_coupled_adam_divides_by_the_vocabulary_s_mean(scale):
    """Ten steps against a plain loop over the rule."""
    table, other, twin, groups, draw = table_and_another(0)
    expected, m, v = table.detach().numpy().copy(), np.zeros((7, 3)), np.zeros((7, 3))
    optimizer = build("coupled_adam", {"average_scale": scale}).optimizer(groups, **ADAM)
    plain = torch.optim.AdamW([twin], **ADAM)
    for step in range(1, 11):
        gradient = draw()
        optimizer.step()
        plain.step()
        m, v = 0.9 * m + 0.1 * gradient, 0.98 * v + 0.02 * gradient**2
        mean = scale * v.mean(0) / (1 - 0.98**step)
        expected = expected * (1 - 0.01 * 0.1) - 0.01 * (m / (1 - 0.9**step)) / (np.sqrt(mean) + 1e-8)
    np.testing.assert_allclose(table.detach().numpy(), expected, atol=1e-12)
    torch.testing.assert_close(other, twin, atol=0, rtol=0)


@pytest.mark.parametrize("beta2", [0.999, 0.5])
def test_ember_divides_by_the_product_of_row_and_column(beta2):
    """Ten steps against a plain loop over the rule, which is exact where squared gradients are such a product."""
    table, other, twin, groups, draw = table_and_another(1)
    expected, r, c = table.detach().numpy().copy(), np.zeros(7), np.zeros(3)
    optimizer = build("ember", {"beta2": beta2}).optimizer(groups, **ADAM)
    plain = torch.optim.AdamW([twin], **ADAM)
    for step in range(1, 11):
        gradient = draw()
        gradient[5:] = 0.0  # rows without a gradient are no part of the columns' means
        optimizer.step()
        plain.step()
        for i in range(7):
            r[i] = beta2 * r[i] + (1 - beta2) * sum(gradient[i] ** 2) / 3
        for j in range(3):
            c[j] = beta2 * c[j] + (1 - beta2) * sum(gradient[:5, j] ** 2) / 5
        expected *= 1 - 0.01 * 0.1
        for i, j in np.ndindex(7, 3):
            v = r[i] * c[j] / r.mean() / (1 - beta2**step)
            expected[i, j] -= 0.01 * gradient[i, j] / (np.sqrt(v) + 1e-8)
    np.testing.assert_allclose(table.detach().numpy(), expected, atol=1e-12)
    torch.testing.assert_close(other, twin, atol=0, rtol=0)


@pytest.mark.parametrize("name", ["coupled_adam", "ember"])
def test_rules_of_the_table_resume_from_their_state_and_see_unscaled_gradients(name):
    both = [table_and_another(2), table_and_another(2)]
    kept, fresh = (build(name, {}).optimizer(groups, **ADAM) for _, _, _, groups, _ in both)
    for number in range(6):
        for *_, draw in both:
            draw()
        if number == 3:
            fresh.load_state_dict(copy.deepcopy(kept.state_dict()))
        kept.step()
        if number >= 3:
            fresh.step()
        else:
            for here, there in zip(both[1][:2], both[0][:2], strict=True):
                here.data.copy_(there.data)
    torch.testing.assert_close(both[0][0], both[1][0], atol=0, rtol=0)
    assert not kept._step_supports_amp_scaling  # GradScaler then takes its factor off before the step


def test_centring_an_output_table_of_its_own_changes_no_loss_under_plain_descent():
    """The softmax does not see a vector that is added to all rows."""
    losses = []
    for name in ("mle", "mu_centering"):
        objective, weight = build(name, {}), update(0)[1].detach().clone().requires_grad_()
        losses.append([])
        for seed in range(8):
            hidden, _, targets, counts = update(seed)
            objective.begin_step(counts)
            loss = objective.loss(hidden, weight, targets).loss / counts.sum()
            weight.data -= 0.5 * torch.autograd.grad(loss, weight)[0]
            objective.end_step(weight)
            losses[-1].append(float(loss.detach()))
    np.testing.assert_allclose(losses[0], losses[1], atol=1e-12, rtol=0)
    used = objective.facts.used
    assert weight[used].mean(0).abs().max() < 1e-12 < weight.mean(0).abs().max()  # padding and fillers do not count


class Everywhere(Objective):
    """Terms of hidden states and of rows that are looked up."""

    def hidden_term(self, hidden, targets):
        return 0.3 * hidden[targets != self.facts.pad].square().sum()

    def input_term(self, table, inputs):
        return sum(0.2 * table[ids[ids != self.facts.pad]].norm(dim=1).sum() for ids in inputs)


@pytest.mark.parametrize("untied", [False, True])
def test_terms_of_hidden_states_and_inputs_join_the_loss(untied):
    hidden, weight, targets, counts = update(3)
    table = torch.randn(N, D, requires_grad=True) if untied else weight
    inputs = targets.flip(1), targets[:, :4]
    objective, more = Everywhere(facts()), {"input_embedding": table} if untied else {}
    ours = objective.loss(hidden, weight, targets, inputs=inputs, **more)
    plain = build("mle", {}, label_smoothing=0.1).loss(hidden, weight, targets)
    expected = plain.loss
    for states, target in zip(hidden.reshape(-1, D), targets.reshape(-1), strict=True):
        expected = expected + 0.3 * (states @ states if target != PAD else 0.0)
    for one in torch.cat([ids.reshape(-1) for ids in inputs]).tolist():
        expected = expected + (0.2 * (table[one] @ table[one]).sqrt() if one != PAD else 0.0)
    for own, truth in zip(
        gradients(ours.loss, hidden, weight, table), gradients(expected, hidden, weight, table), strict=True
    ):
        torch.testing.assert_close(own, truth, atol=1e-12, rtol=1e-12)
    assert torch.equal(ours.nll, plain.nll)
    with torch.no_grad():
        assert torch.equal(objective.loss(hidden, weight, targets, inputs=inputs).loss, plain.loss)


@pytest.mark.parametrize("name", ["mle", "agg"])
def test_the_head_of_a_model_reaches_every_loss(name):
    """Soft-capped logits with a bias, also where padding trains the states (AGG's slip)."""
    hidden, weight, targets, counts = update(4)
    head = Head(torch.randn(N, requires_grad=True), 0.5, 2.0)
    objective = build(name, {"unmasked_pad": True} if name == "agg" else {}, label_smoothing=0.0)
    objective.begin_step(counts)
    ours = objective.loss(hidden, weight, targets, head=head)
    logits = 2.0 * torch.tanh(0.5 * (hidden @ weight.T + head.bias) / 2.0)
    real = targets != PAD
    nll = torch.nn.functional.cross_entropy(logits[real], targets[real], reduction="sum")
    states = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="sum")
    torch.testing.assert_close(ours.nll, nll.detach(), atol=1e-12, rtol=0)
    own_states, own_bias = gradients(ours.loss, hidden, head.bias)
    (expected_bias,) = torch.autograd.grad(nll, head.bias, retain_graph=True)  # padding never trains table or bias
    torch.testing.assert_close(own_bias, expected_bias, atol=1e-12, rtol=0)
    expected = gradients(nll if name == "mle" else states, hidden)[0]
    torch.testing.assert_close(own_states, expected, atol=1e-12, rtol=0)


def test_dispersion_opens_a_cone_and_ignores_sequences_without_pairs():
    """States that are nearly one direction, a sequence of one target, and one without targets."""
    objective, targets = build("dispersion", {}), torch.full((3, 8), PAD)
    targets[0], targets[1, 0] = 5, 5
    states = torch.ones(3, 8, D) + 1e-4 * torch.randn(3, 8, D, generator=torch.Generator().manual_seed(0))

    def cosine() -> float:
        unit = torch.nn.functional.normalize(states[0], dim=1)
        return float((unit @ unit.T).fill_diagonal_(0).sum() / 56)

    assert cosine() > 0.9999
    for _ in range(100):
        given = states.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(objective.hidden_term(given, targets), given)
        assert gradient.isfinite().all() and not gradient[1:].any()
        states = states - gradient / gradient.norm()
    assert cosine() < 0.1


@pytest.mark.parametrize("scale", [5.0, 0.5])
def test_a_tied_gradient_makes_the_steps_of_adam_with_scaled_look_ups(scale):
    """Weights equal those of maximum likelihood whose looked-up rows get their gradient times the factor."""
    ended = []
    for name, options, factor in [("tied_gradient", {"input_scale": scale}, 1.0), ("mle", {}, scale), ("mle", {}, 1.0)]:
        table = update(0)[1].detach().clone().requires_grad_()
        loop = Loop(build(name, options), table)
        optimizer = loop.optimizer([table], lr=0.01, eps=1e-20)
        for seed in range(6):
            targets = update(seed)[2]
            rows = table[targets.roll(1)]
            rows.register_hook(lambda gradient, factor=factor: gradient * factor)
            loop.begin([targets])
            loop.loss(rows.tanh(), targets).backward()
            loop.step(optimizer)
            optimizer.zero_grad()
        ended.append(table.detach())
    torch.testing.assert_close(ended[0], ended[1], atol=1e-9, rtol=0)
    assert (ended[0] - ended[2]).abs().max() > 1e-3


def test_weight_decay_acts_on_the_table_alone():
    parameters = [torch.nn.Parameter(torch.ones(2, 2)) for _ in range(2)]
    groups = [{"params": [parameters[0]], "embedding": True}, {"params": [parameters[1]], "embedding": False}]
    optimizer = build("weight_decay", {}).optimizer(groups, lr=0.1, weight_decay=0.01)
    assert [group["weight_decay"] for group in optimizer.param_groups] == [0.2, 0.01]


def test_freeze_until_lets_go_after_that_update():
    objective = build("freeze", {"until": 3})
    held = []
    for _ in range(5):
        objective.begin_step(torch.zeros(N, dtype=torch.int64))
        held.append(objective.frozen_rows() is not None)
    assert held == [True, True, True, False, False]


def test_groups_of_types_that_are_empty_are_told():
    with pytest.raises(UserError, match="^objective frage: 23 types are popular and 0 rare; both are needed$"):
        build("frage", {"popular_types": 30})
    assert build("agps", {"first_rare": 30}).remarks() == ["warning: none of the 23 types is rare: nothing is gated"]
    assert build("agps", {}).remarks() == []


def test_frages_game_begins_after_its_update_for_both_players():
    objective, weight = build("frage", {"start": 2}), torch.randn(N, D, requires_grad=True)
    moved = []
    for _ in range(4):
        before = copy.deepcopy(objective.discriminator.state_dict())
        objective.begin_step(torch.ones(N, dtype=torch.int64))
        plays = objective.penalty(weight) is not None
        objective.end_step(weight)
        after = objective.discriminator.state_dict()
        moved.append((plays, any(not torch.equal(before[key], after[key]) for key in before)))
    assert moved == [(False, False), (False, False), (True, True), (True, True)]


def test_frages_hidden_layer_is_one_and_a_half_times_as_wide_as_a_row():
    """FRAGE's public code."""
    assert [tuple(weight.shape) for weight in build("frage", {"hidden": True}).discriminator.parameters()] == [
        (3 * D // 2, D), (3 * D // 2,), (1, 3 * D // 2), (1,),
    ]  # fmt: skip


def test_reweighting_is_by_the_mean_of_types_that_occur():
    """omega is the mean count of the types that occur, over the type's own; a type that never occurs is not weighed."""
    objective = build("reweight", {}, counts=torch.tensor([2, 0, 4, 6, *[0] * (N - 4)]))
    assert objective.token_weight()[:4].tolist() == pytest.approx([2.0, 1.0, 1.0, 4 / 6])


def test_an_option_is_an_attribute_and_replaces_none():
    assert Objective(facts(), strength=2.0).strength == 2.0
    for taken in ("penalty", "has_begun"):
        with pytest.raises(ValueError, match=f"^option '{taken}' is the name of an attribute or method; allowed: any other"):
            Objective(facts(), **{taken: 1.0})
