"""What `adopt` refuses, on a scale whose code is one shell script, so that each case takes a second."""

import csv
import json
import multiprocessing
import os
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
import torch
import yaml
from safetensors.torch import save_file

from raretokens.errors import UserError
from reproduction.pipeline import adopt
from reproduction.pipeline import adoption_trials as trials
from reproduction.pipeline.adopt import Adoption
from reproduction.pipeline.adoption_trials import Trials
from reproduction.pipeline.lock_file import Stage, md5, md5_of, read_stages
from reproduction.pipeline.short_training import Version

# A training waits after each save until the test's process has linked to it. It is resumed if it finds a saved state.
CODE = r"""#!/bin/sh
here=$(cd "$(dirname "$0")/.." && pwd)
save() {
    cp "$here/state.pt" $states/part && mv $states/part $states/state-$1-0.pt
    for try in $(seq 500); do [ "$(stat -c %h $states/state-$1-0.pt)" = 1 ] || break; sleep 0.02; done
}
case $2 in
jobs) mkdir -p data && cp -r "$here/jobs" data/ ;;
encode) mkdir -p data/tokens && sed s/a/A/ data/corpus/lm.txt > data/tokens/lm.txt ;;
train)
    echo $4 >> "$here/trainings.txt"
    states=data/scratch/runs/lm-$4 run=data/runs/lm/$4 rate=0.5
    mkdir -p $states $run
    [ -e $states/state-9-0.pt ] && rate=0.5 || save 9
    save 18
    cp "$here/weights" $run/model.safetensors
    cp "$here/weights" $run/snapshots.safetensors
    echo '{}' > $run/training.json
    echo $rate > $run/log.tsv
    rm -r $states ;;
score)
    mkdir -p reports/runs/lm
    echo '{"loss": 1.5}' > reports/runs/lm/$4.json ;;
esac
"""
JOBS = """
import pathlib, pickle, sys
pickle.dump({f"data/{file}": file.read_bytes() for file in pathlib.Path("jobs").rglob("*.json")}, sys.stdout.buffer)
"""
STAGES = {
    "prepare@lm": ("prepare lm", [], ["data/corpus/lm.txt"]),
    "encode@lm": ("encode lm lm", ["data/corpus/lm.txt"], ["data/tokens/lm.txt"]),
    "train-lm@first": ("train lm first", ["data/tokens/lm.txt"], ["data/runs/lm/first"]),
    "train-lm@mle": ("train lm mle", ["data/tokens/lm.txt"], ["data/runs/lm/mle"]),
    "score-lm@mle": ("score lm mle", ["data/runs/lm/mle"], ["reports/runs/lm/mle.json"]),
}
ENCODE, TRAIN, SCORE = Path("jobs/encode/lm.json"), Path("jobs/train-lm/mle.json"), Path("jobs/score-lm/mle.json")
REPORT = Path("reports/runs/lm/mle.json")


def git(*command: str) -> None:
    identity = ("-c", "user.name=tiny", "-c", "user.email=tiny@example.org")
    subprocess.run(["git", *identity, *command], check=True, capture_output=True)


def jobs() -> dict[str, bytes]:
    return {f"data/{file}": file.read_bytes() for file in Path("jobs").rglob("*.json")}


def job(name: str, seed: int) -> str:
    training = {"steps": 100, "warmup": 10, "peak_lr": 0.1, "validate_every": 50, "snapshot_every": 50, "keep": 1}
    return json.dumps({"job": {"run": {"task": "lm", "name": name, "seed": seed}, "training": training}, "code": "old"})


def put(path: Path | str, content: str) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(content)


