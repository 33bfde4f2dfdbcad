"""What is saved of a run, when, and what is left of it when it is killed."""

import errno
import json
import re
import shutil
import threading
import tracemalloc

import pytest
import torch
from safetensors.torch import save_file
from tiny.trainer import trainer, write_tokens

from raretokens import files
from raretokens.errors import UserError
from raretokens.training import log as log_file
from raretokens.training import loop, saving, state
from raretokens.training.checked_files import checksum
from raretokens.training.checkpoints import Checkpoint, Outputs, average, kept_after
from raretokens.training.config import Execution
from raretokens.training.log import Log, Position
from raretokens.training.rule import is_worse, latest
from raretokens.training.run import to_the_end
from raretokens.training.saving import SAVE_TOGETHER, Clock
from raretokens.training.state import State, fingerprint


@pytest.fixture
def folder(tmp_path):
    write_tokens(tmp_path)
    yield tmp_path
    torch.set_default_dtype(torch.float32)


def due(clock: Clock, updates: int) -> list[int]:
    return [update for update in range(1, updates + 1) if clock.due(update)]


@pytest.fixture
def now(monkeypatch):
    """A clock that goes when a test says so; its seconds are the only element."""
    seconds = [1000.0]
    monkeypatch.setattr(saving.time, "monotonic", lambda: seconds[0])
    return seconds


def test_a_save_is_due_a_while_after_the_end_of_the_last_one(now):
    """A step takes 25 seconds and the first save 70; it cost nothing."""
    clock, saves = Clock(Execution(save_seconds=60.0)), []
    for update in range(1, 11):
        now[0] += 25.0
        if clock.due(update):
            saves.append(update)
            now[0] += 70.0 if len(saves) == 1 else 0.0
            clock.saved(0.0)
    assert saves == [3, 6, 9]


class Slow:
    """The save's thread: it takes so many seconds in the background, `busy` of them of a processor."""

    def __init__(self, now: list[float], seconds: float, busy: float) -> None:
        self.now, self.seconds, self.busy = now, seconds, busy
        self.saves: list[tuple[float, float]] = []  # begin and end

    def submit(self, *_: object) -> "Slow":
        self.saves.append((self.now[0], self.now[0] + self.seconds))
        return self

    def done(self) -> bool:
        return self.now[0] >= self.saves[-1][1]

    def exception(self) -> None:
        self.now[0] = max(self.now[0], self.saves[-1][1])

    def result(self) -> float:
        return self.busy

    def shutdown(self) -> None:
        pass


@pytest.mark.parametrize(
    ("seconds", "copying", "busy", "fewest"),
    [(20.0, 1.0, 5.0, 5), (20.0, 1.0, 20.0, 2), (121.0, 2.0, 20.0, 2), (121.0, 0.0, 1.0, 14), (0.1, 0.01, 0.1, 28)],
)
@pytest.mark.parametrize("processes", [1, 2])
def test_saves_leave_98_percent_of_an_hour_to_steps(
    tmp_path, now, monkeypatch, seconds, copying, busy, fewest, processes
):
    """Steps take a quarter of a second, and longer while the thread takes the processor from them."""
    run = State(tmp_path / "run")
    monkeypatch.setattr(saving, "copied", lambda content: now.__setitem__(0, now[0] + copying) or content)
    thread = Slow(now, seconds, busy)
    saver = saving.Saver(Clock(Execution(save_seconds=120.0), processes), run, Outputs(tmp_path, {}), thread)
    start, stepping, update = now[0], 0.0, 0
    with saver:
        while now[0] < start + 3600.0:
            is_saving = thread.saves and not thread.done()
            now[0] += 0.25 * (1.0 + busy / seconds if is_saving else 1.0)
            stepping, update = stepping + 0.25, update + 1
            run.log.append(row(update))
            if saver.due(update):
                saver.agree(update)
                saver.save({"update": update}, [])
        assert stepping / (now[0] - start) >= 0.98
    assert len(thread.saves) >= fewest
    pauses = [begin - end for (_, end), (begin, _) in zip(thread.saves, thread.saves[1:], strict=False)]
    assert processes > 1 or all(pause >= 120.0 for pause in pauses)


