"""The planned time of a run follows from counted operations and the peak of the run's type of numbers."""

from collections import Counter
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from raretokens import tasks
from raretokens.models.registry import build
from raretokens.objectives.registry import build as build_objective
from raretokens.pipeline.config import load
from raretokens.pipeline.jobs import train_job
from raretokens.pipeline.machine.cards import card
from raretokens.pipeline.planning import duration, operations, plan, table
from raretokens.pipeline.planning.data import text
from raretokens.tokenization.vocabulary import PAD
from raretokens.training.criterion import Criterion

ROOT = Path(__file__).parents[1]
H100 = card("h100")
RUNS = [("lm", "mle"), ("nmt", "base-mle"), ("recurrent", "awd-mle"), ("recurrent", "mos-mle"), ("skipgram", "sg-mle"),
        ("classify", "cls-mle"), ("images", "cnn")]  # fmt: skip


@pytest.fixture(autouse=True)
def single(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(torch.backends.mkldnn, "enabled", False)  # torch does not count its recurrent layers
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    yield
    torch.set_default_dtype(before)


def flops(counts: operations.Counts, kinds: tuple[str, ...] = ("product", "convolution", "attention")) -> float:
    return sum(times * one.flops for one, times in counts.items() if one.kind in kinds)


@pytest.mark.parametrize(("task", "name"), RUNS)
def test_counted_operations_are_those_of_a_real_step(task, name):
    """Torch's counter watches the real loss and its gradients; recurrent layers differ at their first position only."""
    parameters = load(ROOT / "params.yaml")
    job, rows = train_job(parameters, parameters.run(task, name)), 512
    training = job.training
    training = training.replaced(tokens_per_step=max(256, training.block), precision="float32")
    job = job.replaced(training=training)
    batch = duration.random_batches(job, rows, micro_batch=512)[0]
    model = build(job.run.architecture, job.run.shape, rows, training.block)
    criterion = getattr(tasks.load(task), "criterion", Criterion)(
        model, build_objective("mle", operations.plain_facts(job, rows, model.embedding.shape[1]))
    )
    formulas = operations.ATTENTION | {
        torch.ops.aten.addmm_: lambda _, left, right, **__: 2 * left[0] * left[1] * right[1]
    }
    with FlopCounterMode(display=False, custom_mapping=formulas) as counter:
        criterion.loss(model, batch).loss.backward()
    counted = flops(operations.count_batch(job, rows, batch, "cpu"))
    # Padding has no row in the real loss, and the count cannot see padding.
    padded = 1.0 if task in ("classify", "images", "skipgram") else (batch.targets != PAD).float().mean().item()
    assert counter.get_total_flops() <= counted * 1.001
    assert counter.get_total_flops() == pytest.approx(counted, rel=0.03 + (1 - padded))


@pytest.mark.parametrize("layer", [
    lambda: nn.LSTM(8, 6, batch_first=True), lambda: nn.RNN(8, 6, bias=False, batch_first=True), lambda: nn.RNN(8, 6, 2),
    lambda: nn.RNN(8, 6, batch_first=True), lambda: nn.LSTM(8, 6, 2, bias=False, batch_first=True), lambda: nn.GRU(8, 6),
    lambda: nn.LSTM(8, 6, bias=False, bidirectional=True, batch_first=True), lambda: nn.LSTM(8, 6, proj_size=3, batch_first=True),
])  # fmt: skip
def test_the_positions_of_recurrent_layers_are_counted(layer):
    """Where one position counts for all, the first one counts with a gradient by its state, which it does not have."""
    layer, inputs = layer(), torch.randn(5, 40, 8)
    with FlopCounterMode(display=False) as counter:
        layer(inputs)[0].sum().backward()
    with operations.kernels_of("cpu"), operations.Counting() as counting:
        layer(inputs)[0].sum().backward()
    assert counter.get_total_flops() <= flops(counting.counts) == pytest.approx(counter.get_total_flops(), rel=0.02)


def paper(task: str, name: str, precision: str | None = None, processes: int = 1) -> plan.Planned:
    parameters = load(ROOT / "scales/paper/params.yaml")
    job = train_job(parameters, parameters.run(task, name))
    job = job.replaced(training=job.training.replaced(precision=precision or job.training.precision))
    return plan.plan(job, text(parameters, job.run.tokens), "cuda", processes)


def test_float32_runs_are_planned_with_the_float32_peak():
    one = paper("lm", "lm6-mle", "float32")
    counts, number, _ = duration.counted(duration._key(one.job, one.text.rows, one.micro_batch, "cuda", 1))
    assert {item.type for item in counts if item.kind == "product"} == {"float32"} and number == 1
    least = flops(counts, ("product",)) / (duration.PRODUCTS * 67e12)
    assert least <= one.seconds(H100)["product"] < 1.3 * least
    half = paper("lm", "lm6-mle")
    assert half.seconds(H100)["product"] < 0.2 * least
    assert one.hours(H100, 0.4) == pytest.approx(half.hours(H100, 0.4) * 989.5 / 67)
    recurrent = paper("recurrent", "awd-wt2-mle")
    assert recurrent.hours(H100, 1.0) * 3600 == pytest.approx(recurrent.flops / 67e12)


def test_a_kernel_takes_the_longest_of_its_times_and_starts_run_ahead_on_a_gpu():
    rates = duration.Rates({"float32": 1e12, "bfloat16": 1e13}, 0.5, 1e9, 0.25, exponentials=1e6, start=1.0, shortest=0.0)
    counts = Counter({
        operations.Operation("product", "float32", 1e12, 8.0, 2): 2,
        operations.Operation("product", "bfloat16", 1e13, 2e9, 2): 1,
        operations.Operation("attention", "float32", 1e12, 8.0, 2): 1,
        operations.Operation("convolution", "float32", 1e12, 8.0, 2): 1,
        operations.Operation("exponential", "float32", 0.0, 8.0, 3_000_000): 1,
    })  # fmt: skip
    found = {"product": 4.0, "attention": 2.0, "convolution": 4.0, "exponential": 3.0, "starts": 0.0}
    assert duration.seconds(counts, rates) == found
    behind = duration.Rates({"float32": 1e12}, 0.5, 1e9, start=1.0, convolution_start=1.5, shortest=0.0, is_ahead=False)
    assert duration.seconds(counts, behind)["starts"] == 6.5


def test_a_plan_of_a_cpu_has_the_comparisons_of_pooling_and_the_start_of_each_micro_batch():
    parameters = load(ROOT / "scales/small/params.yaml")
    job = train_job(parameters, parameters.run("images", "cnn"))  # 64 images of 28 x 28, two in a micro-batch
    rates = duration.Rates({"float32": 1e12}, 0.5, 1e12, pooling=1e6, shortest=0.0, is_ahead=False, step=1.0, micro_batch=0.1)
    found = duration.step_seconds(job, 16, 1, 2048, "cpu", rates)
    assert found["pooling"] == pytest.approx(64 * (32 * 28**2 + 64 * 14**2) / 1e6)
    assert found["start of the step"] == pytest.approx(1.0 + 32 * 0.1)


def test_cudnn_starts_or_fuses_the_positions_of_a_recurrent_layer():
    """On a GPU no Python lies between them. On a CPU each position's kernels start like any other."""
    plain = operations.Operation("product", "float32", 1e12, 8.0, 2)
    counts = Counter({plain: 1, plain._replace(position=operations.STARTED): 10, plain._replace(position=operations.FUSED): 100})
    rates = duration.Rates({"float32": 1e15}, 0.5, 1e9, positions=0.5, start=1.0)
    found = duration.seconds(counts, rates)
    assert found["product"] == pytest.approx(1e-3 + 10 * 2e-3 + 100 * 1e-3)
    assert found["starts"] == pytest.approx(1.0 + 10 * duration.START - found["product"])
    short = Counter({plain._replace(flops=0.0, position=operations.FUSED): 100})
    assert duration.seconds(short, rates) == {"product": pytest.approx(100 * duration.SHORTEST_FUSED), "starts": 0.0}
    behind = duration.Rates({"float32": 1e15}, 0.5, 1e9, start=1.0, shortest=0.0, is_ahead=False)
    assert duration.seconds(counts, behind) == {"product": pytest.approx(0.111), "starts": 111.0}


@pytest.mark.parametrize(("layer", "width", "position"), [
    (nn.LSTM, 128, operations.FUSED), (nn.LSTM, 129, operations.STARTED),
    (nn.RNN, 256, operations.FUSED), (nn.RNN, 257, operations.STARTED),
])  # fmt: skip
def test_narrow_recurrent_layers_are_fused_as_torch_asks_cudnn(layer, width, position):
    one = layer(8, width, bias=layer is nn.LSTM, batch_first=True)
    with operations.kernels_of("cuda"), operations.Counting() as counting:
        one(torch.randn(5, 40, 8))[0].sum().backward()
    assert {item.position for item in counting.counts} == {"", position}
    assert all(times % 40 == 0 for item, times in counting.counts.items() if item.position)


@pytest.mark.parametrize("name", [("recurrent", "mos-wt2-mle"), ("skipgram", "sg-enwik9-mle")])
def test_a_step_that_is_longer_than_the_mean_has_one_pass(name):
    """Steps of recurrent models have random lengths, and blocks of skip-gram need not divide tokens_per_step."""
    one = paper(*name)
    batches = duration.random_batches(one.job, one.text.rows, one.pass_tokens, device="cuda")
    assert len(batches) == 1 and batches[0].inputs[0].numel() > one.training.tokens_per_step


def test_translation_is_planned_in_micro_batches_of_one_bucket_or_of_several_short_ones(tmp_path):
    """Eight buckets of 8,192 tokens make up a step, whatever a larger micro_batch says; a smaller one is respected."""
    assert paper("nmt", "base-mle").micro_batch == 8192
    short = paper("nmt", "iwslt-mle")
    batches = duration.random_batches(short.job, short.text.rows, short.micro_batch, device="cuda")
    assert short.micro_batch == 4096 and short.is_accumulated and len(batches) == 2
    # Padding fills a pass of any number of processes, because a process's buckets are of different lengths.
    assert [paper("nmt", "iwslt-mle", processes=number).micro_batch for number in (2, 4)] == [4096, 4096]
    (tmp_path / "data/scratch").mkdir(parents=True)
    (tmp_path / "data/scratch/machine.yaml").write_text("micro_batch: 4096\n")
    one = paper("nmt", "base-mle")
    batches = duration.random_batches(one.job, one.text.rows, one.micro_batch)
    assert one.micro_batch == 4096 and len(batches) >= 16
    assert all(batch.targets.numel() <= 4096 for batch in batches)


def test_the_share_of_products_has_all_kinds_of_products(monkeypatch):
    times = {"product": 1.0, "attention": 1.0, "convolution": 3.0, "random": 2.0, "other": 3.0}
    monkeypatch.setattr(plan.Planned, "seconds", lambda *_: times)
    assert table.row(paper("skipgram", "sg-enwik9-mle"), H100)["products_share"] == "0.500"


def test_starts_and_not_products_decide_the_time_of_skip_gram():
    one = paper("skipgram", "sg-enwik9-mle")
    parts = one.seconds(H100)
    assert parts["starts"] + parts["start of the step"] > 10 * parts["product"]
    assert 3 < one.hours(H100) < 30 and one.flops / H100.float32 < 60


def test_the_host_takes_longer_for_a_model_that_is_not_compiled(tmp_path):
    """A GPU compiles Transformers unless machine.yaml says otherwise. Other models are never compiled."""
    names = (("nmt", "iwslt-mle"), ("recurrent", "awd-wt2-mle"))
    (compiled, recurrent) = (paper(*name) for name in names)
    (tmp_path / "data/scratch").mkdir(parents=True)
    (tmp_path / "data/scratch/machine.yaml").write_text("compile: false\n")
    eager, same = (paper(*name) for name in names)
    assert same.seconds(H100) == recurrent.seconds(H100)
    counts, number, _ = duration.counted(duration._key(eager.job, eager.text.rows, eager.micro_batch, "cuda", 1))
    assert eager.seconds(H100)["starts"] - compiled.seconds(H100)["starts"] == pytest.approx(
        number * counts.total() * (duration.EAGER_START - duration.START)
    )
