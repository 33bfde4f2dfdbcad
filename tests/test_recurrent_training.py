"""Recurrent language models: known sizes, a step beside torch's own layers, carried states, the rules of their training."""

import numpy as np
import pytest
import torch
from tiny.applies import REFUSED, applying
from tiny.recurrent_trainer import MODELS, text, trainer
from tiny.states import stop
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from raretokens.errors import UserError
from raretokens.objectives.registry import declared
from reproduction.training.models.registry import build
from reproduction.training.rule import is_worse
from reproduction.training.token_batches import Columns

DROPOUTS = dict.fromkeys(
    ("word_dropout", "embedding_dropout", "hidden_dropout", "context_dropout", "recurrent_dropout"), 0.5
) | {"activation_penalty": 2.0, "temporal_activation_penalty": 1.0}
SIZES = {  # of the public configurations, vocabularies of Penn Treebank and of WikiText-2
    ("awd_lstm", 10_000, 24_221_600): {"layers": 3, "width": 400, "hidden": 1150},
    ("awd_lstm", 33_278, 33_556_078): {"layers": 3, "width": 400, "hidden": 1150},
    ("awd_lstm_mos", 10_000, 21_500_620): {"layers": 3, "width": 280, "hidden": 960, "last": 620, "experts": 15},
    ("awd_lstm_mos", 33_278, 34_909_528): {"layers": 3, "width": 300, "hidden": 1150, "last": 650, "experts": 15},
}


@pytest.fixture(autouse=True)
def float32():
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize(("architecture", "vocabulary", "parameters"), SIZES)
def test_the_sizes_are_the_published_ones(architecture, vocabulary, parameters):
    shape = SIZES[architecture, vocabulary, parameters] | DROPOUTS
    shape |= {"output_dropout": 0.4} if "experts" in shape else {}
    with torch.device("meta"):
        model = build(architecture, shape, vocabulary, 70)
    assert sum(parameter.numel() for parameter in model.parameters()) == parameters


def test_a_step_is_that_of_torch_s_layers_with_the_dropped_weights_put_in_by_hand():
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    model = build("awd_lstm", MODELS["awd_lstm"] | DROPOUTS, 20, 8)
    ids, carried = torch.randint(4, 20, (3, 8)), torch.randn(3, model.state)
    torch.manual_seed(1)
    output = model(ids, carried)
    plain = [nn.LSTM(layer.input_size, layer.hidden_size, batch_first=True) for layer in model.layers]
    torch.manual_seed(1)
    states = nn.functional.embedding(ids, model.embedding) * nn.functional.dropout(torch.ones(20, 1))[ids]
    after, place = [], 0
    for layer, other in zip(model.layers, plain, strict=True):
        states = states * nn.functional.dropout(torch.ones(3, 1, states.shape[2]))
        other.load_state_dict(layer.state_dict())
        other.weight_hh_l0.data = nn.functional.dropout(layer.weight_hh_l0.data)
        before = carried[:, place : place + 2 * layer.hidden_size].chunk(2, dim=1)
        states, left = other(states, tuple(part[None].contiguous() for part in before))
        after += [part[0] for part in left]
        place += 2 * layer.hidden_size
    torch.testing.assert_close(output.states, states)
    torch.testing.assert_close(output.carried, torch.cat(after, 1))
    torch.testing.assert_close(output.hidden, states * nn.functional.dropout(torch.ones(3, 1, states.shape[2])))


def test_the_penalties_are_those_of_the_paper():
    torch.manual_seed(0)
    model = build("awd_lstm", MODELS["awd_lstm"] | DROPOUTS, 20, 8)
    output, kept = model(torch.randint(4, 20, (3, 8))), torch.ones(3, 8, dtype=torch.bool)
    expected = 2.0 * output.hidden.pow(2).mean() + (output.states[:, 1:] - output.states[:, :-1]).pow(2).mean()
    torch.testing.assert_close(model.penalty(output, kept) / kept.sum(), expected)


