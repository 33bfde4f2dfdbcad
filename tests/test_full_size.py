"""Every paper-scale run trains: two of them at full width and vocabulary, all of them with a narrow model."""

import copy
import dataclasses
import math
from functools import cache
from pathlib import Path

import pytest
import torch
import yaml

from raretokens.vocabulary import Vocabulary
from raretokens.yaml_files import checked
from reproduction import tasks
from reproduction.paths import tokens as token_files
from reproduction.pipeline import full_size, settings
from reproduction.pipeline.jobs import train_job
from reproduction.pipeline.parameters_file import schema
from reproduction.pipeline.plan import Planned, plan, vocabulary_size
from reproduction.tasks.parameters import Parameters
from reproduction.training.recipe import Execution, Observer
from reproduction.training.run import train

ROOT = Path(__file__).parents[1]
SHEET = yaml.safe_load((ROOT / "scales/paper/params.yaml").read_text())
PARAMETERS = checked(schema(), SHEET, "params.yaml")
VOCABULARY = cache(Vocabulary.read)  # most runs read the same one
NARROW = {"layers": 1, "width": 16, "heads": 2, "feedforward": 16}  # of what a shape has


def planned(parameters: Parameters, task: str, name: str, tokens: int) -> Planned:
    """The run with smaller updates, on this CPU."""
    run = parameters.run(task, name)
    return plan(full_size.shrunk(train_job(parameters, run), tokens), vocabulary_size(parameters, run.tokens), "cpu")


@pytest.mark.parametrize("objective", ["freeze_bc", "ul_agg"])
@pytest.mark.slow
def test_the_six_layer_model_takes_its_planned_memory_within_a_factor_of_1_5(objective, tmp_path, monkeypatch):
    """41.6 M parameters, 44,256 types, four steps and an evaluation by the train stage; only the steps are small."""
    line = {"tokens": "lm", "model": "lm6", "objective": objective}
    monkeypatch.chdir(tmp_path)
    sheet = copy.deepcopy(SHEET) | {"runs": {"lm": {"one": line}, "nmt": {}}}
    if not torch.ops.mkldnn._is_mkldnn_bf16_supported():  # a step in bfloat16 would take a minute
        sheet["lm"]["training"]["precision"] = "float32"
    parameters = checked(schema(), sheet, "params.yaml")
    threads = 1  # more make the heap's peak vary
    done = full_size.attempt(ROOT, threads, planned(parameters, "lm", "one", 256))
    assert done["parameters"] == 41_574_400
    assert done["last_loss"] < done["first_loss"] and math.isfinite(done["evaluation"])
    assert 1 / 1.5 < done["planned_mb"] / done["peak_mb"] < 1.5
    assert 0 < done["step_seconds"] < done["seconds"] / 4


@pytest.mark.parametrize(("task", "name", "device", "is_compiled"), [
    ("lm", "gpt2m-mle", "cuda", True), ("lm", "gpt2m-mle", "cpu", False), ("recurrent", "awd-wt2-mle", "cuda", False),
])  # fmt: skip
def test_a_trial_of_a_few_steps_is_compiled_where_the_whole_run_is(task, name, device, is_compiled, tmp_path):
    one = dataclasses.replace(planned(PARAMETERS, task, name, 64), device=device)
    (tmp_path / "machine.yaml").write_text(full_size.machine_text(one))
    machine = settings.read(tmp_path / "machine.yaml")
    assert machine.micro_batch == one.micro_batch and machine.execution(2).compile is is_compiled


@pytest.fixture(scope="module")
def tokens(tmp_path_factory) -> Path:
    """Random token files of the paper scale's vocabularies; of words only the most frequent ones."""
    folder = tmp_path_factory.mktemp("tokens")
    for kind, rows in (("lm", 44_256), ("words", 40_000), ("nmt", 40_624)):
        longest = 64 if kind == "nmt" else None
        full_size.write_random_tokens(folder / kind, rows, {"train": 1024 if longest else 4096, "valid": 128}, longest)
    return folder


SAME_KIND = {"option_from", "seed"}  # keys of run lines


def lines() -> list[tuple[str, str]]:
    """Task and name of the runs that differ in more than their size, their seed or the value of an option."""
    kinds = {
        (task, line.get("tokens"), line["objective"], line.get("reverse"), *sorted({*line} - SAME_KIND)): (task, name)
        for task, sheet in SHEET["runs"].items()
        for name, line in reversed(sheet.items())
    }
    return sorted(kinds.values())


@pytest.mark.usefixtures("other_accelerator")
@pytest.mark.parametrize(("task", "name"), lines())
@pytest.mark.slow
def test_every_run_line_trains_with_a_narrow_model(task, name, tokens, tmp_path, monkeypatch):
    """The run's objective and options on the vocabulary of its task: a few steps and an evaluation."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Vocabulary, "read", VOCABULARY)
    one = planned(PARAMETERS, task, name, 64)
    job = full_size.shortened(one)
    job = job.replaced(
        run=job.run.replaced(shape=job.run.shape | {key: NARROW[key] for key in NARROW if key in job.run.shape})
    )
    folder = tokens / job.run.tokens
    if not folder.exists():  # of another kind than these
        full_size._prepare(tmp_path, one)
        folder = tmp_path / token_files(job.run.tokens)
    train(job, b"", tasks.load(task), Execution(), Observer(), folder, tmp_path / "scratch", tmp_path / "out")
    losses, evaluation = full_size.results(tmp_path / "out")
    assert len(losses) == full_size.STEPS and all(map(math.isfinite, (*losses, evaluation)))
