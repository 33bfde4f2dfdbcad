"""The language of declarations: the guide's examples are the papers' own, and a slip of the pen is told the nearest word."""

import re
from pathlib import Path

import pytest
import yaml

from raretokens.errors import UserError
from reproduction.papers.load import load_declarations

ROOT = Path(__file__).parents[1]
GUIDE = (ROOT / "docs/declarations.md").read_text(encoding="utf-8")


def sweep(**changes: object) -> dict:
    """A figure with one panel."""
    panel = {"title": "t", "kind": "sweep", "metric": "uniq.rare", "option": "alpha", "runs": {"a": ["agg"]}}
    return {"each": {}, "panels": [panel | changes]}


def test_the_guide_s_examples_are_the_papers_own():
    """An example that nobody reads any more would be a lie."""
    declared = "".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "data/paper").rglob("*.*")))
    flat = re.sub(r"\s", "", declared)
    examples = [line for line in GUIDE.split("\n") if line.startswith("    ")]
    assert [line for line in examples if re.sub(r"\s", "", line).removeprefix("-") not in flat] == []


def copy_declarations(folder: Path) -> None:
    for path in (ROOT / "data/paper").rglob("*.yaml"):
        copy = folder / path.relative_to(ROOT / "data/paper")
        copy.parent.mkdir(exist_ok=True)
        copy.write_text(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("file", "name", "change", "line"),
    [
        ("metrics", "rare_mass.{total,freq,med,rare}", {"columns": {"bleu": "t"}}, "columns: not allowed with a pattern; decl"),
        ("metrics", "chrf", {"digit": 2}, "metrics.yaml: chrf.digit: unknown key (value 2); the nearest is digits"),
        (
            "metrics",
            "mean_cosine",
            {"kind": None},
            "has no `kind` in metrics.yaml; kinds are perplexity, geometry, text, translation, similarity, classification",
        ),
        (
            "figures",
            "agg-figure-4",
            {"task": "ml"},
            "agg-figure-4.task: 'ml' is not allowed: value error, no such task; the nearest is lm",
        ),
        ("figures", "agg-figure-5", sweep(metric="uniq.rar"), "metric 'uniq.rar' is not declared in metrics.yaml"),
        ("figures", "agg-figure-5", sweep(runs={"a": ["agf"]}), "agg-figure-5, t, a: run 'agf' is in no table"),
        ("figures", "agg-figure-5", sweep(kind="effect", claim="agg-raise"), "claim 'agg-raise' is not declared in"),
        ("columns", "bleu", [{"title": "t", "metric": "chrf", "interval": "chrg"}], "metric 'chrg' is not declared"),
        ("claims/AGG", "agg-raises-isotropy", {"why": "as {agg-raise}"}, "agg-raises-isotropy.why: claim 'agg-raise' is not"),
        ("claims/AGG", "agg-raises-isotropy", {"expect": "bigger"}, "claims/AGG.yaml: agg-raises-isotropy.expect: 'bigger'"),
        (
            "claims/AGG",
            "agg-improves-bleu",
            {"left": {"runs": ["base-agf"], "metric": "bleu.tokenised", "reported": ["agg_table6", "AGG", "BLEU", "Base"]}},
            "agg-improves-bleu.left.runs: run 'base-agf' is in no table and on no run sheet; the nearest is base-agg",
        ),
        ("claims/AGG", "agg-raises-isotropy", {"needs": ["not-colapsed"]}, "precondition 'not-colapsed' is not declared"),
        ("tables/AGG", "agg-1", {"tokens": "word"}, "no task has such tokens; the nearest is words"),
        ("columns", "bleu", [{"title": "t", "metrik": "chrf"}], "columns.yaml: bleu.0.metrik: unknown key"),
        (
            "columns",
            "geometry",  # of many tables
            [{"title": "t", "metric": "isoscor"}],
            "tables/AGG.yaml: agg-1 and 9 more: metric 'isoscor' is not declared in metrics.yaml; the nearest is iso_sc",
        ),
        (
            "preconditions",
            "not-collapsed",
            {"metric": "training.nll_to_unifrom"},
            "preconditions.yaml: not-collapsed: metric 'training.nll_to_unifrom' is not declared in metrics.yaml",
        ),
        (
            "claims/AGG",
            "rare-rows-degenerate-first",
            {"control": {side: {"runs": ["ml"], "metric": "isotropi.rare"} for side in ("left", "right")}},
            "rare-rows-degenerate-first.control.left.runs and 1 more: run 'ml' is in no table and on no run sheet; the near",
        ),
        ("scales", "demo", {"corpora": {"lm": "bible", "mt": "bible"}}, "no such task; the nearest is nmt"),
    ],
)
def test_a_slip_of_the_pen_is_one_line_with_the_nearest_word(tmp_path, file, name, change, line):
    copy_declarations(tmp_path)
    tree = yaml.safe_load((tmp_path / f"{file}.yaml").read_text())
    tree[name] = {**tree[name], **change} if isinstance(change, dict) else change
    (tmp_path / f"{file}.yaml").write_text(yaml.safe_dump(tree, sort_keys=False))
    with pytest.raises(UserError) as error:
        load_declarations(tmp_path)
    assert line in str(error.value), str(error.value)
