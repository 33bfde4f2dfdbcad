"""The contract, on every file in objectives/ by itself: a new objective is tested here without a new test."""

import importlib
from types import ModuleType

import pytest
import torch
from tiny.update import PAD, N, build, facts, gradients, settings, update, whole

import raretokens
from raretokens.errors import UserError
from raretokens.loss.facts import Facts
from raretokens.loss.gated_cross_entropy import gated_linear_cross_entropy
from raretokens.loss.terms import PLAIN, Head
from raretokens.objectives import registry
from raretokens.objectives.registry import declared, known

pytestmark = pytest.mark.usefixtures("float64")
ALL = list(known())
# Options that switch an objective off; then it must be maximum likelihood to the last bit.
NEUTRAL = {"alpha": 0.0, "gamma": 0.0, "strength": 0.0, "alpha_ul": 0.0, "a": 0.0, "input_scale": 1.0}
VARIANTS = [
    *((name, {}) for name in ALL),
    ("agg", {"g1": False}), ("agg", {"g2": False}), ("agg", {"static": True}), ("agg", {"include_current": False}),
    ("agg", {"static": True, "static_counts": False}), ("agg", {"static": True, "include_current": False}),
    ("agg", {"full_divisor": True}), ("agg", {"unmasked_pad": True}), ("agg", {"alpha": 1.2}), ("agg", {"alpha_scale": 2.0}),
    ("agg", {"alpha_ul": 0.5}), ("ul_agg", {"alpha_ul": 0.5}), ("ul_agg", {"flatten_batch": True}),
    ("ul_agg", {"alpha_scale": 2.0}),
    ("freeze", {"b": 0.4}), ("freeze_b", {"b": 0.4}), ("freeze_c", {"c": 0.7}), ("freeze_bc", {"b": 0.3, "c": 0.7}),
    ("freeze_b", {"b": 1.0, "c": 2.0}),
    ("adversarial", {"a": 0.3, "shared_direction": True}),
    ("frage", {"rare_only": True}), ("frage", {"balanced": False}), ("frage", {"popular_types": 7}), ("frage", {"start": 6}),
    ("agps", {"variant": "alg1"}), ("agps", {"first_rare": 18, "mu1": 40.0, "mu2": 15.0}),
    ("ul", {"flatten_batch": True}), ("weight_decay", {"form": "l2"}), ("frage", {"hidden": True}),
    ("cosreg", {"gamma": 2.5}), ("frage", {"strength": 0.4}), ("frage", {"popular": 0.5}), ("ul", {"alpha_ul": 0.3}),
    ("mu_loss", {"strength": 2.0}), ("z_loss", {"strength": 0.3}), ("tied_gradient", {"input_scale": 0.5}),
    ("soft_cap", {"softcap": 2.0}),
    ("dispersion", {"strength": 2.0}), ("dispersion", {"temperature": 0.2}), ("dispersion", {"margin": 0.5}),
    ("dispersion", {"positions": 5}),
    ("spectrum_control", {"strength": 0.3}), ("spectrum_control", {"decay": 0.5}), ("weight_decay", {"form": "l2", "rate": 0.5}),
]  # fmt: skip
SHIPPED = {"mle", "freeze", "freeze_b", "freeze_c", "freeze_bc", "agg", "agps", "cosreg", "frage", "ul", "ul_agg",
           "adversarial", "spectrum_control", "reweight", "weight_decay", "coupled_adam", "ember", "mu_loss", "mu_centering",
           "z_loss", "soft_cap", "dispersion", "tied_gradient"}  # fmt: skip
# What acts beside the loss: on rows that are frozen, steps of a discriminator, the optimizer. Tests of their own.
BESIDE = {"freeze": {"until", "rows"}, "frage": {"lr", "steps", "moves_table", "minibatch"}, "coupled_adam": {"average_scale"},
          "ember": {"beta2"}}  # fmt: skip

LIKELIHOOD = {"coupled_adam", "ember", "mu_centering"}
TWICE = {"agg", "agps", "freeze"}  # the references of gates have one term for the states and one for the table


