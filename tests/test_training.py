"""The training loop keeps every objective's promises: micro-batches, processes, a stop and a resume change nothing."""

import os
import socket

import pytest
import torch
import torch.multiprocessing as processes
from accelerate.state import AcceleratorState
from safetensors.torch import load_file
from tiny.states import stop
from tiny.trainer import N, trainer, weights, write_tokens

from raretokens.objectives.registry import known
from reproduction.training import batches, example_batches, run
from reproduction.training.models.registry import build, stored
from tests.tiny import architectures

ALL = list(known())
# Of translation a few: what an encoder changes is the same for the other objectives.
RUNS = [*(("lm", name) for name in ALL), *(("nmt", name) for name in ("mle", "agg", "frage", "ul_agg", "dispersion"))]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("tokens")
    write_tokens(path)
    yield path
    torch.set_default_dtype(torch.float32)


def finished(folder, task, name, **settings):
    trained = trainer(folder, task, name, **settings)
    trained.run()
    trained.tables = trained.state.snapshots()
    trained.state.remove()
    return weights(trained), trained


@pytest.mark.parametrize("architecture", ["decoder", "encoder_decoder"])
def test_a_transformer_starts_with_xavier_s_bounds_zero_biases_and_rows_of_length_one(architecture):
    model = build(architecture, architectures.shape(architecture, width=64, heads=2, feedforward=96), 500, 16)
    assert float(model.embedding.norm(dim=1).mean()) == pytest.approx(1, abs=0.05)
    for name, weight in model.named_parameters():
        if weight.dim() > 1 and weight is not model.embedding:
            assert float(weight.abs().max()) == pytest.approx((6 / sum(weight.shape)) ** 0.5, rel=0.02), name
        assert not name.endswith("bias") or not weight.any(), name


def test_an_untied_model_with_equal_embeddings_computes_what_the_tied_one_does():
    shape, seen = architectures.shape("decoder", width=64, heads=2, feedforward=96), []
    for architecture in ("decoder", "untied_decoder"):
        torch.manual_seed(0)
        seen.append(build(architecture, shape, 500, 16).eval())
    tied, untied = seen
    inputs = torch.randint(500, (3, 9))
    assert not torch.allclose(untied(inputs), tied(inputs))
    with torch.no_grad():
        untied.input_embedding.copy_(tied.embedding)
    assert torch.equal(untied(inputs), tied(inputs)) and torch.equal(untied.embedding, tied.embedding)
    untied(inputs).sum().backward()
    assert untied.input_embedding.grad.any() and untied.embedding.grad is None


@pytest.mark.parametrize(("task", "name"), RUNS)
def test_micro_batches_change_nothing(folder, task, name):
    whole, parts = (finished(folder, task, name, micro_batch=size)[0] for size in (10_000, 16))
    for key, value in whole.items():
        torch.testing.assert_close(parts[key], value, atol=1e-9, rtol=1e-9, msg=key)


@pytest.mark.parametrize("name", ["mle", "agg", "frage"])
def test_micro_batches_that_span_buckets_change_nothing(folder, monkeypatch, name):
    """Four buckets in a step; on a GPU two of them share a micro-batch."""
    monkeypatch.setattr(example_batches, "SMALLEST_BUCKET", 16)
    apart, trained = finished(folder, "nmt", name)
    assert len(next(iter(trained._prepared(range(1)))).batches) == 4
    monkeypatch.setattr(batches, "least_tokens", lambda device: 40)
    spanning, trained = finished(folder, "nmt", name)
    assert 1 < len(next(iter(trained._prepared(range(1)))).batches) < 4
    for key, value in apart.items():
        torch.testing.assert_close(spanning[key], value, atol=1e-9, rtol=1e-9, msg=key)


@pytest.mark.parametrize(("name", "rule"), [*((name, "warmup_adam") for name in ALL), ("mle", "muon"), ("ember", "muon")])
def test_a_stop_and_a_resume_change_nothing_to_the_bit(folder, name, rule):
    """In float32 with dropout: data order, dropout masks, optimizer, objective and log all go on where they were."""
    settings = {"dropout": 0.2, "steps": 8, "dtype": torch.float32, "rule": {"name": rule}}
    expected, unbroken = finished(folder, "lm", name, **settings)
    stop(trainer(folder, "lm", name, save_updates=3, **settings), 5)
    torch.manual_seed(12345)  # what another process would have
    resumed = trainer(folder, "lm", name, **settings)
    assert resumed.step == 3
    resumed.run()
    assert resumed.rows == unbroken.rows[3:]
    tables = resumed.state.snapshots()
    assert list(tables) == ["000000", "000004", "000008"]
    assert all(torch.equal(tables[key], table) for key, table in unbroken.tables.items())
    for key, value in weights(resumed).items():
        assert torch.equal(value, expected[key]), key
    resumed.state.remove()