def test_several_processes_save_after_the_same_step(now, monkeypatch):
    """At each save the slowest one decides how many steps come before the next."""
    clocks = [Clock(Execution(save_seconds=1e-9), 2) for _ in range(2)]
    said: list[list[int]] = [[], []]
    monkeypatch.setattr(saving, "gather_object", lambda mine: [max(mine[0], *said[0], *said[1])])
    assert due(clocks[0], SAVE_TOGETHER) == [SAVE_TOGETHER]
    now[0] += 250.0  # half a second a step
    clocks[0].saved(cost=10.0)
    said[1] = [round(99 * 10.0 / 0.5)]
    for clock in clocks:
        clock.agree(SAVE_TOGETHER)
    assert [due(clock, 5000)[0] for clock in clocks] == [SAVE_TOGETHER + 1980] * 2
    assert due(Clock(Execution(save_updates=400), 2), 1600) == [400, 800, 1200, 1600]


def test_saves_by_number_go_before_the_clock():
    assert due(Clock(Execution(save_seconds=1e-9, save_updates=3)), 10) == [3, 6, 9]


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
    outputs, log = Outputs(tmp_path / "run", {"parameters": 9}), Log(tmp_path)
    log.append(row(1))
    outputs.publish(log, log.position(), [])
    assert json.loads((tmp_path / "run/training.json").read_text()) == {
        "updates": 1, "loss": 0.333333, "nll": 6.66667e-08, "parameters": 9,
    }  # fmt: skip
    log.append(row(2, 4.5))
    outputs.publish(log, log.position(), checkpoints(4.75, 4.5))
    assert (tmp_path / "run/log.tsv").read_text().splitlines() == [
        "update\tloss\tnll\trare_group_size\tvalid_nll",
        "1\t0.333333\t6.66667e-08\t4\t",
        "2\t0.333333\t6.66667e-08\t4\t4.5",
    ]
    kept = json.loads((tmp_path / "run/training.json").read_text())["kept"]
    assert kept == {"update": 2, "checkpoints": 2, "valid_nll": 4.5}
    outputs.publish(log, log.position(), checkpoints(4.75, 4.5), 4.6)
    assert json.loads((tmp_path / "run/training.json").read_text())["kept"]["valid_nll"] == 4.6
    Outputs(tmp_path / "other", {}, is_main=False).publish(log, log.position(), [])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log.tsv", "run"]


@pytest.mark.parametrize("rows", [10**3, 10**5, 10**6])
def test_neither_memory_nor_a_save_grows_with_the_log(tmp_path, monkeypatch, rows):
    """A run that continues after so many steps: what a thousand more take, in bytes held and bytes written."""
    written = []
    run, outputs = State(tmp_path / "run"), Outputs(tmp_path / "out", {})
    run.log.append(row(1))
    line = run.log.position().size // 2
    with open(run.log.path, "ab") as file:
        file.write(b"x" * (line * (rows - 1)))
    size = run.log.path.stat().st_size
    run.log.resume(Position(size, checksum(run.log.path), row(rows)))
    outputs.publish(run.log, run.log.position(), [])
    append = log_file._append
    monkeypatch.setattr(log_file, "_append", lambda path, new: written.append(len(new)) or append(path, new))
    tracemalloc.start()
    for update in range(rows + 1, rows + 1001):
        run.log.append(row(update))
    save(run, rows + 1000)
    outputs.publish(run.log, run.log.position(), [])
    held, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 100_000 and peak < 1_000_000
    more = run.log.path.stat().st_size - size
    assert sum(written) == 2 * more < 70_000
    assert (tmp_path / "out/log.tsv").read_bytes() == run.log.path.read_bytes()
    assert max(path.stat().st_size for path in run.path.glob("state-*")) < 5000


def test_the_stop_is_checked_after_a_validation_in_a_few_numbers(folder, monkeypatch):
    compared = []
    monkeypatch.setattr(loop, "is_worse", lambda nlls, window: compared.append(len(nlls)))
    trained = trainer(folder, "lm", "mle", steps=60, validate_every=2, stop_window=3)
    trained.run()
    trained.state.remove()
    assert len(compared) == 60 / 2 + 1 - 1 and max(compared) == 3 + 2