def reference_of(name: str) -> ModuleType:
    """Return the formula of an objective; rules of the optimizer and of the rows have the loss of maximum likelihood."""
    module = declared(name).module
    return importlib.import_module(f"references.{'mle' if module in LIKELIHOOD else module}")


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize(("name", "options"), VARIANTS)
def test_gradients_equal_the_reference(name, options, smoothing):
    """Over 11 updates, so that AGG's window fills, slides, and goes past an epoch."""
    try:
        reference = reference_of(name)
    except ModuleNotFoundError:
        pytest.skip("a reference is asked of the project's own objectives only")
    objective = build(name, options, label_smoothing=smoothing)
    more = {"objective": objective} if name == "frage" else {}
    history, used = [], settings(name, options)
    for seed in range(11):
        hidden, weight, targets, counts = update(seed)
        history.append(counts)
        loss = whole(objective, hidden, weight, targets, counts)
        formula = reference.loss(objective.facts, used, history, hidden, weight, targets, **more)
        if declared(name).module not in TWICE:
            torch.testing.assert_close(loss, formula, atol=1e-9, rtol=1e-9)
        ours, expected = gradients(loss, hidden, weight), gradients(formula, hidden, weight)
        for own, truth in zip(ours, expected, strict=True):
            torch.testing.assert_close(own, truth, atol=1e-9, rtol=1e-9)


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
    assert set(ALL) >= SHIPPED
    for name in SHIPPED:
        reference_of(name)


def test_every_option_is_tried():
    tried = {(declared(name).module, option) for name, options in VARIANTS for option in options}
    for name in SHIPPED:
        module, options = declared(name)
        assert {option for option in options if (module, option) not in tried} <= BESIDE.get(module, set()), name


@pytest.mark.parametrize(
    ("name", "options"),
    [("freeze_b", {"rows": False, "b": 0.0}), ("freeze_c", {"rows": False, "c": 0.0}),
     ("freeze_bc", {"rows": False, "b": 0.0, "c": 0.0}), ("ul_agg", {"alpha_ul": 1.0})],
)  # fmt: skip
def test_a_name_of_a_family_stands_for_options_of_its_file(name, options):
    both = build(name, {}), build(declared(name).module, options)
    assert type(both[0]) is type(both[1]) and (both[0].frozen_rows() is None) is (both[1].frozen_rows() is None)
    for seed in range(6):
        hidden, weight, targets, counts = update(seed)
        one, other = (gradients(whole(o, hidden, weight, targets, counts), hidden, weight) for o in both)
        assert all(map(torch.equal, one, other))


def test_what_is_not_there_is_named_with_the_nearest():
    with pytest.raises(UserError, match="^objective 'ag' has no file; the nearest is agg$"):
        registry.build("ag", facts())
    with pytest.raises(UserError, match="^objective agg: no option 'alhpa'; the nearest is alpha$"):
        registry.build("agg", facts(), alhpa=0.1)
    with pytest.raises(UserError, match="^objective agps: variant: 'eq16' is not allowed: should be eq15 or alg1$"):
        registry.build("agps", facts(), variant="eq16")


@pytest.mark.parametrize(
    ("name", "options"),
    [("agg", {"alpha": bad}) for bad in (float("nan"), float("inf"), -1.0, "0.1", True, None)]
    + [("agg", {"alpha_scale": -2.0}), ("agg", {"alpha_scale": 0.0}), ("agg", {"g1": 1}), ("ul_agg", {"alpha_ul": -1.0}),
       ("agps", {"mu1": 0.0}), ("agps", {"mu2": -3}), ("agps", {"first_rare": -1}), ("agps", {"first_rare": 2.0}),
       ("frage", {"lr": -1.0}), ("frage", {"steps": -1}), ("frage", {"steps": 0}), ("frage", {"popular": 2.0}),
       ("frage", {"popular": 0.0}), ("frage", {"start": -1}), ("frage", {"popular_types": 10**30}),
       ("weight_decay", {"rate": -5.0}), ("weight_decay", {"form": "l1"}), ("spectrum_control", {"decay": -1.0}),
       ("freeze", {"until": -1}), ("freeze", {"until": 9.0}), ("freeze_b", {"b": -0.1}), ("cosreg", {"gamma": -1.0}),
       ("adversarial", {"a": -1.0}), ("ember", {"beta2": 1.0}), ("coupled_adam", {"average_scale": 0.0}),
       ("mu_loss", {"strength": -1.0}), ("z_loss", {"strength": float("inf")}), ("dispersion", {"margin": 0.0}),
       ("dispersion", {"positions": 1}), ("tied_gradient", {"input_scale": 0.0})],
)  # fmt: skip
def test_a_value_out_of_range_is_refused_with_what_is_allowed(name, options):
    ((option, value),) = options.items()
    with pytest.raises(UserError) as error:
        registry.build(name, facts(), **options)
    start = f"objective {name}: {option}: {value!r} is not allowed: should be "
    assert str(error.value).startswith(start) and "\n" not in str(error.value)


