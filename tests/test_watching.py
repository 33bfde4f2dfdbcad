"""Who watches a training is told of each update once, in order; none of it changes what comes out."""

import json
import re
import sys
from types import SimpleNamespace

import pytest
import torch
from tiny.states import stop
from tiny.trainer import trainer, weights

from raretokens.errors import UserError
from reproduction.corpora.tokenization.token_files import write_meta
from reproduction.pipeline import monitor
from reproduction.pipeline.monitor import Progress, Speed, Trackers
from reproduction.pipeline.settings import Machine, read
from reproduction.run import Run
from reproduction.training.recipe import Observer, Observers, Training
from reproduction.training.recipe import TrainJob as Job


class Recorder(Observer):
    def __init__(self) -> None:
        self.events: list[tuple] = []

    def begins(self, done, updates):
        self.events.append(("begins", done, updates))

    def after_step(self, row, tokens):
        self.events.append(("updated", dict(row), tokens))


def test_observers_are_told_each_update_once_with_its_row_of_the_log(folder):
    first, second = Recorder(), Recorder()
    watched = trainer(folder, "lm", "agg", validate_every=2, observer=Observers(first, second))
    watched.run()
    assert first.events == second.events
    assert first.events[0] == ("begins", 0, 6)
    assert [event[1] for event in first.events[1:]] == watched.rows
    assert [row["update"] for row in watched.rows if row["valid_nll"] is not None] == [2, 4, 6]
    assert sum(event[2] for event in first.events[1:]) == 6 * 64
    watched.state.remove()
    alone = trainer(folder, "lm", "agg", validate_every=2)
    alone.run()
    alone.state.remove()
    assert alone.rows == watched.rows
    assert all(torch.equal(value, weights(watched)[key]) for key, value in weights(alone).items())


def lines(folder, capsys, monkeypatch, **settings) -> list[str]:
    """What is printed when an update takes two seconds."""
    now = iter(range(100, 10_000))
    monkeypatch.setattr(monitor, "time", SimpleNamespace(monotonic=lambda: next(now) * 2.0))
    speed = Speed(1.0, 1)
    monkeypatch.setattr(speed, "facts", lambda: {"tokens_per_second": speed.tokens, "peak_memory_bytes": 3e9,
                                                 "model_flop_utilisation": None})  # fmt: skip
    monkeypatch.setattr(speed, "begin", lambda: None)
    speed.tokens = 0
    watched = trainer(folder, "lm", "mle", validate_every=3, observer=Progress("lm/mle", speed=speed, **settings))
    watched.run()
    watched.state.remove()
    return [line.split("  ") for line in capsys.readouterr().out.splitlines()]


def test_progress_is_a_line_every_few_seconds_and_one_for_each_validation(folder, capsys, monkeypatch):
    printed = lines(folder, capsys, monkeypatch, seconds=4.0)
    assert [line[:2] for line in printed] == [
        ["lm/mle", "step 2/6"],
        ["lm/mle", "step 3"],
        ["lm/mle", "step 4/6"],
        ["lm/mle", "step 6"],
        ["lm/mle", "step 6/6"],
    ]
    assert re.fullmatch(r"validation NLL \d\.\d{4}", printed[1][2])
    assert printed[0][2].startswith("loss ") and printed[0][3].startswith("nll ")
    assert printed[0][4:] == ["128 tokens/s", "3.0 GB", "0:08 left"]
    assert printed[2][4:] == ["256 tokens/s", "3.0 GB", "0:04 left"]
    assert printed[4][4:] == ["384 tokens/s", "3.0 GB", "0:00 left"]


def test_the_first_line_of_progress_says_what_one_step_lets_expect(folder, capsys, monkeypatch):
    first, *_ = lines(folder, capsys, monkeypatch, seconds=2.0)
    assert first[1] == "step 1/6" and first[-1] == "0:10 left"


