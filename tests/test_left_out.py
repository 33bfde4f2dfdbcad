"""What the key `block` leaves out of a training or cuts is printed, and the message names the key where nothing is left."""

from pathlib import Path

import numpy as np
import pytest
import yaml

from raretokens.errors import UserError
from raretokens.vocabulary import EOS
from reproduction.corpora.tokenization.token_files import write_meta
from reproduction.paths import tokens
from reproduction.pipeline.jobs import train_job
from reproduction.pipeline.parameters_file import load
from reproduction.pipeline.plan import check_block

ROOT = Path(__file__).parents[1]
LENGTHS = {"train": [(3, 3), (9, 2), (2, 9), (8, 8), (4, 4)], "valid": [(5, 5), (20, 6)]}  # tokens of the sides, ends included


def job(task: str, run: str, place: str, block: int):
    """Return the job of a demo's run with this `block`, and write token files with LENGTHS; place: a section of the task."""
    tree = yaml.safe_load((ROOT / "params.yaml").read_text())
    section = tree[task]
    for name in place.split("."):
        section = section[name]
    section["block"] = block
    Path("params.yaml").write_text(yaml.safe_dump(tree))
    parameters = load()
    of_run = train_job(parameters, parameters.run(task, run))
    folder = tokens(of_run.run.tokens)
    folder.mkdir(parents=True)
    for split, lengths in LENGTHS.items():
        ids = [[EOS + 1] * (length - 1) + [EOS] for pair in lengths for length in pair]
        np.concatenate(ids).astype("<u2").tofile(folder / f"{split}.bin")
    write_meta(folder, {"dtype": "<u2"})
    return of_run


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RANK", raising=False)


@pytest.mark.parametrize(("place", "key"), [("training", "nmt.training.block"), ("models.base", "nmt.models.base.block")])
def test_pairs_longer_than_the_block_are_counted(capsys, place, key):
    check_block(job("nmt", "base-mle", place, 8))
    expected = [f"{key}: 8 leaves out 2 of 5 pairs of train", f"{key}: 8 leaves out 1 of 2 pairs of valid"]
    assert capsys.readouterr().out.splitlines() == [f"nmt/base-mle: {line}, which are longer" for line in expected]


@pytest.mark.parametrize(("block", "split", "pairs", "least"), [(2, "train", 5, 3), (4, "valid", 2, 5)])
def test_a_block_that_leaves_no_pair_is_refused_by_its_key(block, split, pairs, least):
    allowed = f"the shortest has {least} tokens; allowed: at least that many"
    with pytest.raises(UserError, match=f"^nmt.training.block: {block} leaves out all {pairs} pairs of {split}; {allowed}$"):
        check_block(job("nmt", "base-mle", "training", block))


def test_nothing_is_printed_where_all_fits(capsys):
    check_block(job("nmt", "base-mle", "training", 20))
    assert not capsys.readouterr().out


def test_documents_that_are_cut_are_counted(capsys):
    check_block(job("classify", "cls-mle", "training", 8))
    expected = [f"classify.training.block: 8 cuts {some} documents of {split}, which are longer"
                for split, some in (("train", "2 of 10"), ("valid", "1 of 4"))]  # fmt: skip
    assert capsys.readouterr().out.splitlines() == [f"classify/cls-mle: {line}" for line in expected]
