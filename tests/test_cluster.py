"""A scale given to Slurm: what is asked for, and the tiny world on a real Slurm, one of whose runs is killed in the middle."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import psutil
import pytest
import yaml
from tiny import slurm, world

from raretokens.errors import UserError
from reproduction.commands import main
from reproduction.papers.load import load_declarations
from reproduction.pipeline import cluster
from reproduction.pipeline.cluster import SHARED_STAGES, first_seeds, main_runs, run_targets
from reproduction.pipeline.parameters_file import load
from reproduction.pipeline.settings import Cluster

ROOT = Path(__file__).parents[1]
RUNS = {"lm": ("mle", "agg"), "nmt": ("base-mle",)}
UPDATES = 400  # so that a run can be stopped on its way


def test_the_paper_scale_is_arrays_of_similar_runs_with_what_the_largest_of_each_needs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    declared = load(ROOT / "scales/paper/params.yaml")
    asked = Cluster(gpus=1, gpu="a100", partition="gpu", at_once=8, options=["--account=mine"])
    shared, *arrays, reports = cluster.slurm_jobs(declared, asked)
    for step, continued in ((1, False), (2, True)):
        targets = [line for array in arrays if array.step == step for line in array.targets]
        assert sorted(targets) == sorted(run_targets(declared, continued))
    for step in (1, 2):
        those = [array for array in arrays if array.step == step]
        assert sum(int(array.array.split("%")[1]) for array in those) <= 8
        assert [array.array.split("%")[0] for array in those] == [f"1-{len(array.targets)}" for array in those]
    assert 100 < arrays[0].hours < 400 and 20 < max(array.memory for array in arrays) < 30 and shared.memory == 16
    runs = next(array for array in arrays if any("@lm6-mle" in line for line in array.targets))
    assert runs.hours < 10 and (runs.gpus, shared.gpus, reports.targets) == (1, 0, [""])
    first, second, third = (" ".join(one) for one in cluster.commands([shared, runs, reports], asked, ROOT))
    for command in (first, second, third):
        assert "--requeue" in command and "--account=mine" in command and "--partition=gpu" in command
    assert "--dependency" not in first and "--dependency=afterok:{after}" in second and "afterok" in third
    assert "--gpus-per-node=1" in second and "--gpus-per-node" not in first and second.endswith(" -s")


def test_no_run_requests_twice_the_hours_that_it_needs_and_slots_are_used():
    hours = [140.0, 70.1, 70.0, 8.0, 7.9, 1.0, 1.0]
    classes = cluster.size_classes(hours, 9)
    assert sorted(number for members in classes for number in members) == list(range(7))
    assert classes == [[0, 1], [2], [3, 4], [5, 6]]
    for members in classes:
        assert max(hours[number] for number in members) < 2 * min(hours[number] for number in members)
    assert cluster.size_classes(hours, 2) == [[0, 1], [2, 3, 4, 5, 6]] and cluster.size_classes([], 1) == []
    assert cluster.at_once_shares([[140.0, 71.0], [8.0] * 9], 4) == [2, 2]
    assert cluster.at_once_shares([[140.0], [8.0] * 9], 4) == [1, 3]  # no more than a class has
    assert cluster.at_once_shares([[140.0], [8.0]], None) == [None, None]


def test_a_job_waits_for_every_array_of_the_step_before(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bin").mkdir()
    sbatch = tmp_path / "bin/sbatch"
    sbatch.write_text('#!/bin/sh\necho "$*" >> calls\necho $((10 + $(wc -l < calls)))\n')
    sbatch.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    asked = Cluster(gpus=1, gpu="a100")
    jobs = cluster.slurm_jobs(load(ROOT / "scales/paper/params.yaml"), asked)
    numbers = cluster.submit(jobs, asked, ROOT)
    ids = {step: [number for job, number in zip(jobs, numbers, strict=True) if job.step == step] for step in range(4)}
    assert len(ids[1]) > 3 and len(ids[2]) > 1
    for job, call in zip(jobs, Path("calls").read_text().splitlines(), strict=True):
        expected = f"--dependency=afterok:{':'.join(ids[job.step - 1])} " if job.step else ""
        assert expected in call and ("--dependency" in call) == bool(job.step)


@pytest.mark.parametrize("options", [["--print"], []], ids=["print", "submit"])
def test_jobs_that_are_only_printed_are_not_submitted(tmp_path, monkeypatch, capsys, options):
    monkeypatch.chdir(tmp_path)
    Path("params.yaml").write_text((ROOT / "params.yaml").read_text())
    Path("data/scratch").mkdir(parents=True)
    Path("data/scratch/machine.yaml").write_text("cluster: {memory: 1}\n")
    submitted = []
    monkeypatch.setattr(cluster, "submit", lambda jobs, *_: submitted.append(jobs) or list(map(str, range(len(jobs)))))
    monkeypatch.setattr(sys, "argv", ["reproduction", "cluster", *options])
    main()
    out = capsys.readouterr().out
    assert ("sbatch --parsable" in out, "scancel 0 1" in out) == (bool(options), not options)
    assert len(submitted) == (not options)


def test_what_no_plan_can_say_must_be_said(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tree = yaml.safe_load((ROOT / "params.yaml").read_text())
    tree["tokens"]["words"]["vocabulary"] |= {"size": None}
    tree["corpora"]["lm"]["corpus"] = "own"
    tree["own"] = {f"lm-{split}": "text" for split in ("train", "valid", "test")}
    Path("params.yaml").write_text(yaml.safe_dump(tree))
    with pytest.raises(UserError, match="cluster.memory: required, since there is no plan yet"):
        cluster.slurm_jobs(load(), Cluster())
    assert cluster.slurm_jobs(load(), Cluster(memory=4.0))[1].memory == 4.0
    _, *arrays, _ = cluster.slurm_jobs(load(ROOT / "params.yaml"), Cluster())  # on a CPU a plan says the memory, not the hours
    assert {array.hours for array in arrays} == {None} and all(0 < array.memory < 100 for array in arrays)


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
    assert {re.sub("-[2-5]$", "", name) for name in names} - {"awd-mle", "awd-cosreg", "awd-frage-half"} == named
    assert {"awd-mle-2", "awd-mle-finetune-2"} <= names
    assert {"awd-mle", "base-1k-agg-2", "base-1k-agg-3", "wiki-agg-2"} <= names
    made = run_targets(declared, only=needed) + run_targets(declared, continued=True, only=needed)
    assert len(made) == len(needed) and "train-lm@wiki-agg predict-lm@wiki-agg score-lm@wiki-agg decompose-lm@wiki-agg" in made


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
@pytest.mark.slow
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


@pytest.mark.slurm
@pytest.mark.skipif(bool(slurm.missing()), reason=f"a real Slurm: {slurm.missing()}")
def test_a_task_that_fails_goes_back_alone_and_only_its_failures_count(tmp_path):
    """The last task has the job id of its array. The first target is quick, the second slow, and the last fails twice."""
    (tmp_path / "bin").mkdir()
    stub = tmp_path / "bin/dvc"
    stub.write_text("""#!/bin/sh