@pytest.fixture
def scale(tmp_path, monkeypatch) -> Path:
    """A scale that its committed code ran; the encoder, two seeds of a run, and the scores of one."""
    folder = tmp_path / "scale"
    folder.mkdir()
    monkeypatch.chdir(folder)
    put("stages/run", CODE)
    Path("stages/run").chmod(0o755)
    for file in (Path("jobs/prepare/lm.json"), ENCODE, SCORE):
        put(file, json.dumps({"job": {}, "code": "old"}))
    for seed, name in enumerate(("first", "mle")):
        put(TRAIN.with_stem(name), job(name, seed))
        put(f"data/runs/lm/{name}/log.tsv", "0.5\n")
    put("data/corpus/lm.txt", "a b\n")
    put("data/tokens/lm.txt", "A b\n")
    put(REPORT, '{"loss": 1.5}\n')
    torch.save({"state": {"model": {"weight": torch.ones(2)}, "optimizer": {}}}, "state.pt")
    save_file({"weight": torch.ones(2)}, "weights")
    stages = {}
    for name, (words, deps, outs) in STAGES.items():
        made = f"data/jobs/{name.replace('@', '/')}.json"
        deps = [{"path": made, "md5": md5(jobs()[made])}, *({"path": path, "md5": md5_of(Path(path))} for path in deps)]
        outs = [{"path": path, "md5": md5_of(Path(path))} for path in outs]
        stages[name] = {"cmd": f"'./stages/run' '1' {words}", "deps": deps, "outs": outs}
    put("dvc.lock", yaml.safe_dump({"schema": "2.0", "stages": stages}, sort_keys=False))
    put(".gitignore", "/data/\n/trainings.txt\n")
    git("init", "-q")
    git("add", "-A")
    git("commit", "-qm", "trained")
    monkeypatch.setattr(adopt, "present_jobs", lambda parameters=None: jobs())
    monkeypatch.setattr(adopt, "NEW_PROCESS", JOBS)
    monkeypatch.setattr(trials, "PRESENT", Version(folder))
    return folder


def edit(old: str, new: str, *changed: Path) -> None:
    """Edit the code, which changes the jobs of these stages."""
    code = Path("stages/run").read_text()
    assert old in code
    Path("stages/run").write_text(code.replace(old, new))
    for file in changed:
        put(file, file.read_text().replace('"code": "old"', '"code": "new"'))


def demo(remove: str = "", report: str = "") -> Path:
    """Copy the scale, without one stage, or with another report."""
    subprocess.run(["cp", "-a", ".", "../demo"], check=True)
    lock = yaml.safe_load(Path("dvc.lock").read_text())
    lock["stages"].pop(remove, None)
    put("../demo/dvc.lock", yaml.safe_dump(lock))
    if report:
        put(Path("../demo") / REPORT, report)
    return Path("../demo")


def forget_job() -> None:
    put("dvc.lock", Path("dvc.lock").read_text().replace(md5(job("mle", 1).encode()), "0" * 32))


def commit_edited_report() -> None:
    put(REPORT, '{"loss": 1.4}\n')
    git("commit", "-qm", "edited", "reports")


# Comments, which make the code of a stage another one.
TRAINS_ALIKE, SCORES_ALIKE = ("train)", "train) #", TRAIN), ("score)", "score) #", SCORE)
ENCODES_OTHERWISE = ("s/a/A/", "s/a/B/", ENCODE)
EDITED = {"score-lm@mle": "reports/runs/lm/mle.json: not what dvc.lock says"}
REFUSED = {  # first edit, what else changes, refusals
    "encodes otherwise": (ENCODES_OTHERWISE, None, {"encode@lm": "data/tokens/lm.txt"}),
    "encodes otherwise and did": (ENCODES_OTHERWISE, lambda: put("data/tokens/lm.txt", "B b\n"),
        {"encode@lm": "data/tokens/lm.txt: not the md5 in dvc.lock"}),
    "crashes": (("states=data", "exit 3; states=data", TRAIN),
        lambda: edit("mkdir -p reports", "exit 4; mkdir -p reports", SCORE),
        {"train-lm@mle": "the stage exited with 3", "score-lm@mle": "the stage exited with 4"}),
    "another schedule after resuming": (("&& rate=0.5", "&& rate=0.6", TRAIN), None,
        {"train-lm@mle": "log.tsv: line 1: '0.5' became '0.6'"}),
    "no weights": (("$run/model.safetensors", "$run/weights.safetensors", TRAIN), None,
        {"train-lm@mle": "model.safetensors: cannot be read"}),
    "other key of a state": (TRAINS_ALIKE, lambda: torch.save({"saved": {}}, "state.pt"),
        {"train-lm@mle": "9.pt: cannot be read: KeyError: 'state'"}),
    "parameter": (TRAINS_ALIKE, lambda: put(TRAIN, TRAIN.read_text().replace("0.1", "0.2")),
        {"train-lm@mle": "its parameters differ: training.peak_lr: 0.1 became 0.2"}),
    "other job": (TRAINS_ALIKE, forget_job, {"train-lm@mle": "makes another job than that in dvc.lock"}),
    "other tokens": (TRAINS_ALIKE, lambda: put("data/tokens/lm.txt", "other\n"),
        {"train-lm@mle": "data/tokens/lm.txt: not what dvc.lock says"}),
    "edited report": (SCORES_ALIKE, lambda: put(REPORT, '{"loss": 1.4}\n'), EDITED),
    "edited and committed report": (SCORES_ALIKE, commit_edited_report, EDITED),
    "deleted report": (SCORES_ALIKE, REPORT.unlink, EDITED),
    "demo without scores": (SCORES_ALIKE, lambda: demo(remove="score-lm@mle"),
        {"score-lm@mle": "in the demo, ../demo: no score-lm that HEAD ran"}),
    "demo trained by other code": (SCORES_ALIKE, lambda: demo(remove="train-lm@mle"),
        {"score-lm@mle": "data/runs/lm/mle: not there, or not written by the code of HEAD"}),
    "demo scored by the new code": (("1.5", "1.6", SCORE), lambda: demo(report='{"loss": 1.6}\n'),
        {"score-lm@mle": "in the demo, score-lm@mle: reports/runs/lm/mle.json"}),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_shown_to_be_equal_is_refused(scale, capsys, case):
    edited, further, refused = REFUSED[case]
    edit(*edited)
    where = (further() if further else None) or Path()
    before = Path("dvc.lock").read_bytes()
    assert not Adoption("HEAD", 1, where).adopt()
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("refused: ")]
    for stage, why in refused.items():
        assert any(line.startswith(f"refused: {stage}: ") and why in line for line in lines), lines
    assert Path("dvc.lock").read_bytes() == before and not Path("trained.csv").exists()
    assert not [*Path("data/scratch/adopt/code").iterdir()]


