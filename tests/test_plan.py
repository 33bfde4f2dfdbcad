"""The plan says what the published cost model and measured tensors say, and refuses what cannot fit, with a way out."""

import csv
import json
import math
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import yaml
from tiny import architectures
from torch import nn

from raretokens.errors import UserError
from raretokens.models.registry import build
from raretokens.pipeline import stages
from raretokens.pipeline.config import load
from raretokens.pipeline.jobs import train_job
from raretokens.pipeline.machine.cards import card
from raretokens.pipeline.planning import data, memory, plan, refusal, table
from raretokens.pipeline.planning.data import text
from raretokens.tasks.parameters import Parameters
from raretokens.tools.cli import main

ROOT = Path(__file__).parents[1]
ROWS, POSITIONS = 40, 64  # of small models
# size -> parameters (M), updates, tokens per update, operations and H200 hours at 40 % by 6 x parameters x tokens.
PUBLISHED = {
    "lm6": (41.6, 40_000, 32_768, 3.27e17, 0.229),
    "gpt2m": (347.6, 50_000, 32_768, 3.42e18, 2.397),
    "lmw6": (156.0, 320_000, 4_096, 1.23e18, 0.861),
    "base": (64.9, 190_000, 65_536, 4.85e18, 3.403),
    "iwslt": (17.2, 100_000, 4_096, 4.22e16, 0.0296),
    "big": (218.0, 190_000, 65_536, 1.63e19, 11.422),
}
PLENTY = refusal.Resources(host=1e15, disk=1e15, device=1e15)


@pytest.fixture
def paper(tmp_path, monkeypatch) -> Parameters:
    """Paper-scale parameters, in a folder without token files."""
    monkeypatch.chdir(tmp_path)
    return load(ROOT / "scales/paper/params.yaml")


def planned(parameters: Parameters, task: str, name: str, processes: int = 1) -> plan.Planned:
    run = parameters.run(task, name)
    return plan.plan(train_job(parameters, run), text(parameters, run.tokens), "cuda", processes)


def test_every_paper_scale_run_costs_what_the_cost_model_says(paper):
    """Operations are 6 x parameters x tokens plus attention, which the published model leaves out."""
    h200 = card("h200")
    for run in paper.every_run():
        if run.task not in ("lm", "nmt"):  # no Transformer
            continue
        one = planned(paper, run.task, run.name)
        parameters, updates, tokens, flops, hours = PUBLISHED[run.model]
        assert round(one.parameters / 1e6, 1) == parameters, run.name
        assert one.tokens == updates * tokens
        assert one.flops - one.attention_flops == pytest.approx(flops, rel=0.01), run.name
        share = one.attention_flops / one.flops
        assert one.hours(h200, 0.4) * (1 - share) == pytest.approx(hours, rel=0.01), run.name
        assert 0 < share < (0.16 if run.task == "lm" else 0.02)
    eight = planned(paper, "lm", "gpt2m-mle", processes=8)
    assert eight.hours(h200, 0.4) == pytest.approx(planned(paper, "lm", "gpt2m-mle").hours(h200, 0.4) / 8)


def test_what_fits_is_not_refused_and_advice_that_is_followed_helps(paper):
    one = planned(paper, "lm", "gpt2m-agg")
    assert list(refusal.shortfalls(one, PLENTY)) == []
    (line,) = refusal.shortfalls(one, replace(PLENTY, device=24e9))
    assert line.startswith("lm/gpt2m-agg: needs about ") and "24.0 GB are free; set micro_batch to " in line
    micro = int(line.split("micro_batch to ")[1].split()[0])
    Path("data/scratch").mkdir(parents=True)
    Path("data/scratch/machine.yaml").write_text(f"micro_batch: {micro}\n")
    one = planned(paper, "lm", "gpt2m-agg")
    assert one.device_bytes <= 24e9
    (line,) = refusal.shortfalls(one, replace(PLENTY, device=4e9))
    assert line.endswith("no micro_batch is small enough, take another GPU or machine")


def test_what_is_not_known_is_said_and_not_refused(paper):
    one = planned(paper, "lm", "gpt2m-agg")
    unknown = replace(one.forward, fixed=math.nan, per_sequence=math.nan)
    one = replace(one, forward=unknown)
    assert list(refusal.shortfalls(one, replace(PLENTY, device=4e9))) == []
    assert table.row(one, card("h200"), 0.4)["fits"] == "unknown"


def test_disk_counts_the_copies_of_the_table(paper):
    one = planned(paper, "nmt", "base-mle")
    copies = 191 * 40_624 * 512 * 2  # of float16, one each 1000 of 190,000 updates and the first
    assert one.disk_left == pytest.approx(copies + 4 * one.parameters, rel=0.01)
    (line,) = refusal.shortfalls(one, replace(PLENTY, disk=copies))
    assert "of disk" in line and line.endswith("free some or raise nmt.training.snapshot_every")
    enough = one.disk_left + one.disk_while_training
    assert list(refusal.shortfalls(one, replace(PLENTY, disk=enough))) == []
    assert len(list(refusal.shared_shortfalls([one, one], replace(PLENTY, disk=enough)))) == 1


