"""The scale for one's own text: parameters that the pipeline accepts, with the demo's comments, and nothing of its texts."""

import os
from pathlib import Path

import pytest

from raretokens.errors import UserError
from reproduction import paths
from reproduction.commands import REPRODUCTION, own_scale
from reproduction.pipeline.parameters_file import load

ROOT = Path(__file__).parents[1]


@pytest.fixture
def clone(tmp_path, monkeypatch) -> Path:
    """The files of a clone that the command reads, and texts in two languages beside it."""
    clone = tmp_path / "clone"
    (clone / ".dvc").mkdir(parents=True)
    for name in ("params.yaml", ".dvc/config", ".dvc/.gitignore"):
        (clone / name).write_text((ROOT / name).read_text())
    for name in ("train", "valid", "test"):
        for ending in ("", ".de", ".en"):
            (tmp_path / f"{name}{ending}").write_text("a line\n")
    monkeypatch.setattr(own_scale, "root", lambda: clone)
    monkeypatch.chdir(tmp_path)
    return clone


def own(*words: str) -> None:
    arguments = REPRODUCTION.parser(["own"]).parse_args(["own", *words])
    arguments.function(arguments)


def test_a_text_has_runs_of_four_objectives_and_no_other_task(clone, capsys, monkeypatch):
    own("mine", "train", "valid", "test", "--languages", "de", "--seeds", "2")
    said = capsys.readouterr().out
    runs, vocabulary, following = said.splitlines()
    assert runs == "clone/scales/mine: 8 runs of mle, agg, freeze, ember"
    assert vocabulary == "a short text may need a smaller vocabulary than 4000 (clone/scales/mine/params.yaml)"
    assert following.startswith("next: cd clone/scales/mine; dvc repro enc")
    monkeypatch.chdir(clone / "scales/mine")
    found = load()
    assert [(run.name, run.objective, run.seed) for run in found.every_run()][3:6] == [
        ("ember", "ember", 1), ("mle-2", "mle", 2), ("agg-2", "agg", 2)
    ]  # fmt: skip
    assert found.own == {f"lm-{split}": f"{clone.parent / split}" for split in ("train", "valid", "test")}
    assert (found.scale, [*found.corpora], found.corpora["lm"].languages) == ("mine", ["lm"], {"text": "de"})
    assert found.nmt is None and found.recurrent is None
    assert "# tokens of one training sequence" in Path(paths.PARAMETERS).read_text()
    assert os.readlink("dvc.yaml") == "../../dvc.yaml" and Path(".dvc/config").is_file()


def test_pairs_have_two_languages(clone, monkeypatch):
    own("mine", "train", "valid", "test", "--languages", "de", "en", "--seeds", "1")
    monkeypatch.chdir(clone / "scales/mine")
    found = load()
    assert found.own["nmt-test-target"] == f"{clone.parent / 'test.en'}" and found.lm is None
    assert [run.name for run in found.every_run()] == ["base-mle", "base-agg", "base-freeze", "base-ember"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("mine", "train", "valid", "tst", "--languages", "de"), "tst: no such file"),
        (("mine", "train", "valid", "test", "--languages", "de", "fr"), "train.fr, valid.fr, test.fr: no such file"),
        (("mine", "train", "valid", "test", "--languages", "german!"), "languages.text: 'german!' is not allowed"),
    ],
)
def test_mistakes_leave_no_folder(clone, words, said):
    with pytest.raises(UserError, match=said):
        own(*words)
    assert not (clone / "scales").exists()
    own("mine", "train", "valid", "test", "--languages", "de")
    with pytest.raises(UserError, match="scales/mine: exists already"):
        own("mine", "train", "valid", "test", "--languages", "de")
