"""Adopting changed code: on a tiny scale in a repository of its own, trained and scored by the code as it is."""

import csv
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from dvc.utils.serialize import dump_yaml
from tiny.served import THREADS
from tiny.world import create, environment, parameters, run

from reproduction.pipeline.lock_file import md5_of

pytestmark = pytest.mark.slow
STAGES = {
    "own@lm-train": ["own", "lm-train"],
    "own@lm-valid": ["own", "lm-valid"],
    "own@lm-test": ["own", "lm-test"],
    "prepare@lm": ["prepare", "lm"],
    "encode@lm": ["encode", "lm", "lm"],
    "train-lm@cosreg": ["train", "lm", "cosreg"],
    "predict-lm@cosreg": ["predict", "lm", "cosreg"],
    "score-lm@cosreg": ["score", "lm", "cosreg"],
}
DEPS = {
    "prepare@lm": ["data/raw"],
    "encode@lm": ["data/corpus/lm"],
    "train-lm@cosreg": ["data/tokens/lm"],
    "predict-lm@cosreg": ["data/runs/lm/cosreg", "data/tokens/lm"],
    "score-lm@cosreg": ["data/predictions/lm/cosreg", "data/runs/lm/cosreg", "data/tokens/lm"],
}
OUTS = {
    **{f"own@lm-{split}": [f"data/raw/own/lm-{split}"] for split in ("train", "valid", "test")},
    "prepare@lm": ["data/corpus/lm"],
    "encode@lm": ["data/tokens/lm"],
    "train-lm@cosreg": ["data/runs/lm/cosreg"],
    "predict-lm@cosreg": ["data/predictions/lm/cosreg"],
    "score-lm@cosreg": [
        *(f"reports/runs/lm/cosreg.{kind}" for kind in ("json", "csv", "bootstrap.csv")), "reports/curves/lm/cosreg.csv"
    ],  # fmt: skip
}
ALL = """
import sys
from reproduction.pipeline import stages
stages.jobs()
for line in sys.argv[1:]:
    stage, *names = line.split()
    getattr(stages, stage)(*names)
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """A scale of one run, and the old code's side of its trial."""
    folder = create(tmp_path_factory.mktemp("adopt"))
    tree = parameters()
    cosreg = {**tree["runs"]["lm"]["mle"], "objective": "cosreg"}
    tree |= {"runs": {"lm": {"cosreg": cosreg}}, "corpora": {"lm": tree["corpora"]["lm"]}}
    tree["corpora"]["lm"]["languages"] = {"text": "xx"}
    tree["tokens"], tree["alignments"] = {"lm": tree["tokens"]["lm"]}, {}
    tree["own"] = {name: file for name, file in tree["own"].items() if name.startswith("lm")}
    (folder / "params.yaml").write_text(yaml.safe_dump(tree, sort_keys=False))
    command = [sys.executable, "-c", ALL, *(" ".join(words) for words in STAGES.values())]
    subprocess.run(command, cwd=folder, env={**environment(), **THREADS}, check=True, capture_output=True)
    stages = {name: entry(folder, name, words) for name, words in STAGES.items()}
    dump_yaml(folder / "dvc.lock", {"schema": "2.0", "stages": stages})
    run(folder, "git", "add", "-A")
    run(folder, "git", "add", "--force", "reports")
    run(folder, "git", "commit", "-qm", "trained")
    adopt(folder, "--old")
    return folder


def entry(folder: Path, name: str, words: list[str]) -> dict:
    """What DVC writes into dvc.lock of a stage."""
    kind, _, key = name.partition("@")
    command = f"'./stages/run' '1' {' '.join(words)}"
    deps = [f"data/jobs/{kind}/{key}.json", *DEPS.get(name, [])]
    return {
        "cmd": command,
        "deps": [hashed(folder, path) for path in deps],
        "outs": [hashed(folder, path) for path in OUTS[name]],
    }


def hashed(folder: Path, path: str) -> dict:
    return {"path": path, "hash": "md5", "md5": md5_of(folder / path), "size": (folder / path).stat().st_size}


def adopt(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Without the server, because a killed training must be gone before it is resumed."""
    command = [sys.executable, "-m", "reproduction", "adopt", "--jobs", "2", "--demo", ".", *options]
    return subprocess.run(command, cwd=folder, env=environment(), text=True, capture_output=True)


@pytest.fixture
def scale(trained, tmp_path) -> Path:
    """A copy that may be edited."""
    folder = tmp_path / "scale"
    subprocess.run(["cp", "-a", trained, folder], check=True)
    return folder


def edit(folder: Path, old: str, new: str) -> None:
    """Replace a text wherever the code has it, and commit."""
    files = [path for path in (folder / "src").rglob("*.py") if old in path.read_text()]
    assert files, old
    for path in files:
        path.write_text(path.read_text().replace(old, new))
    run(folder, "git", "commit", "-qam", "edited")


def test_code_that_does_the_same_is_adopted(scale):
    """A renamed method of the training loop: dvc.lock has the new job and is else as it was, trained.csv says who adopted it."""
    before = (scale / "dvc.lock").read_text().splitlines()
    edit(scale, "_validation_due", "_has_to_validate")
    done = adopt(scale)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "train-lm@cosreg: equal, 20 steps" in done.stdout and "1 stages adopted" in done.stdout
    verified = run(scale, "python", "-m", "reproduction", "verify").stdout
    assert "belong to this code" in verified
    after = (scale / "dvc.lock").read_text().splitlines()
    differs = [line.strip().partition(":")[0] for line, was in zip(after, before, strict=True) if line != was]
    assert differs in (["md5"], ["md5", "size"])
    (line,) = csv.DictReader((scale / "trained.csv").read_text().splitlines())
    assert (line["run"], line["adopted"]) == ("cosreg", run(scale, "git", "describe", "--always").stdout.strip())
    assert not run(scale, "git", "worktree", "list").stdout.strip().count("\n")


def test_code_that_does_something_else_is_refused(scale):
    """A changed constant of a loss, and a changed metric: nothing is adopted, nothing is changed."""
    edit(scale, ".square().sum() - n)", ".square().sum() - n - 1e-3 * unit.sum())")
    edit(scale, "log_z.min() - log_z.max()", "log_z.min()")
    status = run(scale, "git", "status", "--porcelain").stdout
    done = adopt(scale)
    assert done.returncode == 1
    assert "refused: train-lm@cosreg: state after step 9" in done.stdout, done.stdout
    assert "refused: score-lm@cosreg: in the demo, score-lm@cosreg: reports/runs/lm/cosreg.json" in done.stdout, done.stdout
    assert "dvc.lock is as it was" in done.stdout
    assert run(scale, "git", "status", "--porcelain").stdout == status