@pytest.mark.parametrize("window", [0, 1, 5])
def test_the_stop_needs_only_the_last_validations_and_the_best_before(window):
    nlls = torch.rand(300, generator=torch.Generator().manual_seed(0)).tolist()
    kept: list[float] = []
    for number, nll in enumerate(nlls, start=1):
        kept = latest([*kept, nll], window)
        assert is_worse(kept, window) == is_worse(nlls[:number], window) and len(kept) <= window + 2


def test_log_and_summary_are_written_at_each_save(folder):
    stopped = trainer(folder, "lm", "mle", steps=8, validate_every=2, save_updates=3)
    rows = []
    stopped.state.check_parent = lambda: rows.append(written(stopped)) or stopped.update < 7 or pytest.fail("stop")
    with pytest.raises(pytest.fail.Exception):
        stopped.run()
    assert rows == [0, 0, 0, 3, 3, 3, 6, 6]
    summary = json.loads((stopped.outputs.into / "training.json").read_text())
    assert (summary["updates"], summary["parameters"], summary["kept"]["update"] in (2, 4, 6)) == (6, 9, True)
    assert not (stopped.outputs.into / "model.safetensors").exists()
    stopped.state.remove()


@pytest.mark.parametrize("name", ["agg", "frage"])
def test_a_save_in_the_background_is_of_its_own_step(folder, monkeypatch, name):
    """Training goes on to its end while the thread waits; a run that resumes from that state has the same bytes."""
    settings = {"dropout": 0.2, "steps": 8, "validate_every": 2, "keep": 2, "dtype": torch.float32}
    whole = trainer(folder, "lm", name, **settings)
    to_the_end(whole)
    expected = outputs_of(whole)
    whole.state.remove()
    stopped, may_write = trainer(folder, "lm", name, **settings), threading.Event()
    monkeypatch.setattr(Clock, "due", lambda _, update: update == 3)
    write = stopped.state.write
    stopped.state.write = lambda *content: may_write.wait(60) and write(*content)
    stopped.state.check_parent = lambda: stopped.update < 7 or may_write.set() or pytest.fail("stop")
    with pytest.raises(pytest.fail.Exception):
        stopped.run()
    assert stopped.state.saved == 3
    stopped.state._lock.close()
    resumed = trainer(folder, "lm", name, **settings)
    assert resumed.update == 3
    to_the_end(resumed)
    assert outputs_of(resumed) == expected
    resumed.state.remove()


def outputs_of(trained) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in trained.outputs.into.iterdir()}


def test_an_error_of_the_thread_ends_the_training(folder, monkeypatch):
    trained = trainer(folder, "lm", "mle", steps=50)
    monkeypatch.setattr(Clock, "due", lambda _, update: update == 3)
    trained.state.write = lambda *_: throw(OSError(errno.EIO, "Input/output error", "data/scratch/x"))
    with pytest.raises(UserError, match="data/scratch/x: input/output error; no state was saved yet"):
        to_the_end(trained)
    trained.state.remove()


def test_tensors_of_one_memory_are_copied_once():
    tied = torch.arange(3.0)
    state = {"a": tied, "b": [tied, (tied[1:], torch.empty(0), 5)]}
    copy = saving.copied(state)
    tied.add_(1)
    assert copy["a"] is copy["b"][0] and copy["a"].tolist() == [0.0, 1.0, 2.0]
    assert copy["b"][1][0].tolist() == [1.0, 2.0] and copy["b"][1][2] == 5


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
    gone = "run: the process that started this run is gone; "
    with pytest.raises(UserError, match=f"{gone}no state was saved yet; start again to resume"):
        run.check_parent()
    save(run, 3)
    with pytest.raises(UserError, match=f"{gone}its state after update 3 is kept in .*run; start again to resume"):
        run.check_parent()