def measured(architecture: str, shape: dict, is_half: bool = False, device: str = "cpu") -> memory.ForwardPass:
    sides = architectures.sides(build(architecture, shape, ROWS, POSITIONS))
    return memory.measure_forward(architecture, json.dumps(shape), ROWS, POSITIONS, sides, is_half, device)


@pytest.mark.parametrize("is_half", [False, True])
@pytest.mark.parametrize("architecture", architectures.EVERY)
def test_activations_are_those_of_a_real_pass_on_a_cpu_and_fewer_on_a_gpu(architecture, is_half, monkeypatch):
    """A GPU does not keep attention scores, which grow with the square of the positions."""
    shape, sequences = architectures.shape(architecture, dropout=0.1, attention_dropout=0.1), 6
    model = build(architecture, shape, ROWS, POSITIONS)
    found = measured(architecture, shape, is_half)
    monkeypatch.setattr(torch.backends.mkldnn, "enabled", False)
    kept = memory.saved_bytes(model, sequences, POSITIONS, architectures.sides(model), is_half)
    assert found.fixed + sequences * found.per_sequence == kept
    assert (found.parameters, found.width) == (sum(one.numel() for one in model.parameters()), shape["width"])
    fused = measured(architecture, shape, is_half, "cuda").per_sequence
    assert fused == pytest.approx(found.per_sequence) if "heads" not in shape else fused < found.per_sequence


def test_the_pass_of_a_large_model_takes_no_memory_and_leaves_nothing_changed():
    medium = architectures.shape("decoder", layers=24, width=1024, heads=16, feedforward=4096, dropout=0.1)
    before = torch.random.get_rng_state()
    found = memory.measure_forward("decoder", json.dumps(medium), 44_256, 512, 1, True, "cuda")
    assert found.fixed == 2 * 24 * (4 * 1024**2 + 2 * 1024 * 4096)  # matrices of the layers in bfloat16
    assert torch.equal(before, torch.random.get_rng_state()) and torch.backends.mkldnn.enabled


def test_activations_that_depend_on_values_are_unknown(monkeypatch):
    class Reading(nn.Module):
        def __init__(self, vocabulary: int, positions: int) -> None:
            super().__init__()
            self.embedding = nn.Parameter(torch.empty(vocabulary, 8))

        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            return nn.functional.embedding(inputs, self.embedding) * int(inputs.max())

    monkeypatch.setitem(sys.modules, "raretokens.models.reading", SimpleNamespace(MODEL=Reading))
    found = memory.measure_forward("reading", "{}", ROWS, POSITIONS, 1, False, "cpu")
    assert (found.parameters, found.width) == (ROWS * 8, 8) and math.isnan(found.fixed + found.per_sequence)


@pytest.mark.parametrize("scale", [".", "scales/small"])
def test_the_plan_of_a_scale_has_a_line_for_each_run(scale, tmp_path, monkeypatch, capsys):
    declared = (ROOT / scale / "params.yaml").read_text()
    (tmp_path / "params.yaml").write_text(declared)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["plan", "plan", "--gpu", "a100", "--gpus", "2", "--csv", "-"])
    main()
    rows = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    tree = yaml.safe_load(declared)
    sheet = {task: [*lines, *tree.get("continued", {}).get(task, {})] for task, lines in tree["runs"].items()}
    assert [row["run"] for row in rows] == [f"{task}/{name}" for task in sorted(sheet) for name in sheet[task]]
    assert all(math.isfinite(float(row["hours"])) and row["fits"] == "yes" for row in rows)
    monkeypatch.setattr(sys, "argv", ["plan", "plan", "--csv", "."])
    with pytest.raises(SystemExit):
        main()
    assert "--csv: . is a folder; should be a file" in capsys.readouterr().err


def test_scratch_and_outputs_may_be_on_disks_of_their_own(paper):
    """Each is asked for what it has to hold, and named."""
    one = planned(paper, "nmt", "base-mle")
    enough = replace(PLENTY, disk=one.disk_while_training, output_disk=one.disk_left)
    assert list(refusal.shortfalls(one, enough)) == []
    (line,) = refusal.shortfalls(one, replace(enough, output_disk=one.disk_left - 1e9))
    assert "of disk in data/runs, " in line
    (line,) = refusal.shortfalls(one, replace(enough, disk=one.disk_while_training - 1e9))
    assert "of disk in data/scratch/runs, " in line
    (line,) = refusal.shared_shortfalls([one, one], enough)
    assert line.startswith("2 runs together need ") and "data/runs" in line