def test_muon_moves_hidden_matrices_along_all_directions_and_adam_the_rest(tmp_path):
    """The first step of a hidden matrix is U V^T of its gradient, of the size of Adam's; all else is as without Muon."""
    trained = []
    for rule in ("warmup_adam", "muon"):
        (folder := tmp_path / rule).mkdir()
        write_tokens(folder)
        trained.append(trainer(folder, "lm", "mle", rule={"name": rule}, weight_decay=0.0))
    plain, muon = trained
    before = {key: value.detach().clone() for key, value in muon.model.named_parameters()}
    gradients, step = {}, muon.rule.step

    def stepping(*args):
        gradients.update({key: weight.grad.clone() for key, weight in muon.model.named_parameters()})
        return step(*args)

    muon.rule.step = stepping
    rate = muon._train_step(next(iter(muon._prepared(range(1)))))[0]["lr"]
    plain._train_step(next(iter(plain._prepared(range(1)))))
    hidden = 0
    for (key, weight), other in zip(muon.model.named_parameters(), plain.model.parameters(), strict=True):
        if weight.ndim < 2 or weight is muon.embedding:
            assert torch.equal(weight, other), key
            continue
        hidden += 1
        left, values, right = torch.linalg.svd(gradients[key], full_matrices=False)
        moved = (before[key] - weight) / (0.2 * max(weight.shape) ** 0.5 * rate)
        kept = values > 1e-3 * values.max()  # smaller ones take more iterations than Muon has
        along = torch.einsum("ir,ij,rj->r", left, moved, right)[kept]
        assert bool((along > 0.5).all()) and bool((along < 1.3).all()), (key, along)  # 0.7 to 1.2 by its coefficients
        assert weight.grad is None or not weight.grad.any(), key
    assert hidden == 4


def test_frozen_rows_stay_bit_identical_under_weight_decay(folder):
    before = trainer(folder, "lm", "freeze", steps=100)
    initial = before.embedding.detach().clone()
    before.run()
    before.state.remove()
    rare = torch.arange(N) >= 30
    assert torch.equal(before.embedding.detach()[rare], initial[rare])
    assert not torch.equal(before.embedding.detach()[~rare], initial[~rare])


def test_frage_that_starts_late_continues_the_baseline(folder):
    """Until its start it is maximum likelihood to the bit, so it equals a warm start from the baseline of the same seed."""
    baseline, late, early = (
        finished(folder, "nmt", name, **options)[0]
        for name, options in (("mle", {}), ("frage", {"start": 6}), ("frage", {"start": 5}))
    )
    assert all(torch.equal(late[key], value) for key, value in baseline.items())
    assert not torch.equal(early["embedding"], baseline["embedding"])


def test_a_stop_keeps_the_checkpoints_that_are_averaged(folder):
    """With keep: 2 the mean is that of checkpoints from before and after the stop; older ones are removed."""
    settings = {"steps": 8, "validate_every": 2, "keep": 2, "dropout": 0.2, "dtype": torch.float32}
    whole = trainer(folder, "nmt", "agg", **settings)
    whole.run()
    whole.finish()
    expected = load_file(whole.outputs.into / "model.safetensors")
    whole.state.remove()
    stopped = trainer(folder, "nmt", "agg", save_updates=7, **settings)
    stop(stopped, 7)
    assert [path.name for path in sorted(stopped.state.path.glob("weights-*"))] == [
        "weights-000004.safetensors",
        "weights-000006.safetensors",
    ]
    resumed = trainer(folder, "nmt", "agg", **settings)
    resumed.run()
    resumed.finish()
    averaged = load_file(resumed.outputs.into / "model.safetensors")
    assert all(torch.equal(averaged[key], value) for key, value in expected.items())
    resumed.state.remove()


def test_the_mean_is_that_of_the_last_whole_epochs(folder):
    """Ten updates, three an epoch: with keep: 2 the weights after updates 6 and 9, not those of the unfinished epoch."""
    settings = {"tokens": 200, "dtype": torch.float32}
    ends = [finished(folder, "lm", "mle", steps=updates, **settings)[0] for updates in (6, 9)]
    trained = trainer(folder, "lm", "mle", steps=10, validate_every="epoch", keep=2, **settings)
    trained.run()
    trained.finish()
    averaged = load_file(trained.outputs.into / "model.safetensors")
    expected = stored({key: (ends[0][key] + ends[1][key]) / 2 for key in ends[0]})
    assert averaged.keys() == expected.keys()
    for key, value in averaged.items():
        torch.testing.assert_close(value, expected[key], atol=1e-7, rtol=0)
    trained.state.remove()


@pytest.mark.parametrize("task", ["lm", "nmt"])
def test_workers_that_prepare_updates_change_nothing_to_the_bit(folder, task):
    settings = {"dropout": 0.2, "dtype": torch.float32, "micro_batch": 16}
    alone, ahead = (finished(folder, task, "agg", workers=count, **settings) for count in (0, 2))
    assert alone[1].rows == ahead[1].rows
    assert all(torch.equal(ahead[0][key], value) for key, value in alone[0].items())


