"""The plan agrees with the published cost model and with recorded runs, and refuses what cannot fit."""

import csv
import json
import math
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
import torch
import yaml
from tiny import architectures
from torch import nn
from torch.autograd.graph import saved_tensors_hooks

from raretokens.errors import UserError
from reproduction.commands import main, plan_commands
from reproduction.pipeline import full_size, plan, stages
from reproduction.pipeline.jobs import train_job
from reproduction.pipeline.parameters_file import load
from reproduction.pipeline.settings import card
from reproduction.tasks.parameters import Parameters
from reproduction.training.models.registry import build

ROOT = Path(__file__).parents[1]
ROWS, POSITIONS = 40, 16  # of small models
# model -> parameters (M), steps, tokens per step, FLOPs by 6 x parameters x tokens.
PUBLISHED = {
    "lm6": (41.6, 40_000, 32_768, 3.27e17),
    "gpt2m": (347.6, 50_000, 32_768, 3.42e18),
    "lmw6": (156.0, 320_000, 4_096, 1.23e18),
    "base": (64.9, 190_000, 65_536, 4.85e18),
    "iwslt": (17.2, 100_000, 4_096, 4.22e16),
    "big": (218.0, 190_000, 65_536, 1.63e19),
}
# Seconds of a step measured on an H200 that nothing else used (benchmarks/card-cuda.csv).
STEPS = {
    ("lm", "gpt2m-agg"): 0.190, ("lm", "lmw6-agps"): 0.0208, ("nmt", "base-mle"): 0.466, ("recurrent", "awd-wt2-mle"): 0.0524,
}  # fmt: skip
PLENTY = plan.Resources(host=1e15, disk=1e15, device=1e15)


@pytest.fixture
def paper(tmp_path, monkeypatch) -> Parameters:
    """Paper-scale parameters, in a folder without token files."""
    monkeypatch.chdir(tmp_path)
    return load(ROOT / "scales/paper/params.yaml")


def planned(parameters: Parameters, task: str, name: str, device: str = "cuda", processes: int = 1) -> plan.Planned:
    run = parameters.run(task, name)
    return plan.plan(train_job(parameters, run), plan.vocabulary_size(parameters, run.tokens), device, processes)


def test_every_transformer_of_the_paper_scale_takes_6_n_d_operations_and_those_of_attention(paper):
    for run in paper.every_run():
        if run.task not in ("lm", "nmt"):
            continue
        one = planned(paper, run.task, run.name)
        parameters, steps, tokens, flops = PUBLISHED[run.model]
        assert round(one.model.parameters / 1e6, 1) == parameters, run.name
        assert one.tokens == steps * tokens
        assert flops * 0.99 < one.flops < flops * (1.2 if run.task == "lm" else 1.03), run.name


def test_hours_are_operations_at_a_share_of_the_peak_of_all_cards(paper):
    one = planned(paper, "lm", "gpt2m-mle")
    assert one.hours(card("h200"), 0.4) == pytest.approx(one.flops / (0.4 * 989.5e12) / 3600)
    assert planned(paper, "lm", "gpt2m-mle", processes=2).hours(card("h200")) == pytest.approx(one.hours(card("h200")) / 2)
    recurrent = planned(paper, "recurrent", "awd-wt2-mle")  # in float32
    assert recurrent.hours(card("h200"), 0.4) == pytest.approx(recurrent.flops / (0.4 * 67e12) / 3600)


@pytest.mark.parametrize("run", STEPS)
def test_steps_that_were_measured_on_a_gpu_are_planned_within_a_quarter(paper, run):
    one = planned(paper, *run)
    assert 0.75 < 3600 * one.hours(card("h200")) / one.training.steps / STEPS[run] < 1.25


def test_the_memory_of_most_recorded_runs_is_planned_within_a_factor_of_2(monkeypatch):
    """The heap of long runs is fragmented, so some peaks are larger. No run is refused that was trained."""
    monkeypatch.chdir(ROOT / "scales/small")
    parameters, recorded = load(), pd.read_csv("trained.csv").dropna(subset=["hours"])
    ratios = [
        planned(parameters, row.task, row.run, "cpu").memory / 1e9 / row.peak_gb
        for row in recorded[~recorded.machine.str.contains("NVIDIA")].itertuples()
    ]
    assert len(ratios) > 100 and pd.Series(ratios).between(0.5, 2).mean() > 0.75 and max(ratios) < 1 / plan.CERTAIN


