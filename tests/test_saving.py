"""What is saved of a run, when, and what is left of it when it is killed."""

import json

import pytest
import torch
from safetensors.torch import save_file
from tiny.trainer import trainer, write_tokens

from raretokens.errors import UserError
from raretokens.training import saving, state
from raretokens.training.execution import Execution
from raretokens.training.outputs import Checkpoint, Outputs, average, kept_after
from raretokens.training.saving import SAVE_TOGETHER, Clock
from raretokens.training.state import State, fingerprint


@pytest.fixture
def folder(tmp_path):
    write_tokens(tmp_path)
    yield tmp_path
    torch.set_default_dtype(torch.float32)


def due(clock: Clock, updates: int) -> list[int]:
    return [update for update in range(1, updates + 1) if clock.due(update)]


def test_one_process_saves_by_the_clock(monkeypatch):
    """An update takes 25 seconds; a save is due when more than 60 have passed since the last."""
    now = [1000.0]
    monkeypatch.setattr(saving.time, "monotonic", lambda: now[0])
    clock, saves = Clock(Execution(save_seconds=60.0), 1), []
    for update in range(1, 11):
        now[0] += 25.0
        if clock.due(update):
            saves.append(update)
    assert saves == [3, 6, 9]


def test_several_processes_save_after_the_same_update(monkeypatch):
    monkeypatch.setattr(
        saving.time, "monotonic", lambda: pytest.fail("clocks differ from process to process") if asked else 0
    )
    asked = False
    clocks = Clock(Execution(save_seconds=1e-9), 2), Clock(Execution(save_updates=400), 2)
    asked = True
    assert due(clocks[0], 1600) == [SAVE_TOGETHER, 2 * SAVE_TOGETHER, 3 * SAVE_TOGETHER]
    assert due(clocks[1], 1600) == [400, 800, 1200, 1600]


def test_saves_by_number_go_before_the_clock():
    assert due(Clock(Execution(save_seconds=1e-9, save_updates=3), 1), 10) == [3, 6, 9]


def checkpoints(*values: float) -> list[Checkpoint]:
    return [Checkpoint(update, value) for update, value in enumerate(values, start=1)]


@pytest.mark.parametrize(("keep", "kept"), [("best", [2]), (1, [5]), (2, [4, 5]), (9, [1, 2, 3, 4, 5])])
def test_the_best_or_the_last_checkpoints_are_kept(keep, kept):
    """Of two that are equally good the first is the best."""
    now: list[Checkpoint] = []
    for checkpoint in checkpoints(3.0, 1.0, 2.0, 1.0, 4.0):
        now = kept_after(now, checkpoint, keep)
    assert [checkpoint.update for checkpoint in now] == kept


def test_the_mean_of_weights_is_in_float32(tmp_path):
    for number, value in enumerate((1.0, 2.0, 6.0)):
        save_file({"table": torch.full((2,), value, dtype=torch.bfloat16)}, tmp_path / f"{number}")
    mean = average([tmp_path / f"{number}" for number in range(3)])
    assert mean["table"].tolist() == [3.0, 3.0] and mean["table"].dtype == torch.float32


def row(update: int, valid: float | None = None) -> dict:
    return {"update": update, "loss": 1 / 3, "nll": 2e-7 / 3, "rare_group_size": 4, "valid_nll": valid}


def test_log_and_summary_of_what_was_trained_so_far(tmp_path):
    outputs = Outputs(tmp_path / "run", {"parameters": 9})
    outputs.publish([row(1)], [])
    assert json.loads((tmp_path / "run/training.json").read_text()) == {
        "updates": 1, "loss": 0.333333, "nll": 6.66667e-08, "parameters": 9,
    }  # fmt: skip
    outputs.publish([row(1), row(2, 4.5)], checkpoints(4.75, 4.5))
    assert (tmp_path / "run/log.tsv").read_text().splitlines() == [
        "update\tloss\tnll\trare_group_size\tvalid_nll",
        "1\t0.333333\t6.66667e-08\t4\t",
        "2\t0.333333\t6.66667e-08\t4\t4.5",
    ]
    kept = json.loads((tmp_path / "run/training.json").read_text())["kept"]
    assert kept == {"update": 2, "checkpoints": 2, "valid_nll": 4.5}
    outputs.publish([row(1), row(2, 4.5)], checkpoints(4.75, 4.5), 4.6)
    assert json.loads((tmp_path / "run/training.json").read_text())["kept"]["valid_nll"] == 4.6
    Outputs(tmp_path / "other", {}, is_main=False).publish([row(1)], [])
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_log_and_summary_are_written_at_each_save(folder):
    stopped = trainer(folder, "lm", "mle", updates=8, validate_every=2, save_updates=3)
    rows = []
    stopped.state.check_parent = lambda: rows.append(written(stopped)) or stopped.update < 7 or pytest.fail("stop")
    with pytest.raises(pytest.fail.Exception):
        stopped.run()
    assert rows == [0, 0, 0, 3, 3, 3, 6, 6]
    summary = json.loads((stopped.outputs.into / "training.json").read_text())
    assert (summary["updates"], summary["parameters"], summary["kept"]["update"] in (2, 4, 6)) == (6, 9, True)
    assert not (stopped.outputs.into / "model.safetensors").exists()
    stopped.state.remove()


def written(trained) -> int:
    """Rows of the log that is there."""
    log = trained.outputs.into / "log.tsv"
    return len(log.read_text().splitlines()) - 1 if log.exists() else 0


def test_a_run_is_trained_by_one_process_at_a_time(tmp_path):
    first = State(tmp_path / "run")
    with pytest.raises(UserError, match="run: another process is training this run; wait for it or stop it"):
        State(tmp_path / "run")
    assert State(tmp_path / "run", rank=1).restore() is None  # of the same run
    first._lock.close()
    State(tmp_path / "run")._lock.close()


def test_a_run_whose_starter_is_gone_stops(tmp_path, monkeypatch):
    run = State(tmp_path / "run")
    run.check_parent()
    monkeypatch.setattr(state.os, "getppid", lambda: 1)
    with pytest.raises(UserError, match="the process that started this run is gone; its state is kept"):
        run.check_parent()


def test_a_save_that_fails_leaves_the_one_before(tmp_path):
    run = State(tmp_path / "run")
    run.save({"update": 3})
    with pytest.raises(AttributeError):
        run.save({"update": lambda: 4})
    assert run.restore() == {"update": 3}
    assert sorted(path.name for path in run.path.iterdir()) == ["lock", "state.pt"]


def test_weights_and_tables_are_set_aside_by_the_first_process_alone(tmp_path):
    table = torch.linspace(0, 1, 6).reshape(3, 2)
    other, run = State(tmp_path / "run", rank=1), State(tmp_path / "run")
    for update in (4, 8, 12):
        other.keep_weights(update, {"table": table})
        other.keep_table(update, table)
    assert [path.name for path in run.path.iterdir()] == ["lock"]
    for update in (4, 8, 12):
        run.keep_weights(update, {"table": table})
    run.keep_table(4, table)
    run.forget_weights([8, 12])
    assert [run.weights(update).exists() for update in (4, 8, 12)] == [False, True, True]
    assert list(run.tables()) == ["000004"] and torch.equal(run.tables()["000004"], table.half())


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