@pytest.mark.parametrize("task", ["lm", "nmt"])
def test_bfloat16_stays_near_float32(folder, task, other_accelerator):
    """Autocast of the model with sums in float32; the table and the optimizer's state are float32 throughout."""
    exact = finished(folder, task, "agg", dtype=torch.float32)[1].rows
    AcceleratorState._reset_state(True)
    weights, trained = finished(folder, task, "agg", dtype=torch.float32, precision="bfloat16")
    assert {value.dtype for value in weights.values()} == {torch.float32}
    assert trained.rows[0]["loss"] != exact[0]["loss"]
    for low, full in zip(trained.rows, exact, strict=True):
        assert low["loss"] == pytest.approx(full["loss"], rel=5e-3)


# Writing machine code takes up to a minute of processor time: RARETOKENS_COMPILE asks for it, and .ci/run sets it.
@pytest.mark.parametrize("compiler", ["aot_eager", "inductor"] if "RARETOKENS_COMPILE" in os.environ else ["aot_eager"])
def test_a_compiled_model_trains_the_same(folder, other_accelerator, monkeypatch, compiler):
    monkeypatch.setattr(run, "COMPILER", compiler)
    plain = finished(folder, "nmt", "agg", steps=3)[0]
    AcceleratorState._reset_state(True)
    compiled, trained = finished(folder, "nmt", "agg", steps=3, compile=True)
    assert trained.wrapped is not trained.model
    for key, value in plain.items():
        torch.testing.assert_close(compiled[key], value, atol=1e-9, rtol=1e-9, msg=key)


@pytest.mark.parametrize("task", ["lm", "nmt"])
def test_attention_is_fused(folder, task, monkeypatch):
    """Torch's own attention, without a mask where the causal kernel does without; only padding needs one."""
    calls, attention = [], torch.nn.functional.scaled_dot_product_attention

    def watched(*arguments):
        calls.append(("mask" if arguments[3] is not None else "none", arguments[5]))
        return attention(*arguments)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", watched)
    trained = trainer(folder, task, "mle")
    trained.wrapped(*next(iter(trained._prepared(range(1)))).batches[0].inputs)
    trained.state.remove()
    assert calls == {"lm": [("none", True)], "nmt": [("mask", False), ("none", True), ("mask", False)]}[task]


def launched(function, *arguments) -> None:
    """The function on two processes, as torch's launcher would start them."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    processes.start_processes(function, args=(port, *arguments), nprocs=2, start_method="spawn")


def one_of_two(rank: int, port: int, folder, results) -> None:
    os.environ.update(
        RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port)
    )
    torch.set_num_threads(1)
    ended = {}
    for task, name, settings in TOGETHER:
        trained = trainer(folder, task, name, **settings)
        trained.run()
        assert not trained.wrapped.will_sync_module_buffers()  # the positions are constant
        ended[task, name, str(settings)] = weights(trained), trained.rows
        trained.accelerator.wait_for_everyone()
        trained.state.remove()
    ended["resumed"] = stopped_and_resumed(folder)
    torch.save(ended, results / f"{rank}.pt")


def stopped_and_resumed(folder) -> tuple[dict, dict]:
    """Weights without and with a stop after four of five updates, the last of them not saved, of a run with dropout."""
    ended = []
    for updates, save_updates in ((5, 0), (4, 3), (5, 0)):
        trained = trainer(
            folder, "lm", "agg", steps=updates, save_updates=save_updates, dropout=0.2, dtype=torch.float32
        )
        assert trained.step == (3 if len(ended) == 2 else 0)
        trained.run()
        ended.append(weights(trained))
        trained.accelerator.wait_for_everyone()
        if trained.state.rank == 0:
            trained.state._lock.close()
            if not save_updates:
                trained.state.remove()
        trained.accelerator.wait_for_everyone()
    return ended[0], ended[2]


# The last has one sequence an update, so that the second process has none.
TOGETHER = [
    *((task, name, {}) for task, name in RUNS),
    ("lm", "mle", {"tokens_per_step": 8}),
]


def test_two_processes_change_nothing(folder, tmp_path):
    """All runs in one launch over gloo: both processes end with the weights and losses of a single one."""
    launched(one_of_two, folder, tmp_path)
    first, second = (torch.load(tmp_path / f"{rank}.pt") for rank in (0, 1))
    for key, value in first["resumed"][0].items():
        assert torch.equal(first["resumed"][1][key], value), key
    for task, name, settings in TOGETHER:
        (own, log), (other, _) = (part[task, name, str(settings)] for part in (first, second))
        alone, trained = finished(folder, task, name, **settings)
        for key, value in alone.items():
            torch.testing.assert_close(own[key], value, atol=1e-9, rtol=1e-9, msg=f"{task} {name} {key}")
            assert torch.equal(own[key], other[key]), (task, name, key)
        for together, single in zip(log, trained.rows, strict=True):
            measured = {key: value for key, value in single.items() if value is not None}
            assert {key: together[key] for key in measured} == pytest.approx(measured, rel=1e-6), (task, name)