@pytest.mark.parametrize("architecture", architectures.EVERY)
def test_activations_are_about_those_of_a_real_pass_on_a_cpu(architecture, monkeypatch):
    monkeypatch.setattr(torch.backends.mkldnn, "enabled", False)  # its recurrent layers keep a workspace of their own
    shape, sequences = architectures.shape(architecture, dropout=0.1, attention_dropout=0.1), 6
    model = build(architecture, shape, ROWS, POSITIONS)
    sides = architectures.sides(model)
    found = plan.measure_model_size(architecture, json.dumps(shape), ROWS, POSITIONS, sides, "cpu")
    example = getattr(model, "example", None)
    ids = torch.zeros(sequences, POSITIONS, dtype=torch.int64)
    inputs, storages = example(sequences, POSITIONS) if example else [ids] * sides, set()
    with saved_tensors_hooks(lambda tensor: storages.add(tensor.untyped_storage()) or tensor, lambda tensor: tensor):
        model(*inputs)
    own = {tensor.untyped_storage() for tensor in (*model.parameters(), *model.buffers(), *inputs)}
    kept = sum(storage.nbytes() for storage in storages - own)
    assert (found.fixed + sequences * POSITIONS * found.activations) / kept == pytest.approx(1.0, abs=0.25)
    assert (found.parameters, found.width) == (sum(one.numel() for one in model.parameters()), shape["width"])


def test_a_model_whose_pass_reads_values_has_unknown_memory_and_is_not_refused(paper, monkeypatch):
    class Reading(nn.Module):
        def __init__(self, vocabulary: int, positions: int) -> None:
            super().__init__()
            self.embedding = nn.Parameter(torch.empty(vocabulary, 8))

        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            return nn.functional.embedding(inputs, self.embedding) * int(inputs.max())

    monkeypatch.setitem(sys.modules, "reproduction.training.models.reading", SimpleNamespace(MODEL=Reading))
    found = plan.measure_model_size("reading", "{}", ROWS, POSITIONS, 1, "cpu")
    assert (found.parameters, found.width) == (ROWS * 8, 8) and math.isnan(found.activations)
    one = replace(planned(paper, "lm", "gpt2m-agg"), model=found)
    assert list(plan.shortfalls(one, replace(PLENTY, device=1e3, host=1e3))) == [] or math.isnan(one.memory)
    assert plan.fits(one.memory, 1e15) == "unknown"


def test_what_fits_is_not_refused_and_a_smaller_micro_batch_helps(paper):
    one = planned(paper, "lm", "gpt2m-agg")
    assert list(plan.shortfalls(one, PLENTY)) == []
    (line,) = plan.shortfalls(one, replace(PLENTY, device=24e9))
    assert line.startswith("lm/gpt2m-agg: needs about ") and "24.0 GB are free; lower micro_batch (32768) in " in line
    Path("data/scratch").mkdir(parents=True)
    Path("data/scratch/machine.yaml").write_text("micro_batch: 4096\n")
    assert list(plan.shortfalls(planned(paper, "lm", "gpt2m-agg"), replace(PLENTY, device=24e9))) == []


def test_an_estimate_between_certain_and_enough_is_tight():
    assert [plan.fits(10.0, free) for free in (10.0, 9.0, 6.0, 5.0)] == ["yes", "tight", "tight", "no"]


def test_disk_counts_the_copies_of_the_embedding_matrix(paper):
    one = planned(paper, "nmt", "base-mle")
    copies = 191 * 40_624 * 512 * 2  # of float16, one each 1000 of 190,000 steps and the first
    assert one.disk == copies + 4 * one.model.parameters
    (line,) = plan.shortfalls(one, replace(PLENTY, disk=copies))
    assert "of disk" in line and line.endswith("free some or raise nmt.training.snapshot_every")
    assert list(plan.shortfalls(one, replace(PLENTY, disk=one.disk + one.disk_while_training))) == []


def test_translation_is_planned_in_micro_batches_of_one_bucket_or_of_several_short_ones(paper):
    """Eight buckets of 8,192 tokens make up a step, whatever a larger micro_batch says; a smaller one is respected."""
    short, base = planned(paper, "nmt", "iwslt-mle"), planned(paper, "nmt", "base-mle")
    assert (short.micro_batch, base.micro_batch, base.passes) == (4096, 8192, 8)
    Path("data/scratch").mkdir(parents=True)
    Path("data/scratch/machine.yaml").write_text("micro_batch: 4096\n")
    assert planned(paper, "nmt", "base-mle").passes == 16


def rows_of(monkeypatch, capsys, *words: str) -> dict[str, dict[str, str]]:
    monkeypatch.setattr(sys, "argv", ["reproduction", "plan", *words, "--csv", "-"])
    main()
    return {row["run"]: row for row in csv.DictReader(capsys.readouterr().out.splitlines())}