def test_a_mixture_is_the_sum_over_its_experts_and_takes_few_positions_at_a_time(monkeypatch):
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    model = build("awd_lstm_mos", MODELS["awd_lstm_mos"], 20, 8)
    hidden, targets = torch.randn(3, 8, model.layers[-1].hidden_size, requires_grad=True), torch.randint(0, 20, (3, 8))
    monkeypatch.setattr("reproduction.training.models.awd_lstm_mos.ROWS", 100)  # two positions
    for place in np.ndindex(3, 8):
        latent = torch.tanh(model.latent(hidden[place])).view(-1, model.embedding.shape[1])
        each = (latent @ model.embedding.T + model.bias).softmax(1)
        mixed = (model.prior(hidden[place]).softmax(0)[:, None] * each).sum(0)
        of_target = -mixed[targets[place]].log()
        torch.testing.assert_close(model.nll(hidden, targets)[place].float(), of_target.float(), rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(model.log_probabilities(hidden[place][None])[0].float(), mixed.log().float())
    kept = []
    hooks = torch.autograd.graph.saved_tensors_hooks(lambda one: kept.append(one) or one, lambda one: one)
    with Largest() as largest, hooks:
        model.nll(hidden, targets).sum().backward()
    all_logits = 3 * 8 * len(model.prior.weight) * 20
    assert largest.numbers < all_logits  # of any operation, forward, backward and again
    assert sum(one.numel() for one in kept if one.dim() == 3 and one.shape[-1] == 20) == 0  # between the two passes


class Largest(TorchDispatchMode):
    """How many numbers the largest tensor has that any operation makes."""

    numbers = 0

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        made = operation(*args, **(kwargs or {}))
        sizes = [one.numel() for one in tree_leaves(made) if isinstance(one, torch.Tensor)]
        self.numbers = max(self.numbers, *sizes, 0)
        return made


def test_columns_are_read_on_and_on_and_every_epoch_as_a_whole():
    """Two epochs: each target once in its column, after the token before it; lengths differ, their order too."""
    tokens = np.arange(4, 1004)
    data = Columns(tokens, 20, 3, seed=1)
    orders = []
    for epoch in range(2):
        seen: list[list[int]] = [[], [], []]
        order = []
        for number in range(data.steps_per_epoch):
            update = data.step(epoch * data.steps_per_epoch + number)
            batches = list(data.cut(update, 60))
            (inputs, columns), targets = (
                (torch.cat(part) for part in zip(*(b.inputs for b in batches), strict=True)),
                torch.cat([batch.targets for batch in batches]),
            )
            assert torch.equal(inputs[:, 1:], targets[:, :-1])
            assert columns.tolist() == ([-1, -2, -3] if number == 0 else [0, 1, 2])
            assert data.targets(update) == targets.numel() == data.counts(update, 1004).sum()
            for column, row in zip(seen, targets.tolist(), strict=True):
                column += row
            order.append(targets.shape[1])
        assert seen == [list(range(4 + 333 * column, 4 + 333 * (column + 1))) for column in range(3)]
        orders.append(order)
    assert orders[0] != orders[1] and sorted(orders[0]) == sorted(orders[1]) and min(orders[0]) >= 5
    everything = torch.cat([batch.targets for batch in Columns(tokens, 20, 3).everything(1000)], dim=1)
    assert torch.equal(everything, torch.from_numpy(tokens[:999].reshape(3, 333)))


def test_a_twentieth_of_the_steps_is_half_as_long():
    """Merity et al. (2018), section 4.1: lengths are drawn around 70 with probability 0.95, else around 35; deviation 5."""
    lengths = Columns(np.arange(700_000), 70, 1, seed=1).lengths[:-1]
    short = lengths < 52
    assert short.mean() == pytest.approx(0.05, abs=0.01)
    assert [lengths[short].mean(), lengths[~short].mean()] == pytest.approx([35, 70], abs=1)
    assert lengths[~short].std() == pytest.approx(5, abs=0.3)


def test_the_trigger_is_that_of_a_table_by_hand():
    """Window 2: worse than the best of all but the last two before it."""
    validated = [5.0, 4.0, 4.5, 4.2, 3.9, 3.95, 3.8, 3.97, 3.85, 3.96]
    #            -    -    -    4.2<5  3.9<4  3.95<4  3.8<3.9  3.97>3.9: worse
    found = [is_worse(validated[: end + 1], 2) for end in range(len(validated))]
    assert found == [False, False, False, False, False, False, False, True, False, True]
    assert not is_worse([1.0, 2.0], 2) and not is_worse([], 2)


def test_averaging_begins_at_the_trigger_and_the_mean_is_validated_and_kept(tmp_path):
    trained = trainer(tmp_path, "awd_lstm", steps=12, validate_every=1, rule={"name": "nt_asgd", "window": 1})
    history, means, weights = iter([5.0, 4.0, 4.5, 4.6, *[4.0] * 20]), [], []
    step = trained.rule.step

    def stepping(update, targets):
        rate = step(update, targets)
        weights.append(trained.embedding.detach().clone())
        return rate

    def validate(is_shared=True):
        means.append(trained.embedding.detach().clone())
        return next(history)

    trained.rule.step, trained._validate = stepping, validate
    trained.run()
    assert (
        trained.rule.averaged == 8
    )  # from update 5 on: after 4 the NLL, 4.6, is worse than 4.0, the best of all but one before
    for update in range(12):
        expected = weights[update] if update < 4 else torch.stack(weights[4 : update + 1]).mean(0)
        torch.testing.assert_close(means[update], expected)
    assert torch.equal(trained.embedding.detach(), weights[-1])


def test_finetuning_averages_from_its_first_update_and_ends_when_it_no_longer_improves(tmp_path):
    rule = {"name": "nt_asgd", "average_from_start": True}
    trained = trainer(tmp_path, "awd_lstm", steps=30, validate_every=2, stop_window=2, rule=rule)
    history = iter([5.0, 4.0, 4.5, 4.6, 4.7, 4.8, 4.9])
    trained._validate = lambda is_shared=True: next(history)
    trained.run()
    assert trained.step == 10 and trained.rule.averaged == 10  # 4.7 is worse than 4.0, the best of all but two before
    assert [item.step for item in trained.kept] == [4]


def test_the_rate_goes_with_the_length_and_the_gradient_is_clipped(tmp_path):
    trained = trainer(
        tmp_path, "awd_lstm", steps=6, rule={"name": "nt_asgd", "clip": 0.01}, peak_lr=30.0, weight_decay=0.0
    )
    before = {name: weight.detach().clone() for name, weight in trained.model.named_parameters()}
    lengths = trained.data.lengths
    row, targets = trained._train_step(next(trained._prepared(range(1))))
    assert row["lr"] == pytest.approx(30.0 * targets / 64) and targets in 4 * lengths
    moved = (
        sum((weight.detach() - before[name]).square().sum() for name, weight in trained.model.named_parameters()) ** 0.5
    )
    assert float(moved) <= row["lr"] * 0.01 * 1.001


RUNS = [(architecture, name) for architecture in MODELS for name in applying(architecture)]


def options(name: str) -> dict:
    """Of an objective: AGG's threshold is high enough that some types are rare."""
    return {"alpha": 0.3} if "alpha" in declared(name).defaults else {}


@pytest.mark.parametrize(("architecture", "name"), RUNS)
def test_micro_batches_change_nothing(tmp_path, architecture, name):
    settings = {"dtype": torch.float64, "steps": 4, **options(name)}
    whole = trainer(tmp_path / "whole", architecture, name, **settings)
    parts = trainer(tmp_path / "parts", architecture, name, micro_batch=20, **settings)
    for trained in (whole, parts):
        trained.run()
    for key, value in whole.model.state_dict().items():
        torch.testing.assert_close(parts.model.state_dict()[key], value, atol=1e-9, rtol=1e-9, msg=key)


@pytest.mark.parametrize("architecture", MODELS)
def test_each_objective_changes_the_table(tmp_path, architecture):
    tables = {}
    for name in applying(architecture):
        trained = trainer(tmp_path / name, architecture, name, steps=3, dtype=torch.float64, **options(name))
        trained.run()
        tables[name] = trained.embedding.detach()
    plain = tables.pop("mle")
    assert [name for name, table in tables.items() if torch.equal(table, plain)] == []


@pytest.mark.parametrize(("architecture", "name"), [(one, name) for one in MODELS for name in sorted(REFUSED[one])])
def test_what_does_not_apply_is_refused(tmp_path, architecture, name):
    with pytest.raises(UserError, match="mixture of softmaxes|so has the objective"):
        trainer(tmp_path, architecture, name)


@pytest.mark.parametrize(("architecture", "name"), RUNS)
def test_a_stop_and_a_resume_change_nothing_to_the_bit(tmp_path, architecture, name):
    """With dropout, carried states, and averages that have begun."""
    settings = {"dropout": 0.2, "steps": 8, "validate_every": 2, "rule": {"name": "nt_asgd", "average_from_start": True}}
    settings |= options(name)
    expected = trainer(tmp_path, architecture, name, **settings)
    expected.run()
    tables = expected.state.snapshots()
    expected.state.remove()
    stop(trainer(tmp_path, architecture, name, save_updates=5, **settings), 7)
    torch.manual_seed(12345)
    resumed = trainer(tmp_path, architecture, name, **settings)
    assert resumed.step == 5 and float(resumed.criterion.before.abs().sum()) > 0
    resumed.run()
    assert resumed.rows == expected.rows[5:] and resumed.kept == expected.kept
    assert all(torch.equal(resumed.state.snapshots()[key], table) for key, table in tables.items())
    assert torch.equal(resumed.criterion.before, expected.criterion.before)
    for part in ("model", "rule"):
        one, other = (getattr(trained, part).state_dict() for trained in (resumed, expected))
        assert str(one) == str(other)
    for key, value in expected.model.state_dict().items():
        assert torch.equal(resumed.model.state_dict()[key], value), key


def test_what_is_carried_is_what_one_long_sequence_would_have_been(tmp_path):
    """Validation in pieces, its states carried, is the NLL of whole columns; training goes on where it was."""
    trained = trainer(tmp_path, "awd_lstm", dtype=torch.float64)
    trained._train_step(next(trained._prepared(range(1))))
    before = trained.criterion.before.clone()
    found = trained._validate()
    rows = torch.from_numpy(text()[:200].reshape(10, 20))
    trained.model.eval()
    firsts = torch.cat((torch.tensor([2]), rows[:-1, -1]))
    output = trained.model(torch.cat((firsts[:, None], rows[:, :-1]), dim=1))
    scores = trained.model.log_probabilities(output.hidden.flatten(0, 1))
    assert found == pytest.approx(-float(scores.detach().gather(1, rows.reshape(-1, 1)).mean()), rel=1e-9)
    assert torch.equal(trained.criterion.before, before)
