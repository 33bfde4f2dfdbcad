"""A scale given to Slurm: what is asked for, and the tiny world on a real Slurm, one of whose runs is killed in the middle."""

import re
import signal
import subprocess
import time
from pathlib import Path

import pandas as pd
import psutil
import pytest
import yaml
from tiny import slurm, world

from raretokens.errors import UserError
from raretokens.papers.load import load_declarations
from raretokens.pipeline import cluster
from raretokens.pipeline.cluster import SHARED_STAGES, first_seeds, main_runs, run_targets
from raretokens.pipeline.config import load
from raretokens.pipeline.machine.settings import Cluster

ROOT = Path(__file__).parents[1]
RUNS = {"lm": ("mle", "agg"), "nmt": ("base-mle",)}
UPDATES = 400  # so that a run can be stopped on its way


def test_the_paper_scale_is_three_jobs_with_what_its_largest_run_needs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    asked = Cluster(gpus=1, gpu="a100", partition="gpu", at_once=8, options=["--account=mine"])
    shared, runs, *_, reports = cluster.jobs(load(ROOT / "scales/paper/params.yaml"), asked)
    assert "train-lm@lm6-mle predict-lm@lm6-mle score-lm@lm6-mle decompose-lm@lm6-mle" in runs.targets
    assert (runs.array, runs.gpus, shared.gpus, reports.targets) == (f"1-{len(runs.targets)}%8", 1, 0, [""])
    assert 100 < runs.hours < 400 and 20 < runs.memory < 30 and 12 < shared.memory < 18
    first, second, third = (" ".join(one) for one in cluster.commands([shared, runs, reports], asked, ROOT))
    for command in (first, second, third):
        assert "--requeue" in command and "--account=mine" in command and "--partition=gpu" in command
    assert "--dependency" not in first and "--dependency=afterok:{after}" in second and "afterok" in third
    assert "--gpus-per-node=1" in second and "--gpus-per-node" not in first and second.endswith(" -s")