def test_a_run_that_was_removed_does_not_stand_for_its_seeds(scale):
    edit("train)", "train) # new", TRAIN)
    TRAIN.with_stem("first").unlink()
    before = yaml.safe_load(Path("dvc.lock").read_text())["stages"]
    assert Adoption("HEAD", 1, Path()).adopt()
    before["train-lm@mle"]["deps"][0] |= {"md5": md5(TRAIN.read_bytes()), "size": TRAIN.stat().st_size}
    assert yaml.safe_load(Path("dvc.lock").read_text())["stages"] == before
    rows = {row["run"]: row["adopted"] for row in csv.DictReader(Path("trained.csv").read_text().splitlines())}
    assert rows["mle"] and not rows["first"]
    assert Path("trainings.txt").read_text().split() == ["mle"] * 2  # by the new code: killed and resumed


@pytest.mark.parametrize("line", ["<<<<<<< HEAD\n{}", "{}<<<<<<< HEAD\n", "{}lm,mle\n"], ids=["first", "last", "cut"])
def test_a_merge_conflict_in_trained_csv_leaves_dvc_lock_as_it_was(scale, line):
    header = "task,run,hours,machine,peak_gb,revision,adopted,weights\n"
    put("trained.csv", line.format(header))
    before = Path("dvc.lock").read_bytes()
    for change in (Adoption("HEAD", 1, Path()).adopt, lambda: adopt.write(read_stages(Path("dvc.lock"), jobs()))):
        with pytest.raises(UserError, match=r"^trained\.csv: not a table"):
            change()
    assert Path("dvc.lock").read_bytes() == before and not Path("trainings.txt").exists()


def test_code_that_is_edited_during_the_comparison_is_not_adopted(scale):
    edit("score)", f"score) sed -i s/new/newer/ {scale / SCORE};", SCORE)
    before = Path("dvc.lock").read_bytes()
    with pytest.raises(UserError, match="changed during the comparison: score-lm@mle"):
        Adoption("HEAD", 1, Path()).adopt()
    assert Path("dvc.lock").read_bytes() == before


def test_ctrl_c_ends_an_adoption_with_its_stages_and_leaves_all_as_it_was(scale):
    """The stage would wait for an hour. What a terminal sends to all processes reaches this one alone."""
    edit("mkdir -p data/tokens", f"touch {scale / 'data/begun'}; sleep 3600.5; mkdir -p data/tokens", ENCODE)
    before = Path("dvc.lock").read_bytes()

    def adopts() -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a test that runs in the background ignores it
        Adoption("HEAD", 1, Path()).adopt()

    adopting = multiprocessing.get_context("fork").Process(target=adopts)
    adopting.start()
    for _ in range(3000):
        if Path("data/begun").exists():
            break
        time.sleep(0.02)
    begun = psutil.Process(adopting.pid).children(recursive=True)
    os.kill(adopting.pid, signal.SIGINT)
    adopting.join(20)
    is_over = adopting.exitcode is not None
    adopting.kill()
    assert is_over and adopting.exitcode and begun
    assert not [one for one in begun if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]
    assert Path("dvc.lock").read_bytes() == before and not [*Path("data/scratch/adopt/code").iterdir()]


