"""The benchmarks compare equal things and write what they measured; how fast anything is, no test says."""

import csv
from pathlib import Path

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

ROOT = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def scripts(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("name, peer", [
    ("builtin", "plain"), ("builtin_chunked", "plain"), ("ungated", "plain"), ("chunked", "plain"), ("three_logits", "gated"),
])  # fmt: skip
@pytest.mark.parametrize("dtype, of_the_largest", [("float32", 1e-5), ("bfloat16", 0.02)])
def test_the_constructions_that_are_timed_have_the_same_gradients(name, peer, dtype, of_the_largest):
    import loss

    gradients = {}
    for method in (name, peer):
        hidden, weight, targets, gate = loss.inputs(300, 96, 8, "cpu", dtype)
        loss.METHODS[method](hidden, weight, targets, gate).backward(torch.tensor(0.5))
        gradients[method] = hidden.grad, weight.grad
    for own, other in zip(gradients[name], gradients[peer], strict=True):
        assert (own - other).abs().max() <= of_the_largest * other.abs().max()


def test_ratios_of_the_loss_are_medians_over_passes_of_the_same_turn():
    """The floor, and the fastest competitor of this run; a method that cannot run is neither."""
    import loss

    measured = {
        "products": {"bytes": 10, "times": [1.0, 2.0, 4.0]},
        "plain": {"bytes": 100, "times": [4.0, 4.0, 4.0]},
        "compiled": {"bytes": 50, "times": [1.5, 3.0, 6.0]},
        "gated": {"bytes": 10, "times": [3.0, 3.0, 9.0]},
        "liger": {"error": "not installed", "times": None},
    }
    rows = {row["method"]: row for row in loss._rows((8, 64, 8), "float32", "cpu", measured)}
    assert [rows["gated"][f"time_to_{name}"] for name in ("floor", "fastest", "plain")] == ["2.250", "1.500", "0.750"]
    assert rows["gated"]["memory_to_plain"] == "0.100" and rows["gated"]["seconds"] == "3.0000"
    assert rows["products"]["time_to_floor"] == "1.000" and rows["gated"]["time_to_ungated"] == ""
    assert rows["liger"]["note"] == "not installed" and rows["liger"]["time_to_floor"] == ""


def test_methods_take_turns_and_the_floor_has_three_products():
    import loss

    times = loss.in_turn(["products", "gated"], 40, 64, 8, "cpu", "float32", 3)
    assert {name: len(values) for name, values in times.items()} == {"products": 3, "gated": 3}
    hidden, weight, targets, gate = loss.inputs(40, 64, 8, "cpu", "bfloat16")
    with FlopCounterMode(display=False) as counter:
        loss.products(hidden, weight, targets, gate).backward()
    assert counter.get_total_flops() == 3 * 2 * 40 * 64 * 8


def test_new_rows_replace_those_measured_together_and_keep_the_rest(tmp_path):
    import records

    path = tmp_path / "rows.csv"
    for size, seconds in ((1, "a"), (2, "b"), (1, "c")):
        records.keep([{"size": size, "method": m, "seconds": seconds} for m in "xy"], path, ("size",))
    assert [(row["size"], row["seconds"]) for row in read(path)] == [("2", "b"), ("2", "b"), ("1", "c"), ("1", "c")]


def test_peak_memory_is_that_of_the_largest_moment():
    import measuring

    held = torch.zeros(5_000_000)  # 20 MB, there before and after
    before = measuring.reset_peak("cpu")
    torch.ones(25_000_000).sum()
    assert 95e6 < measuring.peak_bytes("cpu") - before < 130e6
    assert measuring.reset_peak("cpu") - before < 30e6 and held.sum() == 0


@pytest.mark.parametrize("size", ["demo/lm/demo", "demo/nmt/base"])
def test_a_step_of_each_objective_is_set_beside_mle(size, monkeypatch):
    import step

    monkeypatch.setattr(step, "EPOCH", 3)
    monkeypatch.setattr(step, "apart", lambda _script, *task, bare=False: step.one(*task))
    rows = step.compare(size, ["mle", "agg", "freeze", "coupled_adam"], 128, "cpu", rounds=1)
    assert [row["objective"] for row in rows] == ["mle", "agg", "freeze", "coupled_adam"]
    assert all(row["note"] == "" and float(row["seconds"]) > 0 and float(row["time_to_mle"]) > 0 for row in rows)
    assert all(0 <= float(row["counting_share"]) < 1 for row in rows)


@pytest.mark.parametrize("size", ["demo/lm/demo", "demo/nmt/base"])
def test_both_loops_train_on_the_same_tokens_and_learn(size, tmp_path):
    """Otherwise tokens a second of one would mean nothing beside those of the other."""
    import plain_loop
    import throughput
    from workload import Workload

    work = Workload.named(size, 512)
    data = throughput.text(work, 6, tmp_path)
    trainer = throughput.ours("mle", work, data, throughput.Execution(), "cpu", tmp_path)
    prepared = [throughput.PreparedSteps(data, work.vocabulary, 2048)[number].batches for number in range(6)]
    plain = list(plain_loop.trained(work, prepared, False, "cpu"))
    assert list(throughput.trained(trainer, 6)) == plain
    assert max(plain) <= 512 and sum(plain) > 6 * 512 / 2
    model, batch = plain_loop.Plain(work, work.training.block).eval(), prepared[0][0]
    model(list(batch.inputs), batch.targets).backward()
    with torch.no_grad():
        before = model(list(batch.inputs), batch.targets)
        for parameter in model.parameters():
            parameter -= 1e-5 * parameter.grad
        assert model(list(batch.inputs), batch.targets) < before


def read(path: Path) -> list[dict]:
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))
