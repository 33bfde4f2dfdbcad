"""Whether committed reports are those of the code and the parameters: on a dvc.lock made by hand."""

import hashlib
import shutil
from pathlib import Path

import pytest
import yaml

from raretokens.config.load import load
from raretokens.pipeline.belonging import belonging, in_words
from raretokens.pipeline.jobs import texts

ROOT = Path(__file__).parents[1]
STAGES = {"score-lm@mle": "score-lm/mle.json", "score-lm@agg": "score-lm/agg.json", "probe@mle": "probe/mle.json"}


@pytest.fixture
def scale(tmp_path, monkeypatch) -> Path:
    """A scale whose three stages were run with its parameters, and one that its params.yaml no longer has."""
    shutil.copy(ROOT / "params.yaml", tmp_path)
    monkeypatch.chdir(tmp_path)
    jobs = {str(path): content for path, content in texts(load()).items()}
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
    return {"deps": [{"path": job, "md5": md5(told)}], "outs": [{"path": report, "md5": md5(written)}]}


def md5(text: str) -> str:
    return hashlib.md5(text.encode()).hexdigest()


def test_reports_of_the_same_parameters_belong(scale):
    assert in_words(belonging()) == "what 3 stages wrote belongs to this code and these parameters"


def test_stages_that_would_be_told_something_else_are_newer(scale):
    params = Path("params.yaml")
    params.write_text(params.read_text().replace("alpha: 0.03", "alpha: 0.04", 1))
    assert belonging().newer == ["score-lm@agg"]
    assert in_words(belonging()) == "newer than the reports: score-lm (1); dvc repro runs them"


@pytest.mark.parametrize("change", [lambda path: path.write_text("better"), Path.unlink], ids=["edited", "missing"])
def test_a_report_that_no_stage_wrote_is_named(scale, change):
    change(Path("reports/runs/score-lm@agg.json"))
    assert in_words(belonging()) == "not what dvc.lock says: reports/runs/score-lm@agg.json"


def test_a_scale_that_was_never_run_says_so(scale):
    Path("dvc.lock").unlink()
    assert in_words(belonging()) == "never run"