def test_results_of_the_old_code_are_kept_while_it_has_the_same_job_and_start(scale):
    subprocess.run(["./stages/run", "1", "jobs"], check=True)
    _, _, first, *_ = stages = read_stages(Path("dvc.lock"), jobs(), Path())
    started = job("more", 3).replace('"run"', '"start": "first", "run"').encode()
    deps, outs = {"data/runs/lm/first": ""}, {"data/runs/lm/more": ""}
    more = replace(first, name="train-lm-continued@more", command="run '1' train lm more", deps=deps, outs=outs)
    more = replace(more, old=started, new=started, md5=md5(started))

    def trainings(revision: str = "abc", one: Stage = more) -> list[str]:
        Path("trainings.txt").unlink(missing_ok=True)
        found = Trials(revision, Version(scale), [*stages, one])
        outcome = found.old_outcome(found.all[-1])
        put("parent.txt", str(found._folder(found.all[0])))
        assert outcome["start"]
        return Path("trainings.txt").read_text().split() if Path("trainings.txt").exists() else []

    assert trainings() == ["first", "more"]
    assert trainings() == []
    assert trainings("def") == ["first", "more"]
    edited = started.replace(b"old", b"new")
    assert trainings(one=replace(more, old=edited, md5=md5(edited))) == ["more"]
    kept = Path(Path("parent.txt").read_text(), "outcome.json")
    put(kept, kept.read_text().replace('"all bytes": "', '"all bytes": "0'))
    assert trainings() == ["more"]


def test_old_trials_that_fail_are_told_and_left_worktrees_removed(scale):
    left = Path(f"data/scratch/adopt/code/abc-{2**22 + 1}")  # above the largest process id
    git("worktree", "add", "--detach", str(left), "HEAD")
    edit(*TRAINS_ALIKE)
    put("data/tokens/lm.txt", "other\n")
    assert not Adoption("HEAD", 1, Path()).keep_old()
    assert not left.exists() and not [*Path(".git").glob("worktrees/*")]


def scored(**metrics: float) -> str:
    return json.dumps({"metrics": metrics, "signatures": [[name, "log:e"] for name in metrics]})


def test_only_a_score_stage_may_gain_metrics(scale, capsys):
    """The outcome of a training and the output of another stage may not, although it is a score file of the same form."""
    code = Path("stages/run").read_text().replace('{"loss": 1.5}', scored(loss=1.5)).replace("'{}' >", f"'{scored()}' >")
    put("stages/run", code.replace("mkdir -p data/tokens", f"mkdir -p data/tokens reports; echo '{scored(a=1)}' >reports/e.json"))
    put(REPORT, scored(loss=1.5) + "\n")
    put("reports/e.json", scored(a=1) + "\n")
    lock = yaml.safe_load(Path("dvc.lock").read_text())
    lock["stages"]["score-lm@mle"]["outs"] = [{"path": str(REPORT), "md5": md5_of(REPORT)}]
    lock["stages"]["encode@lm"]["outs"].append({"path": "reports/e.json", "md5": md5_of(Path("reports/e.json"))})
    put("dvc.lock", yaml.safe_dump(lock, sort_keys=False))
    git("add", "-A")
    git("commit", "-qm", "scored")
    edit(scored(loss=1.5), scored(loss=1.5, added=2.5), SCORE)
    before = REPORT.read_bytes()
    assert Adoption("HEAD", 1, Path()).adopt()
    assert "added metrics, which added.csv records: added" in capsys.readouterr().out
    assert REPORT.read_bytes() == before and md5(SCORE.read_bytes()) in Path("dvc.lock").read_text()
    edit(scored(a=1), scored(a=1, b=2), ENCODE)
    edit(scored(), scored(c=3), TRAIN)
    assert not Adoption("HEAD", 1, Path()).adopt()
    out = capsys.readouterr().out
    assert "refused: encode@lm: reports/e.json" in out and "refused: train-lm@mle: training.json" in out
    assert "added metrics" not in out
