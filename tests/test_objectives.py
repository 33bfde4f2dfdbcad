"""The contract, on every file in objectives/ by itself: a new objective is tested here without a new test."""

import copy
import importlib

import numpy as np
import pytest
import torch

from raretokens import objectives
from raretokens.consistency import declared_options
from raretokens.consistency import objectives as names
from raretokens.training.gated_cross_entropy import gated_linear_cross_entropy
from raretokens.training.objective import Facts

N, D, S, T, PAD, SPECIALS = 26, 6, 3, 9, 1, 4
ALL = names()
# Options that switch an objective off; then it must be maximum likelihood to the last bit.
NEUTRAL = {"alpha": 0.0, "gamma": 0.0, "strength": 0.0, "alpha_ul": 0.0, "a": 0.0}
VARIANTS = [
    *((name, {}) for name in ALL),
    ("agg", {"g1": False}), ("agg", {"g2": False}), ("agg", {"static": True}), ("agg", {"include_current": False}),
    ("agg", {"static": True, "static_counts": False}), ("agg", {"static": True, "include_current": False}),
    ("agg", {"full_divisor": True}), ("agg", {"unmasked_pad": True}), ("ul_agg", {"flatten_batch": True}),
    ("adversarial", {"a": 0.3, "shared_direction": True}),
    ("frage", {"rare_only": True}), ("frage", {"balanced": False}), ("frage", {"popular_types": 7}), ("frage", {"start": 6}),
    ("agps", {"variant": "alg1"}), ("agps", {"first_rare": 18, "mu1": 40.0, "mu2": 15.0}),
    ("ul", {"flatten_batch": True}), ("weight_decay", {"form": "l2"}), ("frage", {"hidden": True}),
]  # fmt: skip


@pytest.fixture(autouse=True)
def exact():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def facts(**changes) -> Facts:
    counts = torch.arange(N, 0, -1) * 3
    settings = {"counts": counts, "rare": torch.arange(N) >= 19, "types": N - 2, "specials": SPECIALS, "pad": PAD,
                "updates_per_epoch": 4, "width": D, "label_smoothing": 0.1}  # fmt: skip
    return Facts(**{**settings, **changes})


