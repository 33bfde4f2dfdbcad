"""The drills, which run by hand, see what they are for: a wrong answer is silent, a program's error a traceback."""

import contextlib
import csv
import sys
import threading
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest

from raretokens.errors import UserError

ROOT = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def scripts(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "tests/faults")
    monkeypatch.setattr(sys, "path", [*sys.path])


def test_rows_of_other_drills_stay(tmp_path, monkeypatch):
    import tally

    monkeypatch.setattr(tally, "ROWS", tmp_path / "rows.csv")
    for drill, kind in (("one", "lost"), ("two", "correct"), ("one", "correct")):
        made = tally.Tally(drill)
        made.add(kind, "why")
        made.keep()
    rows = list(csv.DictReader((tmp_path / "rows.csv").read_text().splitlines()))
    assert [(row["drill"], row["tried"], row["correct"], row["lost"]) for row in rows] == [("one", "1", "1", "0"),
                                                                                           ("two", "1", "1", "0")]  # fmt: skip


def test_a_training_that_was_killed_ends_as_the_other_and_another_end_is_silent():
    import tally
    import training

    counted = tally.Tally("training")
    with training.world() as folder:
        assert training.train(folder)[0] == 0
        expected = training.outputs(folder)
    assert {"model.safetensors", "log.tsv"} <= expected.keys()
    training.operations(counted, expected, 2)
    training.disk(counted, expected, 2)
    assert counted.counts == {"correct": 4}
    training.operations(counted, {**expected, "log.tsv": b""}, 1)
    assert counted.counts["silent"] == 1


def test_bad_weather_changes_no_file(tmp_path, monkeypatch):
    import tally
    import weather

    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    server, counted = ThreadingHTTPServer(("127.0.0.1", 0), weather.Handler), tally.Tally("weather")
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    for number in range(8):
        (tmp_path / f"{number}").mkdir()
        with contextlib.chdir(tmp_path / f"{number}"):
            weather.trial(counted, server, number)
    server.shutdown()
    server.server_close()
    assert counted.counts == {"correct": 8}


def test_mistakes_in_files_are_told_from_answers():
    import parameters
    import tally

    counted = tally.Tally("mistakes")
    parameters.sources(counted, 5)
    parameters.params(counted, 6)
    assert counted.counts == {"correct": 11}

    def refused(error: Exception) -> None:
        raise error

    tally.tried(counted, "accepted", "", lambda: "nothing was said")
    tally.tried(counted, "of another file", "params.yaml: ", lambda: refused(UserError("other.yaml: x")))
    tally.tried(counted, "a program's error", "", lambda: refused(KeyError("x")))
    assert (counted.counts["silent"], counted.counts["tracebacks"]) == (2, 1)


def test_inputs_are_answered_and_a_refusal_of_them_is_lost(tmp_path):
    import inputs
    import tally

    counted = tally.Tally("inputs")
    for kind in ("scalars", "vectors", "tokens", "environment"):
        (tmp_path / kind).mkdir()
        tally.tried(counted, kind, inputs.REFUSED.get(kind), inputs.DRILLS[kind](tmp_path / kind))
    assert counted.counts == {"correct": 4}

    def refused() -> None:
        raise UserError("x")

    tally.tried(counted, "refused", None, refused)
    tally.tried(counted, "wrong", None, lambda: "another answer")
    assert (counted.counts["lost"], counted.counts["silent"]) == (1, 1)


@pytest.mark.parametrize(
    ("loses", "kind"),
    [
        (None, "correct"),
        (lambda lines: [line.replace("a", "") for line in lines], "silent"),
        (lambda lines: lines[1:], "silent"),
    ],
    ids=["nothing", "a letter", "a line"],
)
def test_a_text_that_does_not_come_back_is_silent(tmp_path, monkeypatch, loses, kind):
    import corpora

    monkeypatch.setattr(corpora, "bent", lambda data: data + b"one line more\r\n")
    found = corpora.decoded
    if loses:
        monkeypatch.setattr(corpora, "decoded", lambda *where: loses(found(*where)))
    for vocabulary in corpora.VOCABULARIES:
        folder = tmp_path / vocabulary
        folder.mkdir()
        assert corpora.trial(folder, "text", vocabulary)[0] == kind


def test_what_must_be_refused_and_is_not_is_silent(tmp_path, monkeypatch):
    import corpora

    monkeypatch.setattr(corpora, "bent", lambda data: data + b"\0")
    monkeypatch.setattr(corpora.own, "take", lambda name, file, into: into.write_bytes(file.read_bytes()))
    assert corpora.trial(tmp_path, "text", "words") == ("silent", "accepted")