def test_every_default_is_allowed_and_whole_numbers_serve_as_real_ones():
    for name, objective in known().items():
        assert all(option.accepts(option.default) for option in objective.options.values()), name
    assert declared("agg").options["alpha"].accepts(1) and not declared("freeze").options["until"].accepts(1.0)


@pytest.mark.parametrize("name", ["agg", "agps", "freeze", "frage"])
def test_a_loop_that_does_not_tell_of_an_update_is_refused(name):
    hidden, weight, targets, counts = update(0)
    objective = build(name, {})
    with pytest.raises(RuntimeError, match=r"begin_step\(counts\) was not called"):
        objective.loss(hidden, weight, targets)
    with pytest.raises(ValueError, match=rf"counts of shape \({N - 1},\); the facts have {N} types"):
        objective.begin_step(counts[1:])
    with torch.no_grad():  # validation needs none
        objective.loss(hidden, weight, targets)
    objective.begin_step(counts)
    with pytest.raises(ValueError, match=f"the embedding matrix has {N - 1} rows, the facts have counts of {N} types"):
        objective.loss(hidden, weight[1:], targets)
    objective.loss(hidden, weight, targets)


@pytest.mark.parametrize("name", ALL)
def test_switched_off_it_is_maximum_likelihood(name):
    options = {key: value for key, value in NEUTRAL.items() if key in declared(name).options}
    objective = registry.build(name, facts(rare=torch.zeros(N, dtype=torch.bool)), **options)
    if not options and name not in ("mle", "freeze", "freeze_b", "freeze_c", "freeze_bc", "agps"):
        return  # reweight, weight_decay and rules of the optimizer have no neutral setting
    for seed in range(3):
        hidden, weight, targets, counts = update(seed)
        own = gradients(whole(objective, hidden, weight, targets, counts), hidden, weight)
        mle = gradients(whole(build("mle", {}), hidden, weight, targets, counts), hidden, weight)
        for ours, plain in zip(own, mle, strict=True):
            asked = f"with {options}, {name} should be maximum likelihood with the label_smoothing of its facts"
            torch.testing.assert_close(ours, plain, atol=1e-15 if name in SHIPPED else 1e-12, rtol=0, msg=asked)


HEADS = {"bias": Head(bias=torch.arange(N) / 10.0), "scale": Head(scale=0.5), "softcap": Head(softcap=1.5)}


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("name", ALL)
def test_the_bias_scale_and_softcap_of_a_model_s_logits_change_the_loss(name, head):
    """An objective that ignores `head` would train another model than the one that predicts. Refusing the head is allowed."""
    hidden, weight, targets, counts = update(5)
    objective, changed = build(name, {}), HEADS[head]
    objective.begin_step(counts)
    plain = objective.loss(hidden, weight, targets)
    try:
        own = objective.loss(hidden, weight, targets, head=changed)
    except ValueError as refused:
        assert "head" in str(refused)
        return
    with torch.no_grad():
        expected = objective.loss(hidden, weight, targets, head=changed).nll
    torch.testing.assert_close(own.nll, expected)
    assert (own.loss - plain.loss).abs() > 1e-3
    if head == "scale":  # of a loss of logits, halved logits are those of halved states
        states = objective.hidden_term(0.5 * hidden, targets), objective.hidden_term(hidden, targets)
        halved = objective.loss(0.5 * hidden, weight, targets).loss - (0 if states[0] is None else states[0] - states[1])
        torch.testing.assert_close(own.loss, halved)


@pytest.mark.parametrize("name", ALL)
def test_nothing_leaks_between_the_sequences_of_a_batch(name):
    """Another first sequence changes no gradient of the second one's states, given the same counts of the update."""
    hidden, weight, targets, counts = update(5)
    objective = build(name, {})
    objective.begin_step(counts)
    before = gradients(objective.loss(hidden, weight, targets).loss, hidden)[0]
    other = targets.clone()
    other[0] = targets[0].flip(0)
    after = gradients(objective.loss(hidden, weight, other).loss, hidden)[0]
    assert (before[0] != after[0]).any()
    torch.testing.assert_close(before[1:], after[1:], atol=0, rtol=0)


