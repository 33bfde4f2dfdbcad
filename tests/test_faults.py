"""The fault-injection tests notice what they are for: a wrong answer is silent, and a program's error is a traceback."""

import contextlib
from pathlib import Path

import pytest

from raretokens.errors import UserError


@pytest.fixture(autouse=True)
def scripts(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).with_name("faults"))


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


def test_a_server_that_fails_changes_no_file(tmp_path, monkeypatch):
    import downloads
    import tally

    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    counted = tally.Tally("downloads")
    with downloads.failing() as server:
        for number in range(8):
            (tmp_path / f"{number}").mkdir()
            with contextlib.chdir(tmp_path / f"{number}"):
                downloads.trial(counted, server, number)
    assert counted.counts == {"correct": 8}


def test_a_mistake_that_is_accepted_is_silent():
    import parameters
    import tally

    counted = tally.Tally("parameters")
    parameters.sources(counted, 5)
    parameters.params(counted, 6)
    assert counted.counts == {"correct": 11}

    def refused(error: Exception) -> None:
        raise error

    tally.expect_refusal(counted, "accepted", "", lambda: "no message")
    tally.expect_refusal(counted, "of another file", "params.yaml: ", lambda: refused(UserError("other.yaml: x")))
    tally.expect_refusal(counted, "a program's error", "", lambda: refused(KeyError("x")))
    assert (counted.counts["silent"], counted.counts["tracebacks"]) == (2, 1)


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


def test_a_text_that_is_wrongly_accepted_is_silent(tmp_path, monkeypatch):
    import corpora

    monkeypatch.setattr(corpora, "bent", lambda data: data + b"\0")
    monkeypatch.setattr(corpora.own, "take", lambda name, file, into: into.write_bytes(file.read_bytes()))
    assert corpora.trial(tmp_path, "text", "words") == ("silent", "accepted")
