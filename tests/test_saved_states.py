"""What is left of a run that is killed, damaged, stopped or diverges, and from which state it continues."""

import errno
import re
import shutil

import pytest
import torch
from tiny.states import names, restored, save, saved, throw, written
from tiny.trainer import trainer

from raretokens import files
from raretokens.errors import UserError
from reproduction.training import state
from reproduction.training.run import to_the_end
from reproduction.training.saving import Outputs
from reproduction.training.state import State, fingerprint


def test_a_run_is_trained_by_one_process_at_a_time(tmp_path):
    first = State(tmp_path / "run")
    with pytest.raises(UserError, match="run: another process is training this run; wait for it or stop it"):
        State(tmp_path / "run")
    assert State(tmp_path / "run", rank=1).restore() is None  # of the same run
    first._lock.close()
    State(tmp_path / "run")._lock.close()


def test_weights_and_tables_are_set_aside_by_the_first_process_alone(tmp_path):
    table = torch.linspace(0, 1, 6).reshape(3, 2)
    other, run = State(tmp_path / "run", rank=1), State(tmp_path / "run")
    for step in (4, 8, 12):
        other.keep_weights(step, {"table": table})
        other.keep_snapshot(step, table)
    assert [path.name for path in run.path.iterdir()] == ["lock"]
    for step in (4, 8):
        run.keep_weights(step, {"table": table})
    run.keep_snapshot(4, table)
    save(run, 8, [8])
    for step in (10, 12):
        run.keep_weights(step, {"table": table})
    run.forget_weights([12])
    assert [run.weights(step).exists() for step in (4, 8, 10, 12)] == [False, True, False, True]
    assert list(run.snapshots()) == ["000004"] and torch.equal(run.snapshots()["000004"], table.half())


def test_the_state_is_found_again_by_what_the_run_is_told_and_its_files_alone(tmp_path):
    files = [tmp_path / name for name in ("train.bin", "valid.bin")]
    for file in files:
        file.write_bytes(b"ab")
    mark = fingerprint(b"told", files)
    assert fingerprint(b"told", files) == mark
    others = {fingerprint(b"other", files), fingerprint(b"told", files[:1])}
    files[0].write_bytes(b"ba")
    others.add(fingerprint(b"told", files))
    assert len(others | {mark}) == 4


