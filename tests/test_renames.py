"""What `adopt` takes for the same under former names, and how each version of the code gets its own names."""

import json
import threading
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from raretokens.errors import UserError
from raretokens.pipeline import adopt, renames, trials
from raretokens.pipeline.lock_file import Stage, md5
from raretokens.pipeline.short_training import Version
from raretokens.pipeline.trials import Replay, Trials

JOB = "data/jobs/train-lm/steps.json"
WEIGHTS, LOG = b"weights of steps", b"updates\tloss\n1\t0.5\n"


def stage(old: dict, new: dict, name: str = "train-lm@steps", command: str = "x '1' train lm steps", **more) -> Stage:
    """A stage as its two versions describe it, which dvc.lock has as the former one does."""
    old, new = (json.dumps({"job": job}).encode() for job in (old, new))
    return Stage(name, command, JOB, md5(old), more.pop("deps", {}), more.pop("outs", {}), old, new)


@pytest.mark.parametrize(
    ("steps", "rate", "said"),
    [(3, 0.1, None), (4, 0.1, "training.steps: 3 became 4"), (3, "0.1", "training.rate: 0.1 became '0.1'")],
    ids=["renamed", "renamed-and-changed", "number-to-string"],
)
def test_a_renamed_key_is_no_change_of_a_job(monkeypatch, steps, rate, said):
    """The hash of the parameters changes with their names."""
    monkeypatch.setattr(renames, "KEYS", {"updates": "steps"})
    old = {"training": {"updates": 3, "save_updates": 4, "rate": 0.1}, "parameters_hash": "a"}
    new = {"training": {"steps": steps, "save_updates": 4, "rate": rate}, "parameters_hash": "b"}
    assert stage(old, new).changed() == said
    assert stage(new, old).changed()  # they are what they are in one direction only


def test_without_renames_only_equal_bytes_are_the_same_content():
    assert not renames.same_content("mle.json", b'{"steps": 1}', b'{ "steps": 1}')
    assert stage({"options": [1, True]}, {"options": [1.0, 1]}).changed() == "options: [1, True] became [1.0, 1]"


def test_a_renamed_column_is_the_same_content_and_another_digit_is_not(monkeypatch):
    monkeypatch.setattr(renames, "COLUMNS", {"updates": "steps"})
    assert renames.same_content("log.tsv", LOG, b"steps\tloss\n1\t0.5\n")
    assert not renames.same_content("log.tsv", LOG, b"steps\tloss\n1\t0.6\n")
    assert renames.same_content("mle.json", b'{"updates": 1.50}', b'{\n "steps": 1.50\n}\n')
    assert not renames.same_content("mle.json", b'{"updates": 1.50}', b'{"steps": 1.51}')
    assert not renames.same_content("mle.json", b'{"updates": 1.50}', b'{"steps": "1.50"}')
    assert not renames.same_content("mle.json", b'{"updates": 1}', b'{"steps": true}')
    assert not renames.same_content("mle.json", b'{"updates": 1}', b'{"steps": 1')  # cut
    assert not renames.same_content("log.tsv", LOG, b"\xff")
    monkeypatch.setattr(renames, "PATHS", {"data/updates": "data/steps"})
    assert renames.path("data/updates/x.tsv") == "data/steps/x.tsv"
    assert renames.former_path("data/steps/x.tsv") == "data/updates/x.tsv"


@dataclass(frozen=True)
class NeverStarted(Version):
    def start(self, *_) -> None:
        raise UserError("never started")


