"""Whether committed reports are those of the code and the parameters, and what they cost: on a dvc.lock made by hand."""

import hashlib
import json
import shutil
from pathlib import Path

import pytest
import yaml
from dvc.fs import localfs
from dvc_data.hashfile.build import build
from dvc_data.hashfile.db import HashFileDB
from tiny import world

from raretokens import csv_files
from reproduction.commands import scale_commands
from reproduction.pipeline import lock_file, records
from reproduction.pipeline.jobs import job_files
from reproduction.pipeline.lock_file import verify
from reproduction.pipeline.parameters_file import load

ROOT = Path(__file__).parents[1]
JOBS = {"score-lm@mle": "score-lm/mle.json", "score-lm@agg": "score-lm/agg.json", "predict-lm@mle": "predict-lm/mle.json"}


@pytest.fixture
def scale(tmp_path, monkeypatch) -> Path:
    """A scale whose three stages were run with its parameters, and one that its params.yaml no longer has."""
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(world.parameters(), sort_keys=False))
    monkeypatch.chdir(tmp_path)
    jobs = {str(path): content for path, content in job_files(load()).items()}
    stages = {}
    for name, job in JOBS.items():
        report = Path(f"reports/runs/{name}.json")
        report.parent.mkdir(parents=True, exist_ok=True)
        report.write_text(name)
        stages[name] = stage(f"data/jobs/{job}", jobs[job], str(report), name)
    stages["score-lm@gone"] = stage("data/jobs/score-lm/gone.json", "", "reports/runs/gone.json", "")
    stages["report"] = report_stage(jobs["report/all.json"])
    Path("dvc.lock").write_text(yaml.safe_dump({"schema": "2.0", "stages": stages}))
    return tmp_path


def stage(job: str, told: str, report: str, written: str) -> dict:
    return {"cmd": "", "deps": [{"path": job, "md5": md5(told)}], "outs": [{"path": report, "md5": md5(written)}]}


def report_stage(job: str) -> dict:
    """The stage that writes a folder: tables."""
    tables = Path("reports/tables")
    tables.mkdir()
    (tables / "agg-3.csv").write_text("13.30")
    folders = [{"path": str(path), "md5": folder_hash(path)} for path in (tables, ROOT / "data/paper")]
    return {"cmd": "", "deps": [{"path": "data/jobs/report/all.json", "md5": md5(job)}, folders[1]], "outs": [folders[0]]}


def folder_hash(path: Path) -> str:
    """The hash of a folder as DVC itself computes it for dvc.lock."""
    _, _, built = build(HashFileDB(localfs, "unused"), str(path.absolute()), localfs, "md5", dry_run=True)
    return built.hash_info.value


def md5(text: str) -> str:
    return hashlib.md5(text.encode()).hexdigest()


def test_reports_of_the_same_parameters_belong(scale):
    assert str(verify()) == "the outputs of 4 stages belong to this code and these parameters"


def test_adopted_score_files_without_a_metric_that_was_added_are_counted(scale, monkeypatch):
    monkeypatch.setattr(lock_file, "lacking", lambda files: {"norm_rms": len(files["score-lm"])})
    assert str(verify()).endswith("; score files that were adopted lack metrics that were added since: norm_rms (2 files)")


def test_stages_that_would_be_told_something_else_are_newer(scale):
    params = Path("params.yaml")
    params.write_text(params.read_text().replace("alpha: 0.03", "alpha: 0.04", 1))
    assert verify().outdated == ["report", "score-lm@agg"]
    assert str(verify()) == "newer than the reports: report (1), score-lm (1); dvc repro makes the reports anew"


@pytest.mark.parametrize("change", [lambda path: path.write_text("better"), Path.unlink], ids=["edited", "missing"])
def test_a_report_that_no_stage_wrote_is_named(scale, change):
    change(Path("reports/runs/score-lm@agg.json"))
    assert str(verify()) == "not what dvc.lock says: reports/runs/score-lm@agg.json"


@pytest.mark.parametrize(
    "change",
    [
        lambda tables: (tables / "agg-3.csv").write_text("13.40"),
        lambda tables: (tables / "agg-4.csv").write_text("13.30"),
        lambda tables: (tables / "agg-3.csv").unlink(),
        shutil.rmtree,
    ],
    ids=["edited", "added", "removed", "no folder"],
)
def test_a_folder_whose_files_are_not_those_that_the_stage_wrote_is_named(scale, change):
    change(Path("reports/tables"))
    assert str(verify()) == "not what dvc.lock says: reports/tables"


def test_a_report_that_belongs_to_no_stage_is_named(scale):
    Path("reports/best.csv").write_text("13.40")
    assert str(verify()) == "not what dvc.lock says: reports/best.csv"


def test_reported_numbers_that_changed_are_newer_than_the_reports(scale, monkeypatch, tmp_path):
    """With a copy of the declarations in place of the repository's."""
    copy = tmp_path / "data/paper"
    shutil.copytree(ROOT / "data/paper", copy)
    lock = Path("dvc.lock")
    lock.write_text(lock.read_text().replace(f"{ROOT}/data/paper", "./data/paper"))
    monkeypatch.setattr(lock_file, "root", lambda: tmp_path)
    assert verify().matches
    csv = copy / "agg_table3.csv"
    csv.write_text(csv.read_text().replace("13.30", "13.40"))
    assert str(verify()) == "newer than the reports: ./data/paper; dvc repro makes the reports anew"


def test_a_scale_that_was_never_run_says_so_unless_it_has_reports(scale):
    Path("dvc.lock").unlink()
    assert str(verify()) == "not what dvc.lock says: reports"
    shutil.rmtree("reports")
    assert str(verify()) == "never run" and verify().matches


def test_the_command_fails_where_reports_are_not_those_of_the_code(scale, monkeypatch):
    codes = []
    for edit in (lambda: None, lambda: Path("reports/best.csv").write_text("13.40")):
        edit()
        with pytest.raises(SystemExit) as end:
            scale_commands.show_verification(None)
        codes.append(bool(end.value.code))
    assert codes == [False, True]


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
    Path("trained.csv").write_text(f"{','.join(records.TRAINED_COLUMNS)}\n{rows}")
    stages = {"here": train("here", "h1", 1800.0), "elsewhere": train("elsewhere", "e1"), "anew": train("anew", "new")}
    Path("dvc.lock").write_text(yaml.safe_dump({"schema": "2.0", "stages": stages}))
    lines = {row.run: (row.hours, row.machine, row.weights) for row in records.trained_table().itertuples()}
    assert lines == {
        "here": ("0.500", "x86_64, 1 thread", "h1"),
        "elsewhere": ("0.500", "a card", "e1"),
        "anew": ("", "", "new"),
    }


def test_the_committed_weights_are_those_of_the_committed_reports(monkeypatch):
    for file in ROOT.glob("scales/*/trained.csv"):
        monkeypatch.chdir(file.parent)
        rows = csv_files.read_csv(file)
        assert dict(zip(zip(rows.task, rows.run, strict=True), rows.weights, strict=True)) == records.trained_weights(), (
            f"python -m reproduction trained in {file.parent.relative_to(ROOT)} writes it anew"
        )
