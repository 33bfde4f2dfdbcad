"""What is saved of a run, and when: the clock, the log, the copy that a thread writes."""

import errno
import json
import threading
import tracemalloc

import pytest
import torch
from safetensors.torch import save_file
from tiny.states import row, save, throw, written
from tiny.trainer import trainer

from raretokens.errors import UserError
from reproduction.training import checked_files, saving
from reproduction.training.checked_files import Log, Position, checksum
from reproduction.training.recipe import Execution
from reproduction.training.rule import is_worse, latest
from reproduction.training.run import to_the_end
from reproduction.training.saving import SAVE_TOGETHER, Checkpoint, Clock, Outputs, average, kept_after
from reproduction.training.state import State


def due(clock: Clock, steps: int) -> list[int]:
    return [step for step in range(1, steps + 1) if clock.due(step)]


@pytest.fixture
def now(monkeypatch):
    """A clock that goes when a test says so; its seconds are the only element."""
    seconds = [1000.0]
    monkeypatch.setattr(saving.time, "monotonic", lambda: seconds[0])
    return seconds


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
    start, stepping, step = now[0], 0.0, 0
    with saver:
        while now[0] < start + 3600.0:
            is_saving = thread.saves and not thread.done()
            now[0] += 0.25 * (1.0 + busy / seconds if is_saving else 1.0)
            stepping, step = stepping + 0.25, step + 1
            run.log.append(row(step))
            if saver.due(step):
                saver.agree(step)
                saver.save({"update": step}, [])
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
    return [Checkpoint(step, value) for step, value in enumerate(values, start=1)]


@pytest.mark.parametrize(("keep", "kept"), [("best", [2]), (1, [5]), (2, [4, 5]), (9, [1, 2, 3, 4, 5])])
def test_the_best_or_the_last_checkpoints_are_kept(keep, kept):
    """Of two that are equally good the first is the best."""
    now: list[Checkpoint] = []
    for checkpoint in checkpoints(3.0, 1.0, 2.0, 1.0, 4.0):
        now = kept_after(now, checkpoint, keep)
    assert [checkpoint.step for checkpoint in now] == kept


def test_the_mean_of_weights_is_in_float32(tmp_path):
    for number, value in enumerate((1.0, 2.0, 6.0)):
        save_file({"table": torch.full((2,), value, dtype=torch.bfloat16)}, tmp_path / f"{number}")
    mean = average([tmp_path / f"{number}" for number in range(3)])
    assert mean["table"].tolist() == [3.0, 3.0] and mean["table"].dtype == torch.float32


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
    run.log.resume(Position(f"{size}:{checksum(run.log.path)}", row(rows)))
    outputs.publish(run.log, run.log.position(), [])
    append = checked_files._append
    monkeypatch.setattr(checked_files, "_append", lambda path, new: written.append(len(new)) or append(path, new))
    tracemalloc.start()
    for step in range(rows + 1, rows + 1001):
        run.log.append(row(step))
    save(run, rows + 1000)
    outputs.publish(run.log, run.log.position(), [])
    held, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 100_000 and peak < 1_000_000
    more = run.log.path.stat().st_size - size
    assert sum(written) == 2 * more < 70_000
    assert (tmp_path / "out/log.tsv").read_bytes() == run.log.path.read_bytes()
    assert max(path.stat().st_size for path in run.path.glob("state-*")) < 5000


@pytest.mark.parametrize("window", [0, 1, 5])
def test_the_stop_needs_only_the_last_validations_and_the_best_before(window):
    nlls = torch.rand(300, generator=torch.Generator().manual_seed(0)).tolist()
    kept: list[float] = []
    for number, nll in enumerate(nlls, start=1):
        kept = latest([*kept, nll], window)
        assert is_worse(kept, window) == is_worse(nlls[:number], window) and len(kept) <= window + 2


@pytest.mark.parametrize("save_updates", [0, 4])
def test_a_training_that_keeps_few_weights_fills_no_disk(folder, save_updates):
    """The kept ones, those of the last two states, and the newest."""
    trained, numbers = trainer(folder, "lm", "mle", steps=16, validate_every=1, keep=2, save_updates=save_updates), []
    one_update = trained._run_step
    trained._run_step = lambda prepared: (one_update(prepared), numbers.append(len([*trained.state._weights()])))[0]
    trained.run()
    assert max(numbers) <= (2 + 2 * 2 if save_updates else 2)
    trained.state.remove()


def test_log_and_summary_are_written_at_each_save(folder):
    stopped = trainer(folder, "lm", "mle", steps=8, validate_every=2, save_updates=3)
    rows = []
    stopped.state.check_parent = lambda: rows.append(written(stopped)) or stopped.step < 7 or pytest.fail("stop")
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
    monkeypatch.setattr(Clock, "due", lambda _, step: step == 3)
    write = stopped.state.write
    stopped.state.write = lambda *content: may_write.wait(60) and write(*content)
    stopped.state.check_parent = lambda: stopped.step < 7 or may_write.set() or pytest.fail("stop")
    with pytest.raises(pytest.fail.Exception):
        stopped.run()
    assert stopped.state.saved == 3
    stopped.state._lock.close()
    resumed = trainer(folder, "lm", name, **settings)
    assert resumed.step == 3
    to_the_end(resumed)
    assert outputs_of(resumed) == expected
    resumed.state.remove()


def outputs_of(trained) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in trained.outputs.into.iterdir()}


def test_an_error_of_the_thread_ends_the_training(folder, monkeypatch):
    trained = trainer(folder, "lm", "mle", steps=50)
    monkeypatch.setattr(Clock, "due", lambda _, step: step == 3)
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