class Stub:
    """A tracker of accelerate, as it is called: made, started, told, finished."""

    made: list = []
    requires_logging_directory = False

    def __init__(self, run, **options):
        self.run, self.options, self.calls = run, options, []
        Stub.made.append(self)

    def start(self):
        self.calls.append("start")

    def log(self, values, step):
        self.calls.append((step, values))

    def finish(self):
        self.calls.append("finish")


class InFolder(Stub):
    requires_logging_directory = True


@pytest.fixture
def stub(monkeypatch):
    Stub.made = []
    for kind in monitor.LOGGER_TYPE_TO_CLASS:
        monkeypatch.setitem(monitor.LOGGER_TYPE_TO_CLASS, kind, InFolder if kind in ("tensorboard", "aim") else Stub)


def test_trackers_are_sent_the_log(folder, stub):
    kept, other = (folder / "tracked" / kind / "lm-agg/old" for kind in ("dvclive", "wandb"))
    for path in (kept, other):
        path.mkdir(parents=True)
    sent = Trackers({"tensorboard": {}, "dvclive": {}}, "lm-agg", folder / "tracked")
    watched = trainer(folder, "lm", "agg", validate_every=4, observer=sent)
    watched.run()
    watched.state.remove()
    sent.close()
    assert [tracker.run for tracker in Stub.made] == ["lm-agg", "lm-agg"]
    assert Stub.made[0].options == {"logging_dir": str(folder / "tracked/tensorboard")}
    assert Stub.made[1].options["dir"] == str(folder / "tracked/dvclive/lm-agg")
    assert (Stub.made[1].options["save_dvc_exp"], Stub.made[1].options["dvcyaml"]) == (False, None)
    for tracker in Stub.made:
        assert (tracker.calls[0], tracker.calls[-1]) == ("start", "finish")
        for (step, values), row in zip(tracker.calls[1:-1], watched.rows, strict=True):
            assert {"update": step, "valid_nll": None, **values} == row
    assert not kept.exists() and other.exists()  # what an earlier run of that name had sent


def test_trackers_go_on_after_a_stop(folder, stub):
    """Nothing is taken away, and what was sent after the last save is sent again."""
    first, second = (Trackers({"dvclive": {}}, "lm-agg", folder / "tracked") for _ in range(2))
    stop(trainer(folder, "lm", "agg", save_updates=2, observer=first), 5)
    earlier = folder / "tracked/dvclive/lm-agg/earlier"
    earlier.mkdir(parents=True)
    resumed = trainer(folder, "lm", "agg", observer=second)
    resumed.run()
    resumed.state.remove()
    assert [tracker.options["resume"] for tracker in Stub.made] == [False, True]
    assert earlier.exists()
    steps = [[step for step, _ in tracker.calls[1:]] for tracker in Stub.made]
    assert steps == [[1, 2, 3, 4, 5], [5, 6]]
    again, before = Stub.made[1].calls[1], Stub.made[0].calls[5]
    assert again == before


@pytest.mark.parametrize(
    ("kind", "options", "said"),
    [
        ("dvclive", {}, "dvclive is not installed; pip install dvclive$"),
        ("mlflow", {"entity": "me"}, "mlflow: options {'entity': 'me'} are not allowed: .*entity"),
    ],
)
def test_a_tracker_that_cannot_be_started_is_one_line(tmp_path, monkeypatch, kind, options, said):
    monkeypatch.setitem(sys.modules, "dvclive", None)
    with pytest.raises(UserError, match=f"^data/scratch/machine.yaml: trackers: {said}"):
        Trackers({kind: options}, "lm-agg", tmp_path).begins(0, 6)


MACHINE_YAML = """
trackers:
  wandb: {entity: me, mode: offline}
  mlflow: {project: mine, run_name: other}
  comet_ml:
  aim: {}
"""


