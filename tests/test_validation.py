"""Mistakes in data/paper are one line each, before any stage has run."""

import shutil
from pathlib import Path

import pytest

from raretokens.errors import UserError
from reproduction.papers.load import check_declarations

ROOT = Path(__file__).parents[1]


@pytest.fixture
def papers(tmp_path) -> Path:
    folder = tmp_path / "data/paper"
    shutil.copytree(ROOT / "data/paper", folder)
    for file in (ROOT / "params.yaml", *ROOT.glob("scales/*/params.yaml")):
        copy = tmp_path / file.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, copy)
    return folder


def test_the_declarations_of_the_repository_have_no_mistake(papers):
    check_declarations(papers)


def replace(name: str, old: str, new: str):
    def change(folder: Path) -> None:
        text = (folder / name).read_text(encoding="utf-8")
        assert old in text
        (folder / name).write_text(text.replace(old, new), encoding="utf-8")

    return change


def rename(old: str, new: str):
    return lambda folder: (folder / old).rename(folder / new)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (rename("tables/OEC.yaml", "tables/oec.yaml"), "tables/oec.yaml: the paper is 'OEC' in papers.yaml; should be the name"),
        (rename("tables/OEC.yaml", "tables/Tying.yaml"), "tables/Tying.yaml: 'Tying' is no paper of papers.yaml; "),
        (rename("tables/OEC.yaml", "tables/OEC.yml"), "tables/OEC.yml: is not read; the name must end in .yaml"),
        (rename("claims/OEC.yaml", "claims/oec.yaml"), "claims/oec.yaml: the paper is 'OEC' in papers.yaml; should be the name"),
        (replace("claims/Coupled-Adam.yaml", "paper: Coupled Adam", "paper: oec"), ".paper: 'oec' is no paper of papers.yaml; "),
        (replace("oec_table1.csv", "value,unit", "wert,unit"), "oec_table1.csv: no column value; needed are row, column, group"),
        (replace("agg_table3.csv", "MLE,PPL,Freq", "MLE,PPL,Frequent"), "agg_table3.csv: no row 'MLE'; it has"),
        (lambda folder: (folder / "oec_table1.csv").unlink(), "oec_table1.csv: no such file; a table or a claim names it"),
    ],
)
def test_a_mistake_is_named_before_any_stage_has_run(papers, change, said):
    change(papers)
    with pytest.raises(UserError) as error:
        check_declarations(papers)
    assert said in str(error.value)