DAMAGE = {
    "flipped": lambda data: data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 1]) + data[len(data) // 2 + 1 :],
    "cut": lambda data: data[:-1],
    "empty": lambda data: b"",
    "random": lambda data: bytes(range(256)) * (len(data) // 256),
    "missing": None,
}


def damage(run: State, file: str, kind: str) -> str:
    (path,) = run.path.glob(f"{file}*")
    data = path.read_bytes()
    path.unlink()
    if DAMAGE[kind]:
        path.write_bytes(DAMAGE[kind](data))
    return path.name


@pytest.mark.parametrize("kind", DAMAGE)
@pytest.mark.parametrize(
    ("file", "goes_on"),
    [("state-000012", 8), ("weights-000012", 8), ("table-000012", 8), ("table-000008", None), ("state-000008", 12)],
)
def test_a_damaged_file_is_set_aside_and_the_run_goes_on_from_the_state_before(tmp_path, kind, file, goes_on):
    run, heard = saved(tmp_path / "run", 4, 8, 12), []
    name = damage(run, file, kind)
    assert restored(State(run.path), heard.append) == goes_on
    if goes_on == 12 or kind == "missing" and file.startswith("state"):
        return
    now = "going on after step 8" if goes_on else "starting from the beginning"
    assert heard == [f"{name} in {run.path}: damaged, set aside; {now}"]
    assert not (run.path / name).exists() and (run.path / f"damaged-{name}").exists() == (kind != "missing")


@pytest.mark.parametrize(("kind", "goes_on"), [("cut", 8), ("empty", None), ("missing", None)])
def test_a_damaged_log_goes_back_to_the_state_whose_rows_are_whole(tmp_path, kind, goes_on):
    run, heard = saved(tmp_path / "run", 4, 8, 12), []
    damage(run, "log", kind)
    again = State(run.path)
    assert restored(again, heard.append) == goes_on
    assert "log.tsv in" in heard[0] and (run.path / "damaged-log.tsv").exists() == (kind != "missing")
    save(again, 16)
    rows = [line.split("\t")[0] for line in run.log.path.read_text().splitlines()]
    assert rows == ["update", *(["4", "8"] if goes_on else []), "16"]


def test_two_states_are_kept_with_their_weights_and_all_tables_also_after_damage(tmp_path):
    """What was set aside is in no one's way, and the weights of the state before are kept until there are two again.

    The steps have six digits or seven, whose names are in another order than the numbers.
    """
    before, between, last = 999_998, 999_999, 1_000_000
    run = saved(tmp_path / "run", 4, before, last)
    found = [names(run, kind) for kind in ("state", "weights", "table")]
    assert found == [[before, last], [before, last], [4, before, last]]
    damage(run, f"table-{last}", "flipped")
    again = State(run.path)
    assert restored(again) == before
    again.forget_weights([])
    assert names(again, "weights") == [before, last]
    for step in (between, last):
        again.keep_snapshot(step, torch.zeros(3, 2))
        again.keep_weights(step, {"table": torch.zeros(3, 2)})
        save(again, step, [step])
    assert [names(again, kind) for kind in ("state", "weights")] == [[between, last], [between, last]]
    assert names(again, "table") == [4, before, between, last] == sorted(map(int, again.snapshots()))
    again._lock.close()
    assert restored(State(run.path)) == last


def test_what_is_damaged_when_a_run_ends_is_in_no_output(folder):
    trained = trainer(folder, "lm", "mle", save_updates=2)
    trained.run()
    damage(trained.state, "table-000004", "flipped")
    with pytest.raises(
        UserError, match=r"table-000004.pt in .*: damaged, set aside; start again to train what is lost"
    ):
        trained.finish()
    assert not (trained.outputs.into / "model.safetensors").exists()
    trained.state.remove()


def test_the_states_are_removed_first(tmp_path, monkeypatch):
    """So a start that finds one finds all that it names, however far a removal came."""
    run = saved(tmp_path / "run", 4, 8)
    monkeypatch.setattr(state.shutil, "rmtree", lambda *_, **__: pytest.fail("killed"))
    with pytest.raises(pytest.fail.Exception):
        run.remove()
    assert [names(run, kind) for kind in ("state", "table")] == [[], [4, 8]]
    assert State(run.path).restore() is None


@pytest.mark.parametrize("updates", [3, 6])
def test_a_run_that_diverges_leaves_no_weights(folder, updates):
    """At the last update too, whose loss is still finite, the weights are not."""
    trained = trainer(folder, "lm", "mle", steps=updates, validate_every=6 if updates == 6 else 3, save_updates=2)
    step = trained._step

    def diverging(targets: int) -> float:
        rate = step(targets)
        if trained.step == 2:
            torch.nn.init.constant_(trained.embedding, float("nan"))
        return rate

    trained._step = diverging
    with pytest.raises(UserError) as error:
        trained.run()
    what = "the validation NLL after step 3" if updates == 3 else "the loss of step 4"
    kept = f"its state after step 2 is kept in {trained.state.path}"
    hint = f"look at {trained.outputs.into / 'log.tsv'} and lower the learning rate"
    assert str(error.value) == f"lm/mle: {what} is nan; {kept}; {hint}"
    assert sorted(path.name for path in trained.outputs.into.iterdir()) == ["log.tsv", "training.json"]
    assert written(trained) == 3
    trained.state.remove()


def test_weights_that_are_no_numbers_are_not_written(tmp_path):
    outputs = Outputs(tmp_path / "run", {})
    with pytest.raises(UserError, match="run: the weights contain NaN or Inf: b; lower the learning rate"):
        outputs.weights({"a": torch.ones(2), "b": torch.tensor([1.0, float("inf")])}, {"000000": torch.ones(2)})
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("raised", "said"),
    [
        (KeyboardInterrupt(), "stopped"),
        (OSError(errno.EIO, "Input/output error", "data/scratch/x"), "data/scratch/x: input/output error"),
        (
            OSError(errno.ENOSPC, "", "full/x"),
            r"full/x: no space left on the disk, [0-9]+\.[0-9]{3} GB are free on it",
        ),
    ],
)
def test_a_run_that_is_stopped_says_in_a_line_what_is_kept(folder, raised, said):
    trained = trainer(folder, "lm", "mle", save_updates=2)
    one_update = trained._train_step
    trained._train_step = lambda prepared: throw(raised) if trained.step == 5 else one_update(prepared)
    with pytest.raises(UserError) as error:
        to_the_end(trained)
    kept = f"its state after step 4 is kept in {trained.state.path}; start again to resume"
    assert re.fullmatch(f"lm/mle: {said}; {re.escape(kept)}", str(error.value))
    trained.state.remove()


@pytest.mark.parametrize(
    "error", [RuntimeError("unexpected pos 576"), OSError(errno.ENOSPC, "No space left on device")]
)
def test_a_full_disk_is_named_whoever_says_it(tmp_path, monkeypatch, error):
    """Torch and safetensors have words of their own for it; what was there stays."""
    path = tmp_path / "state.pt"
    path.write_text("before")
    monkeypatch.setattr(files.shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10**9, 10**9, 1000))
    with pytest.raises(OSError) as caught, files.atomic_write(path) as part:
        part.write_text("half")
        raise error
    assert files.failure(caught.value) == f"{path}: no space left on the disk, 0.000 GB are free on it"
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("state.pt", "before")]
    monkeypatch.undo()
    with pytest.raises(RuntimeError), files.atomic_write(path):
        raise RuntimeError("of its own")


def test_a_file_is_on_the_disk_before_it_takes_its_name(tmp_path, monkeypatch):
    done = []
    monkeypatch.setattr(files.os, "fsync", lambda _: done.append("sync"))
    monkeypatch.setattr(files.os, "replace", lambda *_: done.append("replace"))
    with files.atomic_write(tmp_path / "x") as part:
        part.write_text("x")
    assert done == ["sync", "replace"]