def test_any_tracker_of_accelerate_is_started_with_the_options_of_its_name(stub, tmp_path):
    (tmp_path / "machine.yaml").write_text(MACHINE_YAML)
    kinds = read(tmp_path / "machine.yaml").trackers
    Trackers(kinds, "lm-agg", tmp_path).begins(0, 6)
    assert [(tracker.run, tracker.options) for tracker in Stub.made] == [
        ("raretokens", {"name": "lm-agg", "dir": str(tmp_path / "wandb"), "entity": "me", "mode": "offline"}),
        ("mine", {"run_name": "other"}),
        ("lm-agg", {}),
        ("lm-agg", {"logging_dir": str(tmp_path / "aim")}),
    ]
    assert all(tracker.calls == ["start"] for tracker in Stub.made)


@pytest.fixture
def watched(tmp_path, monkeypatch, stub):
    """What watches a run, in a folder with its token files."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data/tokens/lm").mkdir(parents=True)
    write_meta(tmp_path / "data/tokens/lm", {"vocabulary": 100})
    shape = {"layers": 1, "width": 16, "heads": 2, "feedforward": 16}
    run = Run(
        name="tiny",
        task="lm",
        tokens="lm",
        objective="mle",
        model="s",
        architecture="decoder",
        shape=shape,
        seed=1,
        options={},
    )
    training = Training(steps=1, tokens_per_step=8, block=8, peak_lr=0.1, warmup=1, weight_decay=0, label_smoothing=0,
                        validate_every=1, keep="best", snapshot_every=1)  # fmt: skip
    job = Job(run=run, training=training, groups={"fractions": [0.3, 0.5, 0.2]})
    return lambda: monitor.Monitor(job, Machine(trackers=["dvclive"], micro_batch=32), None)


def test_how_long_a_run_took_is_written_when_it_ends_well(watched, tmp_path):
    timing = tmp_path / "data/scratch/timing/lm-tiny.json"
    with pytest.raises(KeyboardInterrupt), watched() as observer:
        observer.begins(0, 1)
        raise KeyboardInterrupt
    assert not timing.exists() and Stub.made[0].calls == ["start", "finish"]
    with watched() as observer:
        observer.begins(0, 1)
        observer.after_step({"update": 1, "loss": 1.0, "nll": 1.0, "valid_nll": 2.0}, 8)
    facts = json.loads(timing.read_text())
    assert facts["processes"] == 1 and facts["seconds"] >= 0 and facts["tokens_per_second"] > 0
    assert facts["model_flops_per_token"] == 6 * (4 * 16**2 + 2 * 16 * 16 + 100 * 16) + 12 * 16 * 8


@pytest.mark.parametrize(("done", "least", "most"), [(1, 5000, 6000), (0, 0, 1000)])
def test_what_a_run_took_is_counted_over_its_stops(watched, tmp_path, done, least, most):
    """Not where it begins anew after one, since its parameters changed."""
    kept, timing = (tmp_path / f"data/scratch/timing/lm-tiny.{end}" for end in ("unfinished", "json"))
    first = watched()
    first.usage.every = 0
    with pytest.raises(KeyboardInterrupt), first as observer:
        observer.begins(0, 2)
        observer.after_step({"update": 1, "loss": 1.0, "nll": 1.0, "valid_nll": None}, 8)
        raise KeyboardInterrupt
    kept.write_text(json.dumps(json.loads(kept.read_text()) | {"seconds": 5000.0}))
    with watched() as observer:
        observer.begins(done, 2)
    assert least <= json.loads(timing.read_text())["seconds"] < most
    assert not kept.exists()


def test_other_processes_neither_track_nor_write_nor_print(watched, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("RANK", "1")
    with watched() as observer:
        observer.begins(0, 1)
        observer.after_step({"update": 1, "loss": 1.0, "nll": 1.0, "valid_nll": 2.0}, 8)
    assert not Stub.made and not (tmp_path / "data/scratch").exists() and not capsys.readouterr().out


def test_a_gpu_that_is_too_small_names_the_setting(watched):
    with pytest.raises(UserError, match="^data/scratch/machine.yaml: micro_batch: 32 tokens do not fit"), watched():
        raise torch.OutOfMemoryError