def test_the_copy_in_dvc_s_cache_is_counted_where_it_is_on_the_disk_of_outputs(paper, tmp_path, monkeypatch):
    one = planned(paper, "nmt", "base-mle")
    both = replace(PLENTY, disk=2 * one.disk_left + one.disk_while_training, copies=2)
    assert list(refusal.shortfalls(one, both)) == []
    assert len(list(refusal.shortfalls(one, replace(both, disk=both.disk - 1e9)))) == 1
    monkeypatch.chdir(tmp_path)
    assert refusal.cache() == Path(".dvc/cache") and refusal.copies() == 2
    Path(".dvc").mkdir()
    Path(".dvc/config").write_text("[core]\n    analytics = false\n[cache]\n    dir = ../here\n")
    Path(".dvc/config.local").write_text("[cache]\n    dir = /proc\n")
    assert refusal.cache() == Path("/proc") and refusal.copies() == 1


def run_command(monkeypatch, *words: str) -> str:
    """Return the error of a command that fails."""
    monkeypatch.setattr(sys, "argv", ["raretokens", *words])
    with pytest.raises(SystemExit) as stopped:
        main()
    return str(stopped.value)


def test_a_check_for_another_gpu_counts_the_disks_of_this_machine(tmp_path, monkeypatch):
    shutil.copy(ROOT / "params.yaml", tmp_path)
    monkeypatch.chdir(tmp_path)
    here = refusal.Resources(host=0, disk=1e15, device=0, output_disk=0, copies=2)
    monkeypatch.setattr(refusal, "available", lambda *_: here)
    (line,) = run_command(monkeypatch, "plan", "lm/mle", "--check", "--gpu", "h200").splitlines()
    assert line.startswith("error: lm/mle: needs ") and "of disk in data/runs, 0.0 GB are free" in line


def test_a_name_means_the_runs_of_all_tasks_and_task_slash_name_one(tmp_path, monkeypatch):
    tree = yaml.safe_load((ROOT / "params.yaml").read_text())
    sheet = {task: {"mle": tree["runs"][task][name]} for task, name in (("lm", "mle"), ("nmt", "base-mle"))}
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(tree | {"runs": sheet, "continued": {}}))
    monkeypatch.chdir(tmp_path)
    lines = [run_command(monkeypatch, "alpha", name) for name in ("mle", "nmt/mle")]
    assert [line.partition(";")[0] for line in lines] == [f"error: no tokens yet of {names}" for names in ("lm, nmt", "nmt")]
    assert run_command(monkeypatch, "alpha", "agg") == "error: no run named 'agg'; the run sheet has mle, mle"


def test_free_space_is_that_of_the_disk_of_data_and_not_of_the_code(tmp_path, monkeypatch):
    """data/ may be a link to another disk; what is not there yet will be made in the nearest folder that is."""
    other = tmp_path / "other"
    (other / "runs").mkdir(parents=True)
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    Path("data").symlink_to(other)
    asked = []
    monkeypatch.setattr(
        refusal.shutil,
        "disk_usage",
        lambda place: asked.append(Path(place).resolve()) or shutil._ntuple_diskusage(9, 2, 7),
    )
    assert refusal.free_disks() == (7, None)
    assert asked == [other, other / "runs"]


def test_a_plan_to_read_says_what_the_runs_leave_on_the_disk(paper, capsys):
    one = planned(paper, "nmt", "base-mle")
    table.show([table.row(one, card("h200"), 0.4)], [one], card("h200"), 0.4)
    shown = capsys.readouterr().out
    assert (
        "Disk: what the runs write takes 8." in shown and "1 runs, 3:26 h on 1 x h200" in shown and " 3:26 h " in shown
    )


@pytest.mark.parametrize(
    ("hours", "said"), [(8.38e-07, "< 1 s"), (0.004, "14 s"), (0.999, "1:00 h"), (0.5, "30 min"), (159.93, "159:56 h")]
)
def test_the_time_is_told_in_units_that_a_person_reads(hours, said):
    assert table.duration(hours) == said


def test_an_unknown_card_names_the_known_ones():
    with pytest.raises(UserError, match="--gpu: 'h20' is not known; allowed: .*h100, h200"):
        card("h20")


def test_a_run_that_cannot_fit_stops_before_any_work(tmp_path, monkeypatch):
    """The train stage itself: one line, and nothing written."""
    tree = yaml.safe_load((ROOT / "params.yaml").read_text())
    tree["lm"]["models"]["demo"] |= {"layers": 48, "width": 65536, "feedforward": 65536}
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(tree))
    data.write_random_tokens(tmp_path / "data/tokens/lm", 4000, {"train": 4000, "valid": 500})
    monkeypatch.chdir(tmp_path)
    stages.jobs()
    with pytest.raises(UserError, match="^lm/mle: needs about .* no micro_batch is small enough"):
        stages.train("lm", "mle")
    assert sorted(path.name for path in tmp_path.glob("data/*")) == ["jobs", "tokens"]