def test_a_save_that_fails_leaves_the_one_before(tmp_path):
    run = State(tmp_path / "run")
    save(run, 3)
    with pytest.raises(AttributeError):
        save(run, 4, other=lambda: 4)
    assert restored(run) == 3
    assert [path.name[:13] for path in sorted(run.path.iterdir())] == ["lock", "log.tsv", "state-000003-"]


def test_weights_and_tables_are_set_aside_by_the_first_process_alone(tmp_path):
    table = torch.linspace(0, 1, 6).reshape(3, 2)
    other, run = State(tmp_path / "run", rank=1), State(tmp_path / "run")
    for update in (4, 8, 12):
        other.keep_weights(update, {"table": table})
        other.keep_snapshot(update, table)
    assert [path.name for path in run.path.iterdir()] == ["lock"]
    for update in (4, 8):
        run.keep_weights(update, {"table": table})
    run.keep_snapshot(4, table)
    save(run, 8, [8])
    for update in (10, 12):
        run.keep_weights(update, {"table": table})
    run.forget_weights([12])
    assert [run.weights(update).exists() for update in (4, 8, 10, 12)] == [False, True, False, True]
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


def save(run: State, update: int, kept=(), **content) -> None:
    """Save a state after a row of the log."""
    run.log.append(row(update))
    sums = run.begin_save(kept, run.log.position())
    run.write({"update": update, "row": run.log.last, **content}, sums)
    run.end_save(update)


def restored(run: State, *tell) -> int | None:
    """The step of the state that a run continues from."""
    found = run.restore(*tell)
    return found and found["update"]


def saved(path, *updates: int) -> State:
    """Saved states, each with a table and weights of its own."""
    run = State(path)
    for update in updates:
        run.keep_snapshot(update, torch.full((3, 2), float(update)))
        run.keep_weights(update, {"table": torch.full((3, 2), float(update))})
        save(run, update, [update])
    run._lock.close()
    return run


def names(run: State, kind: str) -> list[int]:
    return sorted(int(path.name.split("-")[1].split(".")[0]) for path in run.path.glob(f"{kind}-*"))


def test_two_states_are_kept_with_their_weights_and_all_tables(tmp_path):
    """Also of seven digits."""
    run = saved(tmp_path / "run", 4, 999_999, 1_000_000)
    assert [names(run, kind) for kind in ("state", "weights", "table")] == [
        [999_999, 1_000_000], [999_999, 1_000_000], [4, 999_999, 1_000_000]
    ]  # fmt: skip
    assert restored(State(run.path)) == 1_000_000


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
    now = "going on after update 8" if goes_on else "starting from the beginning"
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


def test_after_damage_the_next_states_are_the_last_ones(tmp_path):
    """What was set aside is in no one's way, and the weights of the state before are kept until there are two again."""
    run = saved(tmp_path / "run", 4, 8, 12)
    damage(run, "table-000012", "flipped")
    again = State(run.path)
    assert restored(again) == 8
    again.forget_weights([])
    assert names(again, "weights") == [8, 12]
    for update in (10, 12):
        again.keep_snapshot(update, torch.zeros(3, 2))
        again.keep_weights(update, {"table": torch.zeros(3, 2)})
        save(again, update, [update])
    assert [names(again, kind) for kind in ("state", "weights")] == [[10, 12], [10, 12]]
    assert list(again.snapshots()) == ["000004", "000008", "000010", "000012"]


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
        if trained.update == 2:
            torch.nn.init.constant_(trained.embedding, float("nan"))
        return rate

    trained._step = diverging
    with pytest.raises(UserError) as error:
        trained.run()
    what = "the validation NLL after update 3" if updates == 3 else "the loss of update 4"
    kept = f"its state after update 2 is kept in {trained.state.path}"
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
    one_update = trained._one_update
    trained._one_update = lambda prepared: throw(raised) if trained.update == 5 else one_update(prepared)
    with pytest.raises(UserError) as error:
        to_the_end(trained)
    kept = f"its state after update 4 is kept in {trained.state.path}; start again to resume"
    assert re.fullmatch(f"lm/mle: {said}; {re.escape(kept)}", str(error.value))
    trained.state.remove()


def throw(error: BaseException) -> None:
    raise error


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