for target; do :; done
echo "$target" >> starts
[ "$target" != first ] || exit 0
[ "$target" != second ] || { for n in $(seq 600); do [ "$(grep -c last starts)" -le 2 ] || exit 0; sleep 0.2; done; exit 0; }
[ "$(grep -c last starts)" -gt 2 ] || exit 255
""")
    stub.chmod(0o755)
    (tmp_path / "list").write_text("first\nsecond\nlast\n")
    with slurm.cluster(tmp_path / "slurm") as settings:
        environment = os.environ | settings | {"PATH": f"{tmp_path}/bin:{slurm.path()}"}

        def ask(*command: str) -> str:
            return subprocess.run(command, cwd=tmp_path, env=environment, text=True, capture_output=True, check=True).stdout

        options = ["--parsable", "--requeue", "--array=1-3", "--mem=50M", "--output=log-%a", "--open-mode=append"]
        number = ask("sbatch", *options, f"{ROOT}/stages/task", "list", "2", "true", "-s").strip()
        deadline = time.monotonic() + 200
        while ask("squeue", "-h", "-j", number) and time.monotonic() < deadline:
            time.sleep(0.5)
    starts = (tmp_path / "starts").read_text().split()
    assert sorted(starts) == ["first", "last", "last", "last", "second"]
    assert (tmp_path / f"list-{number}_3.failures").read_text() == "dvc exited with 255\n" * 2