def update(seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """hidden, weight, targets and their counts, of an update; targets fall in frequency and are padded at the end."""
    random = torch.Generator().manual_seed(seed)
    hidden, weight = torch.randn(S, T, D, generator=random), torch.randn(N, D, generator=random)
    targets = SPECIALS + (torch.rand(S, T, generator=random) ** 2 * (N - 2 - SPECIALS)).long()
    for row, length in enumerate((T, T - 2, T - 5)):
        targets[row, length:] = PAD
    counts = torch.bincount(targets[targets != PAD], minlength=N)
    return hidden.requires_grad_(), weight.requires_grad_(), targets, counts


def build(name: str, options: dict, **changes) -> objectives.Objective:
    torch.manual_seed(0)
    options = {"alpha": 0.6, **options} if "alpha" in declared_options(name) else options
    return objectives.build(name, facts(**changes), **options)


def whole(objective, hidden, weight, targets, counts) -> torch.Tensor:
    """The loss that the training loop minimises in an update, in one micro-batch."""
    objective.begin_update(counts)
    total = objective.loss(hidden, weight, targets).loss / counts.sum()
    penalty = objective.penalty(weight)
    return total if penalty is None else total + penalty


def gradients(loss, *inputs):
    return [g if g is not None else torch.zeros_like(x) for g, x in
            zip(torch.autograd.grad(loss, inputs, allow_unused=True), inputs, strict=True)]  # fmt: skip


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize(("name", "options"), VARIANTS)
def test_gradients_equal_the_reference(name, options, smoothing):
    """Over 11 updates, so that AGG's window fills, slides, and goes past an epoch."""
    try:
        reference = importlib.import_module(f"references.{name}")
    except ModuleNotFoundError:
        return  # a reference is asked of the project's own objectives only: the next test
    objective = build(name, options, label_smoothing=smoothing)
    settings = {**declared_options(name), **({"alpha": 0.6} if "alpha" in declared_options(name) else {}), **options}
    more = {"objective": objective} if name == "frage" else {}
    history = []
    for seed in range(11):
        hidden, weight, targets, counts = update(seed)
        history.append(counts)
        found = gradients(whole(objective, hidden, weight, targets, counts), hidden, weight)
        expected = gradients(
            reference.loss(objective.facts, settings, history, hidden, weight, targets, **more), hidden, weight
        )
        for ours, truth in zip(found, expected, strict=True):
            torch.testing.assert_close(ours, truth, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize(("name", "options"), [(name, options) for name, options in VARIANTS if options])
def test_every_option_changes_the_gradient(name, options):
    """What papers and public code do differently shows: in some of 11 updates the gradients are not the default's."""
    both, changed = (build(name, {}), build(name, options)), False
    for seed in range(11):
        hidden, weight, targets, counts = update(seed)
        default, other = (gradients(whole(o, hidden, weight, targets, counts), hidden, weight) for o in both)
        changed |= any((ours - theirs).abs().max() > 1e-6 for ours, theirs in zip(default, other, strict=True))
    assert changed


def test_the_project_s_objectives_have_references():
    shipped = {"mle", "freeze", "freeze_b", "freeze_c", "freeze_bc", "agg", "agps", "cosreg", "frage", "ul", "ul_agg",
               "adversarial", "spectrum_control", "reweight", "weight_decay", "coupled_adam"}  # fmt: skip
    assert shipped <= set(ALL)
    for name in shipped:
        importlib.import_module(f"references.{name}")


@pytest.mark.parametrize("name", ALL)
def test_switched_off_it_is_maximum_likelihood(name):
    options = {key: value for key, value in NEUTRAL.items() if key in declared_options(name)}
    objective = objectives.build(name, facts(rare=torch.zeros(N, dtype=torch.bool)), **options)
    if not options and name not in ("mle", "freeze", "freeze_b", "freeze_c", "freeze_bc", "agps"):
        return  # reweight, weight_decay and coupled_adam have no neutral setting
    for seed in range(3):
        hidden, weight, targets, counts = update(seed)
        found = gradients(whole(objective, hidden, weight, targets, counts), hidden, weight)
        mle = gradients(whole(build("mle", {}), hidden, weight, targets, counts), hidden, weight)
        for ours, plain in zip(found, mle, strict=True):
            torch.testing.assert_close(ours, plain, atol=1e-15, rtol=0)


@pytest.mark.parametrize("name", ALL)
def test_micro_batches_add_up(name):
    hidden, weight, targets, counts = update(5)
    together, apart = build(name, {}), build(name, {})
    for objective in (together, apart):
        for seed in range(3):
            objective.begin_update(update(seed)[3])
        objective.begin_update(counts)
    one = gradients(together.loss(hidden, weight, targets).loss, hidden, weight)
    parts = [apart.loss(hidden[i : i + 1], weight, targets[i : i + 1]).loss for i in range(S)]
    for ours, sum_of_parts in zip(one, gradients(sum(parts), hidden, weight), strict=True):
        torch.testing.assert_close(ours, sum_of_parts, atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize("name", ALL)
def test_nothing_leaks_between_the_sequences_of_a_batch(name):
    """Another first sequence changes no gradient of the second one's states, given the same counts of the update."""
    hidden, weight, targets, counts = update(5)
    objective = build(name, {})
    objective.begin_update(counts)
    before = gradients(objective.loss(hidden, weight, targets).loss, hidden)[0]
    other = targets.clone()
    other[0] = targets[0].flip(0)
    after = gradients(objective.loss(hidden, weight, other).loss, hidden)[0]
    assert (before[0] != after[0]).any()
    torch.testing.assert_close(before[1:], after[1:], atol=0, rtol=0)


@pytest.mark.parametrize("name", ALL)
def test_state_survives_state_dict(name, tmp_path):
    """A fresh objective with the saved state goes on as the one that was saved; the state can be stored safely."""
    kept = build(name, {})
    for seed in range(6):
        hidden, weight, targets, counts = update(seed)
        whole(kept, hidden, weight, targets, counts)
        kept.end_update(weight)
    torch.save(kept.state_dict(), tmp_path / "state.pt")
    torch.manual_seed(99)
    fresh = objectives.build(name, facts(), **({"alpha": 0.6} if "alpha" in declared_options(name) else {}))
    fresh.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    for seed in range(6, 12):
        hidden, weight, targets, counts = update(seed)
        both = [gradients(whole(o, hidden, weight, targets, counts), hidden, weight) for o in (kept, fresh)]
        for ours, restored in zip(*both, strict=True):
            torch.testing.assert_close(ours, restored, atol=0, rtol=0)
        for objective in (kept, fresh):
            objective.end_update(weight)


@pytest.mark.parametrize("name", ALL)
def test_validation_is_plain_likelihood_and_changes_no_state(name):
    objective = build(name, {})
    hidden, weight, targets, counts = update(1)
    objective.begin_update(counts)
    before = {key: repr(value) for key, value in objective.state_dict().items()}
    with torch.no_grad():
        found = objective.loss(hidden, weight, targets)
    expected = gated_linear_cross_entropy(hidden.detach(), weight.detach(), targets, ignore_index=PAD)
    assert float(found.nll) == pytest.approx(float(expected.nll), abs=1e-12)
    assert {key: repr(value) for key, value in objective.state_dict().items()} == before


@pytest.mark.parametrize("name", ALL)
def test_it_works_in_bfloat16(name):
    """Under autocast the gradients stay finite and near those of float32."""
    torch.set_default_dtype(torch.float32)
    hidden, weight, targets, counts = update(2)
    found = []
    for enabled in (False, True):
        objective = build(name, {})
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
            found.append(gradients(whole(objective, hidden, weight, targets, counts), hidden, weight))
    for full, low in zip(*found, strict=True):
        assert (full - low).norm() <= 0.03 * full.norm() + 1e-6


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
    found = []
    for unmasked in (False, True):
        objective = build("agg", {"unmasked_pad": unmasked})
        objective.begin_update(counts)
        loss = objective.loss(hidden, weight, targets)
        found.append((*gradients(loss.loss, hidden, weight), loss.nll))
    (states, table, nll), (leaking_states, leaking_table, leaking_nll) = found
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


def test_coupled_adam_divides_by_the_vocabulary_s_mean():
    """Ten steps against a plain loop over the rule."""
    random = np.random.default_rng(0)
    table = torch.nn.Parameter(torch.from_numpy(random.normal(size=(7, 3))))
    other = torch.nn.Parameter(torch.from_numpy(random.normal(size=(2, 2))))
    expected, m, v = table.detach().numpy().copy(), np.zeros((7, 3)), np.zeros((7, 3))
    groups = [{"params": [table], "table": True}, {"params": [other], "table": False}]
    twin = torch.nn.Parameter(other.detach().clone())
    settings = {"lr": 0.01, "betas": (0.9, 0.98), "eps": 1e-8, "weight_decay": 0.1}
    optimizer, plain = build("coupled_adam", {}).optimizer(groups, **settings), torch.optim.AdamW([twin], **settings)
    for step in range(1, 11):
        gradient = random.normal(size=(7, 3))
        table.grad = torch.from_numpy(gradient)
        other.grad = torch.from_numpy(random.normal(size=(2, 2)))
        twin.grad = other.grad.clone()
        optimizer.step()
        plain.step()
        m, v = 0.9 * m + 0.1 * gradient, 0.98 * v + 0.02 * gradient**2
        mean = v.mean(0) / (1 - 0.98**step)
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