@pytest.mark.parametrize(("name", "options"), VARIANTS)
def test_state_survives_state_dict(name, options, tmp_path):
    """A fresh objective with the saved state goes on as the one that was saved; the state can be stored safely."""
    kept = build(name, options)
    for seed in range(6):
        hidden, weight, targets, counts = update(seed)
        whole(kept, hidden, weight, targets, counts)
        kept.end_step(weight)
    torch.save(kept.state_dict(), tmp_path / "state.pt")
    torch.manual_seed(99)
    fresh = registry.build(name, facts(), **settings(name, options))
    fresh.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    for seed in range(6, 12):
        hidden, weight, targets, counts = update(seed)
        both = [gradients(whole(o, hidden, weight, targets, counts), hidden, weight) for o in (kept, fresh)]
        for ours, restored in zip(*both, strict=True):
            torch.testing.assert_close(ours, restored, atol=0, rtol=0)
        for objective in (kept, fresh):
            objective.end_step(weight)


@pytest.mark.parametrize("name", ALL)
def test_validation_is_plain_likelihood_and_changes_no_state(name):
    objective = build(name, {})
    hidden, weight, targets, counts = update(1)
    objective.begin_step(counts)
    before = {key: repr(value) for key, value in objective.state_dict().items()}
    with torch.no_grad():
        validated = objective.loss(hidden, weight, targets)
    head = Head(softcap=30.0) if name == "soft_cap" else PLAIN  # the model that the likelihood is of
    expected = gated_linear_cross_entropy(hidden.detach(), weight.detach(), targets, head=head, ignore_index=PAD)
    assert float(validated.nll) == pytest.approx(float(expected.nll), abs=1e-12)
    assert {key: repr(value) for key, value in objective.state_dict().items()} == before


@pytest.mark.parametrize("name", ALL)
def test_it_works_in_bfloat16(name):
    """Under autocast the gradients stay finite and near those of float32."""
    torch.set_default_dtype(torch.float32)
    hidden, weight, targets, counts = update(2)
    both = []
    for enabled in (False, True):
        objective = build(name, {})
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
            both.append(gradients(whole(objective, hidden, weight, targets, counts), hidden, weight))
    for full, low in zip(*both, strict=True):
        assert (full - low).norm() <= 0.03 * full.norm() + 1e-6


# Printed (AGG table 11, AGPS table 5, CosReg, FRAGE), or as public code has them; each file says which.
PRINTED = {
    "agg": {"alpha": 0.03, "alpha_scale": 1.0, "g1": True, "g2": True, "alpha_ul": 0.0},
    "agps": {"mu1": 1500.0, "mu2": 400.0, "variant": "eq15"},
    "cosreg": {"gamma": 1.0},
    "frage": {"strength": 0.1, "popular": 0.2, "lr": 0.1, "steps": 1, "start": 0},
    "freeze": {"rows": True, "b": 1.0, "c": 1.0, "until": 0},
    "freeze_bc": {"rows": False, "b": 0.0, "c": 0.0},
    "ul": {"alpha_ul": 1.0},
    "adversarial": {"a": 0.005},
    "coupled_adam": {"average_scale": 1.0},
    "ember": {"beta2": 0.999},
    "mu_loss": {"strength": 1e-4},
    "z_loss": {"strength": 1e-4},
    "soft_cap": {"softcap": 30.0},
    "dispersion": {"strength": 0.1, "temperature": 1.0, "margin": 0.1, "positions": 256},
    "tied_gradient": {"input_scale": 5.0},
    "weight_decay": {"rate": 0.2, "form": "decoupled"},
}


def test_defaults_are_those_of_papers():
    listed = raretokens.objectives()
    for name, printed in PRINTED.items():
        assert {option: listed[name].defaults[option] for option in printed} == printed, name


KEPT = {
    **dict.fromkeys(("agg", "ul_agg"), {"_extra_state", "appearances", "rare"}),
    **dict.fromkeys(("freeze", "freeze_b", "freeze_c", "freeze_bc"), {"updates"}),
    "frage": {"discriminator.0.bias", "discriminator.0.weight", "updates"},
}


@pytest.mark.parametrize("name", known())
def test_a_state_holds_what_training_changes_and_no_facts(name):
    """Else a state grows with the vocabulary, and one of another text would be loaded over this one's counts."""
    state = set(build(name, {}).state_dict())
    assert state == KEPT.get(name, set()) or name not in {*KEPT, *PRINTED}  # an objective of one's own may keep more


def test_facts_smooth_no_labels_unless_asked():
    given = {name: value for name, value in vars(facts()).items() if name != "label_smoothing"}
    assert Facts(**given).label_smoothing == 0.0