@pytest.mark.parametrize("scale", [".", "scales/small"])
def test_the_plan_of_a_scale_has_a_line_for_each_run(scale, tmp_path, monkeypatch, capsys):
    declared = (ROOT / scale / "params.yaml").read_text()
    (tmp_path / "params.yaml").write_text(declared)
    monkeypatch.chdir(tmp_path)
    rows = rows_of(monkeypatch, capsys, "--gpu", "a100", "--gpus", "2")
    tree = yaml.safe_load(declared)
    sheet = {task: [*lines, *tree.get("continued", {}).get(task, {})] for task, lines in tree["runs"].items()}
    assert [*rows] == [f"{task}/{name}" for task in sorted(sheet) for name in sheet[task]]
    assert all(float(row["hours"]) > 0 and row["fits"] == "yes" for row in rows.values())
    monkeypatch.setattr(sys, "argv", ["plan", "plan", "--csv", "."])
    with pytest.raises(SystemExit):
        main()
    assert "--csv: . is a folder; should be a file" in capsys.readouterr().err


@pytest.mark.usefixtures("paper")
def test_hours_are_those_of_the_check_else_of_the_training_else_unknown(monkeypatch, capsys):
    (Path.cwd() / "params.yaml").write_text((ROOT / "scales/paper/params.yaml").read_text())
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    trainings = pd.DataFrame({"task": "lm", "run": ["lm6-mle", "lm6-freeze"], "hours": ["5.0", "6.0"], "machine": "AMD"})
    monkeypatch.setattr(plan_commands.records, "trained_table", lambda: trainings)
    size = {"machine": "Xeon", "parameters": 41_574_400}
    full_size.record({"run": "lm/lm6-mle", **size, "tokens_per_step": 32_768, "step_seconds": 9.0})
    full_size.record({"run": "lm/lm6-mle", **size, "tokens_per_step": 32_768, "step_seconds": 0.9})
    full_size.record({"run": "lm/lm6-freeze", **size, "tokens_per_step": 256, "step_seconds": 0.1})  # not the step of the run
    rows = rows_of(monkeypatch, capsys, "lm6-mle", "lm6-freeze", "gpt2m-mle")
    found = {name: (row["hours"], row["hours_from"]) for name, row in rows.items()}
    assert found["lm/lm6-mle"] == ("10", "check on Xeon") and found["lm/lm6-freeze"] == ("6", "training on AMD")
    assert found["lm/gpt2m-mle"] == ("unknown", "")
    rows = rows_of(monkeypatch, capsys, "lm6-mle", "--gpu", "h200", "--utilisation", "0.2")
    assert rows["lm/lm6-mle"]["hours_from"] == "FLOPs at 20% of the peak of h200"
    monkeypatch.setattr(sys, "argv", ["reproduction", "plan", "lm6-mle", "gpt2m-mle"])
    main()
    shown = capsys.readouterr().out
    assert "1 runs: 10 hours by check on Xeon" in shown and "1 runs: no hours; `check` measures" in shown


def test_a_name_means_the_runs_of_all_tasks_and_task_slash_name_one(tmp_path, monkeypatch):
    tree = yaml.safe_load((ROOT / "params.yaml").read_text())
    sheet = {task: {"mle": tree["runs"][task][name]} for task, name in (("lm", "mle"), ("nmt", "base-mle"))}
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(tree | {"runs": sheet, "continued": {}}))
    monkeypatch.chdir(tmp_path)
    lines = []
    for name in ("mle", "nmt/mle", "agg"):
        monkeypatch.setattr(sys, "argv", ["reproduction", "alpha", name])
        with pytest.raises(SystemExit) as stopped:
            main()
        lines.append(str(stopped.value).partition(";")[0])
    assert lines == [f"error: no tokens yet of {names}" for names in ("lm, nmt", "nmt")] + ["error: no run named 'agg'"]


def test_free_space_is_that_of_the_disk_of_data(tmp_path, monkeypatch):
    """data/ may be a link to another disk. The nearest folder that exists counts."""
    (tmp_path / "other").mkdir()
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    asked = []
    monkeypatch.setattr(plan.shutil, "disk_usage", lambda path: asked.append(Path(path).resolve()) or SimpleNamespace(free=7))
    assert plan.available().disk == 7
    Path("data").symlink_to(tmp_path / "other")
    plan.available()
    assert asked == [tmp_path / "project", tmp_path / "other"]


def test_an_unknown_card_names_the_known_ones():
    with pytest.raises(UserError, match="--gpu: 'h20' is not known; allowed: .*h100, h200"):
        card("h20")


def test_a_run_that_cannot_fit_stops_before_any_work(tmp_path, monkeypatch):
    """The train stage itself: one line, and nothing written."""
    tree = yaml.safe_load((ROOT / "params.yaml").read_text())
    tree["lm"]["models"]["demo"] |= {"layers": 48, "width": 65536, "feedforward": 65536}
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(tree))
    full_size.write_random_tokens(tmp_path / "data/tokens/lm", 4000, {"train": 4000, "valid": 500})
    monkeypatch.chdir(tmp_path)
    stages.jobs()
    with pytest.raises(UserError, match="^lm/mle: needs about .* of memory, .* are free; lower micro_batch"):
        stages.train("lm", "mle")
    assert sorted(path.name for path in tmp_path.glob("data/*")) == ["jobs", "tokens"]
