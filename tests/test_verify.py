"""Whether committed reports are those of the code and the parameters, and what they cost: on a dvc.lock made by hand."""

import hashlib
import json
import shutil
from pathlib import Path

import pytest
import yaml

from raretokens import csv_files
from raretokens.pipeline import trained
from raretokens.pipeline.config import load
from raretokens.pipeline.jobs import job_files
from raretokens.pipeline.lock_file import verify

ROOT = Path(__file__).parents[1]
STAGES = {"score-lm@mle": "score-lm/mle.json", "score-lm@agg": "score-lm/agg.json", "predict-lm@mle": "predict-lm/mle.json"}


@pytest.fixture
def scale(tmp_path, monkeypatch) -> Path:
    """A scale whose three stages were run with its parameters, and one that its params.yaml no longer has."""
    shutil.copy(ROOT / "params.yaml", tmp_path)
    monkeypatch.chdir(tmp_path)
    jobs = {str(path): content for path, content in job_files(load()).items()}
    stages = {}
    for name, job in STAGES.items():
        report = Path(f"reports/runs/{name}.json")
        report.parent.mkdir(parents=True, exist_ok=True)
        report.write_text(name)
        stages[name] = stage(f"data/jobs/{job}", jobs[job], str(report), name)
    stages["score-lm@gone"] = stage("data/jobs/score-lm/gone.json", "", "reports/runs/gone.json", "")
    Path("dvc.lock").write_text(yaml.safe_dump({"schema": "2.0", "stages": stages}))
    return tmp_path


def stage(job: str, told: str, report: str, written: str) -> dict:
    return {"cmd": "", "deps": [{"path": job, "md5": md5(told)}], "outs": [{"path": report, "md5": md5(written)}]}


def md5(text: str) -> str:
    return hashlib.md5(text.encode()).hexdigest()


def test_reports_of_the_same_parameters_belong(scale):
    assert str(verify()) == "the outputs of 3 stages belong to this code and these parameters"


def test_stages_that_would_be_told_something_else_are_newer(scale):
    params = Path("params.yaml")
    params.write_text(params.read_text().replace("alpha: 0.03", "alpha: 0.04", 1))
    assert verify().outdated == ["score-lm@agg"]
    assert str(verify()) == "newer than the reports: score-lm (1); dvc repro runs them"


@pytest.mark.parametrize("change", [lambda path: path.write_text("better"), Path.unlink], ids=["edited", "missing"])
def test_a_report_that_no_stage_wrote_is_named(scale, change):
    change(Path("reports/runs/score-lm@agg.json"))
    assert str(verify()) == "not what dvc.lock says: reports/runs/score-lm@agg.json"


def test_a_scale_that_was_never_run_says_so(scale):
    Path("dvc.lock").unlink()
    assert str(verify()) == "never run"


def train(name: str, weights: str, seconds: float | None = None) -> dict:
    """dvc.lock's stage of a run; with its files and its time if it was trained here."""
    if seconds is not None:
        Path(f"data/runs/lm/{name}").mkdir(parents=True)
        timing = Path(f"data/scratch/timing/lm-{name}.json")
        timing.parent.mkdir(parents=True, exist_ok=True)
        facts = {"seconds": seconds, "machine": "x86_64, 1 thread", "revision": "abc", "peak_memory_bytes": 6e8}
        timing.write_text(json.dumps(facts))
    return {"outs": [{"path": f"data/runs/lm/{name}", "md5": f"{weights}.dir"}]}


def test_what_a_run_cost_is_known_while_its_weights_are_the_same(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    known = "lm,{},0.500,a card,3.0,old,,{}\n"
    rows = known.format("elsewhere", "e1") + known.format("anew", "old") + known.format("gone", "g1")
    Path("trained.csv").write_text(f"{','.join(trained.COLUMNS)}\n{rows}")
    stages = {"here": train("here", "h1", 1800.0), "elsewhere": train("elsewhere", "e1"), "anew": train("anew", "new")}
    Path("dvc.lock").write_text(yaml.safe_dump({"schema": "2.0", "stages": stages}))
    lines = {row.run: (row.hours, row.machine, row.weights) for row in trained.table().itertuples()}
    assert lines == {
        "here": ("0.500", "x86_64, 1 thread", "h1"),
        "elsewhere": ("0.500", "a card", "e1"),
        "anew": ("", "", "new"),
    }


def test_the_committed_weights_are_those_of_the_committed_reports(monkeypatch):
    for file in ROOT.glob("scales/*/trained.csv"):
        monkeypatch.chdir(file.parent)
        rows = csv_files.read_csv(file)
        assert dict(zip(zip(rows.task, rows.run, strict=True), rows.weights, strict=True)) == trained.weights(), (
            f"python -m raretokens trained in {file.parent.relative_to(ROOT)} writes it anew"
        )
