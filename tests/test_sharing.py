"""docs/sharing.md, with a folder as remote: trained things reach another clone, and two branches' locks become one."""

import shutil
from pathlib import Path

import pytest
from tiny.world import run

STAGE = """stages:
  train:
    foreach: ${runs}
    do:
      cmd: echo ran >> times-${key} && mkdir -p data && echo ${item} > data/${key}
      params:
        - runs.${key}
      outs:
        - data/${key}
"""


def repro(folder: Path, **runs: int) -> None:
    """The runs of params.yaml, done and committed."""
    lines = "".join(f"  {name}: {value}\n" for name, value in sorted(runs.items()))
    (folder / "params.yaml").write_text(f"runs:\n{lines}")
    run(folder, "dvc", "repro", "-q")
    run(folder, "git", "add", "-A")
    run(folder, "git", "commit", "-qm", "runs")


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("shared") / "project"
    folder.mkdir()
    run(folder, "git", "init", "-q", "-b", "main")
    run(folder, "dvc", "init", "-q")
    run(folder, "dvc", "remote", "add", "-q", "--default", "shared", str(folder.parent / "remote"))
    (folder / "dvc.yaml").write_text(STAGE)
    (folder / ".gitignore").write_text("times-*\ndata/\n")
    repro(folder, middle=1)
    return folder


def test_two_branches_merge_and_nothing_is_trained_twice(project):
    for branch, name in (("one", "first"), ("two", "fresh")):
        run(project, "git", "checkout", "-qb", branch, "main")
        repro(project, middle=1, **{name: 2})
        run(project, "dvc", "push", "-q", "--run-cache")
    clone = project.parent / "clone"
    run(project.parent, "git", "clone", "-q", "-b", "one", str(project), str(clone))
    run(clone, "dvc", "pull", "-q")
    assert (clone / "data/first").read_text() == "2\n" and not (clone / "times-first").exists()
    merged = run(clone, "git", "merge", "origin/two", check=False)
    assert merged.returncode and "dvc.lock" in run(clone, "git", "diff", "--name-only", "--diff-filter=U").stdout
    (clone / "params.yaml").write_text("runs:\n  first: 2\n  fresh: 2\n  middle: 1\n")
    run(clone, "git", "checkout", "--ours", "dvc.lock")
    run(clone, "dvc", "pull", "-q", "--run-cache", "--allow-missing", check=False)
    run(clone, "dvc", "repro", "-q")
    assert (clone / "data/fresh").read_text() == "2\n" and not list(clone.glob("times-*"))
    run(clone, "git", "add", "-A")
    run(clone, "git", "commit", "-qm", "merged")
    assert "up to date" in run(clone, "dvc", "status").stdout
    shutil.rmtree(clone)