def test_what_no_plan_can_say_must_be_said(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tree = yaml.safe_load((ROOT / "params.yaml").read_text())
    tree["tokens"]["words"]["vocabulary"] |= {"size": None}
    tree["corpora"]["lm"]["corpus"] = "own"
    tree["own"] = {f"lm-{split}": "text" for split in ("train", "valid", "test")}
    Path("params.yaml").write_text(yaml.safe_dump(tree))
    with pytest.raises(UserError, match="cluster.memory: required, since there is no plan yet"):
        cluster.jobs(load(), Cluster())
    assert cluster.jobs(load(), Cluster(memory=4.0))[1].memory == 4.0


def test_the_stages_of_a_run_are_those_of_the_pipeline(tmp_path):
    """What stages/parallel and stages/cluster make are targets of dvc.yaml, each once."""
    folder = world.create(tmp_path)
    known = world.run(folder, "dvc", "stage", "list", "--name-only").stdout.split()
    declared = load(folder / "params.yaml")
    made = " ".join(run_targets(declared) + run_targets(declared, continued=True)).split()
    before = [stage for stage in known if stage.split("@")[0] in {*SHARED_STAGES, "fetch", "own"}]
    assert sorted([*made, *before, "report"]) == sorted(known)


def test_the_main_runs_are_those_that_the_main_conclusions_name():
    """With every seed, and the runs that others go on from."""
    small = ROOT / "scales/small"
    declared = load(small / "params.yaml")
    needed = main_runs(declared, load_declarations(ROOT / "data/paper"), small / "reports/runs")
    main = set(pd.read_csv(small / "reports/main.csv").conclusion)
    claims = pd.read_csv(small / "reports/claims.csv")
    named = {run for runs in claims.runs[claims.statement.isin(main)] for run in runs.split(" / ")}
    names = {name for _, name in needed}
    assert {re.sub("-[2-5]$", "", name) for name in names} - {"awd-mle", "awd-cosreg", "awd-frage"} == named
    assert {"awd-mle-2", "awd-mle-finetune-2"} <= names
    assert {"awd-mle", "base-1k-agg-2", "base-1k-agg-3", "agg-3"} <= names
    made = run_targets(declared, only=needed) + run_targets(declared, continued=True, only=needed)
    assert len(made) == len(needed) and "train-lm@agg predict-lm@agg score-lm@agg decompose-lm@agg" in made


def test_one_seed_of_each_run_is_the_first():
    small = ROOT / "scales/small"
    declared = load(small / "params.yaml")
    firsts = first_seeds(declared, small / "reports/runs")
    assert {(run.task, re.sub("-[2-5]$", "", run.name)) for run in declared.every_run()} == firsts


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """The tiny world with fewer and longer runs."""
    path = world.create(tmp_path_factory.mktemp("cluster"))
    tree = yaml.safe_load((path / "params.yaml").read_text())
    tree["runs"] = {task: {name: tree["runs"][task][name] for name in names} for task, names in RUNS.items()}
    tree["tokens"].pop("words")
    tree["lm"]["training"] |= {"steps": UPDATES, "validate_every": 100, "snapshot_every": 100}
    tree["lm"]["projection_steps"] = [100, UPDATES]
    (path / "params.yaml").write_text(yaml.safe_dump(tree, sort_keys=False))
    settings = {"save_updates": 20, "report_seconds": 0.0, "cluster": {"memory": 0.4, "cpus": 1, "at_once": 2}}
    (path / "data/scratch").mkdir(parents=True)
    (path / "data/scratch/machine.yaml").write_text(yaml.safe_dump(settings))
    return path


def files(folder: Path) -> dict[Path, bytes]:
    """Reports, less the page, which says how long each run took; and a model."""
    found = [path for path in (folder / "reports").rglob("*") if path.is_file() and path.suffix != ".html"]
    return {path: path.read_bytes() for path in [*found, folder / "data/runs/lm/agg/model.safetensors"]}


def kill_the_training(folder: Path, log: Path, deadline: float) -> int:
    """The update that a run had reached when its process was killed."""
    while time.monotonic() < deadline:
        done = re.findall(rf"step (\d+)/{UPDATES}", log.read_text()) if log.exists() else []
        if done and 40 < int(done[-1]) < UPDATES:
            for process in psutil.process_iter(["cmdline", "cwd"]):
                if (process.info["cmdline"] or [])[-3:] == ["train", "lm", "agg"] and process.info["cwd"] == str(
                    folder
                ):
                    process.send_signal(signal.SIGKILL)
                    return int(done[-1])
        time.sleep(0.02)
    raise AssertionError(f"{log}: no training to kill")


@pytest.mark.slurm
@pytest.mark.skipif(bool(slurm.missing()), reason=f"a real Slurm: {slurm.missing()}")
def test_a_scale_survives_a_killed_task_on_a_real_slurm(folder, tmp_path):
    """Two runs at a time; the killed one goes on where it stopped; the same bytes as `dvc repro` come out."""
    with slurm.cluster(tmp_path / "slurm") as settings:
        # Not served, because a killed training must be gone before it is resumed.
        environment, deadline = world.environment() | settings, time.monotonic() + 300

        def ask(*command: str) -> str:
            return subprocess.run(
                command, cwd=folder, env=environment, text=True, capture_output=True, check=True
            ).stdout

        runs = re.search(r"^(\d+)  runs, 3 tasks$", ask("stages/cluster"), re.MULTILINE)[1]
        log = folder / f"data/scratch/cluster/runs-{runs}_2.log"
        killed, most = kill_the_training(folder, log, deadline), 0
        while (queue := ask("squeue", "-r", "-h", "-o", "%T")) and time.monotonic() < deadline:
            most = max(most, queue.split().count("RUNNING"))
            time.sleep(0.5)
    assert not queue, [log.read_text()[-2000:] for log in (folder / "data/scratch/cluster").glob("*.log")]
    before, after = log.read_text().split("task: back into the queue")
    resumed = int(re.findall(rf"step (\d+)/{UPDATES}", after)[0])
    assert killed - 20 <= resumed and most == 2
    assert re.findall(r"Running stage '([^']+)'", world.run(folder, "dvc", "repro").stdout) == ["jobs"]
    made = files(folder)
    world.run(folder, "dvc", "repro", "--force")
    assert files(folder) == made