def test_the_former_code_gets_its_own_job(tmp_path, monkeypatch):
    """A run has the present name of a key, and two former keys became one: nothing of it can be had from the present job."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(renames, "KEYS", {"updates": "steps", "rounds": "steps"})
    training = {"updates": 900, "warmup": 90, "keep": 5, "rule": {"rounds": 7}}
    old = {"run": {"task": "lm", "name": "steps", "seed": 1, "options": {"until": 800}}, "training": training}
    present = {"steps": 900, "warmup": 90, "keep": 5, "rule": {"steps": 7}}
    found = Trials("abc", NeverStarted(tmp_path), [stage(old, {**old, "training": present})])
    with pytest.raises(UserError, match="never started"):
        found.old_outcome(found.all[0])
    (file,) = tmp_path.glob(f"data/scratch/adopt/*/{JOB}")
    given = json.loads(file.read_text())["job"]
    assert given["training"] == {"updates": 20, "warmup": 10, "keep": 2, "rule": {"rounds": 7}}
    assert given["run"] == {"task": "lm", "name": "steps", "seed": 1, "options": {"until": 10}}


@pytest.fixture
def run(tmp_path, monkeypatch) -> Path:
    """A run that the former code trained."""
    folder = tmp_path / "scale/data/runs/lm/steps"
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(WEIGHTS)
    (folder / "log.tsv").write_bytes(LOG)
    monkeypatch.setattr(renames, "COLUMNS", {"updates": "steps"})
    return folder


def test_stages_that_replay_at_once_share_a_whole_run(run, tmp_path, monkeypatch):
    """The present code reads translated columns. Weights are links. A second stage waits until the first has all files."""
    trains = stage({}, {}, outs={"data/runs/lm/steps": ""})
    readers = [stage({}, {}, name, "x '1' predict", deps={"data/runs/lm/steps": ""}) for name in ("predict-lm@a", "score-lm@a")]
    seen, is_done, translate = [], threading.Event(), renames.present

    def slow(name: str, content: bytes) -> bytes:
        is_done.wait(0.3)  # until another stage runs, if one is let run
        return translate(name, content)

    @dataclass(frozen=True)
    class Reader(Version):
        def run(self, command: list[str], folder: Path, output: str = "") -> None:
            seen.append({file.name: (file.is_symlink(), file.read_bytes()) for file in (folder / "data/runs/lm/steps").iterdir()})
            is_done.set()

    monkeypatch.setattr(renames, "present", slow)
    monkeypatch.setattr(trials, "PRESENT", Reader(tmp_path))
    replay = Replay("HEAD", tmp_path / "scale", [trains, *readers], readers, tmp_path / "replay")
    threads = [threading.Thread(target=replay.difference, args=[reader]) for reader in readers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    whole = {"model.safetensors": (True, WEIGHTS), "log.tsv": (False, b"steps\tloss\n1\t0.5\n")}
    assert seen == [whole, whole] and replay.found == {"predict-lm@a": None, "score-lm@a": None}


def test_stages_and_paths_may_have_other_names_and_commands_more_words(tmp_path, monkeypatch):
    """The present code's command for the stage has two words where there was one, and it writes into another folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(renames, "STAGES", {"probe-lm": "predict-lm"})
    monkeypatch.setattr(renames, "PATHS", {"reports/old": "reports/new"})
    monkeypatch.setattr(renames, "COMMANDS", {"' probe": "' predict lm"})
    monkeypatch.setattr(adopt.trained, "adopt", lambda runs, revision, lock: None)
    former, present = Path("reports/old/a.json"), Path("reports/new/a.json")
    one = stage({}, {"mode": 1}, "probe-lm@steps", "'./stages/run' '1' probe steps", outs={str(former): md5(b"{}")})
    present.parent.mkdir(parents=True)
    present.write_bytes(b"{}")
    assert adopt.migrated(one, "HEAD") == {}

    @dataclass(frozen=True)
    class Writer(Version):
        def run(self, command: list[str], folder: Path, output: str = "") -> None:
            assert command == ["1", "predict", "lm", "steps"]
            (folder / present).parent.mkdir(parents=True)
            (folder / present).write_bytes(b"{}")

    monkeypatch.setattr(trials, "PRESENT", Writer(tmp_path))
    assert Replay("HEAD", tmp_path, [one], [one], tmp_path / "replay").difference(one) is None

    entry = {"cmd": one.command, "deps": [{"path": JOB, "md5": one.md5}], "outs": [{"path": str(former)}]}
    Path("dvc.lock").write_text(yaml.safe_dump({"stages": {one.name: entry}}))
    adopt.write([one], {})
    assert yaml.safe_load(Path("dvc.lock").read_text())["stages"] == {
        "predict-lm@steps": {
            "cmd": "'./stages/run' '1' predict lm steps",
            "deps": [{"path": JOB, "md5": md5(one.new), "size": len(one.new)}],
            "outs": [{"path": str(present)}],
        }
    }
