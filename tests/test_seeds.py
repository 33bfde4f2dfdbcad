"""Runs that differ in their seed alone are one line of a table, whatever they are called; others never are."""

import json
from pathlib import Path

import pytest
from tiny.run_sheet import line

from raretokens.claims.scores import SheetLine
from reproduction.papers.task_scores import TaskScores
from reproduction.pipeline.jobs import run_sheet
from reproduction.pipeline.parameters_file import load

ROOT = Path(__file__).parents[1]
AGG = line("agg", options={"alpha": 0.03})


def groups(**sheet: SheetLine) -> list[list[str]]:
    return list(TaskScores(sheet, task="lm", folder=Path("nowhere")).repetitions.values())


def test_lines_that_are_equal_but_for_the_seed_are_repetitions_of_the_first():
    mle = line("mle")
    assert groups(agg=AGG, mle=mle, again=AGG.replaced(seed=2), third=AGG.replaced(seed=3)) == [
        ["agg", "again", "third"],
        ["mle"],
    ]


@pytest.mark.parametrize(
    "change",
    [{"options": {"alpha": 0.05}}, {"objective": "mle"}, {"model": "big"}, {"tokens": "words"}, {"reverse": True}],
)
def test_a_name_alone_makes_no_repetition(change):
    other = AGG.replaced(seed=2, **change)
    assert groups(**{"agg": AGG, "agg-2": other}) == [["agg"], ["agg-2"]]


def test_runs_that_go_on_from_repetitions_are_repetitions():
    start, later = line("mle"), line("mle", model="finetune")
    assert groups(
        mle=start,
        again=start.replaced(seed=2),
        agg=AGG,
        tuned=later.replaced(init_from="mle"),
        tuned_again=later.replaced(init_from="again", seed=2),
        from_agg=later.replaced(init_from="agg", seed=3),
    ) == [["mle", "again"], ["agg"], ["tuned", "tuned_again"], ["from_agg"]]


def test_scores_are_restricted_to_seeds_of_one_run_after_another():
    mle = line("mle")
    lines = {"agg": AGG, "agg-2": AGG.replaced(seed=2), "mle": mle, "mle-2": mle.replaced(seed=2)}
    scores = TaskScores(lines, task="lm", folder=Path("nowhere"))
    fewer = scores.with_seeds(["agg"], [1]).with_seeds(["mle"], [2])
    assert fewer.repetitions == {"agg": ["agg"], "mle": ["mle-2"]}


def test_equal_lines_with_the_same_seed_stay_apart():
    assert groups(agg=AGG, twin=AGG, other=AGG.replaced(seed=2), last=AGG.replaced(seed=2)) == [
        ["agg", "other"],
        ["twin"],
        ["last"],
    ]


@pytest.mark.parametrize("scale", [".", "scales/small", "scales/paper"])
def test_a_run_sheet_s_lines_bear_the_seed_and_options_that_they_train_with(scale):
    parameters = load(ROOT / scale / "params.yaml")
    told = run_sheet(parameters)
    assert told.corpora.items() >= {name: parameters.corpora[name].corpus for name in ("lm", "nmt")}.items()
    lines = told.runs["lm"].values()
    assert {one.seed for one in lines} >= {parameters.seed}
    assert any(one.options.get("alpha") == parameters.alpha for one in lines if one.objective == "agg")
    assert {one.tokens for one in told.runs["nmt"].values()} >= {"nmt"}


def test_a_run_of_which_only_further_score_files_exist_has_their_metrics_alone(tmp_path):
    parts = {"agg": {"ppl": 10.0}, "agg.recall": {"words": 1.0}, "agg-2.recall": {"words": 3.0}}
    for part, metrics in parts.items():
        seed = 2 if part.startswith("agg-2") else 1
        score = {"seed": seed, "metrics": metrics, "signatures": [[part, ""]], "parameters_hash": f"hash {seed}"}
        (tmp_path / f"{part}.json").write_text(json.dumps(score))
        (tmp_path / f"{part}.bootstrap.csv").write_text(f"{next(iter(metrics))}\n{seed}\n")
    sheet = {"agg": AGG.replaced(parameters_hash="hash 1"), "agg-2": AGG.replaced(seed=2, parameters_hash="hash 2")}
    scores = TaskScores(sheet, task="lm", folder=tmp_path)
    assert scores.value("agg", "words").by_seed == {1: 1.0, 2: 3.0}
    assert scores.value("agg", "ppl").by_seed == {1: 10.0}
    assert list(scores.bootstrap("agg-2", "words")) == [2.0] and scores.bootstrap("agg-2", "ppl") is None
    assert scores.read("agg-2")["signatures"] == [["agg-2.recall", ""]]
    assert scores.files("agg-2") == [tmp_path / "agg-2.recall.json"]
    changed = TaskScores(sheet | {"agg-2": sheet["agg-2"].replaced(parameters_hash="hash 3")}, task="lm", folder=tmp_path)
    assert changed.read("agg-2") is None and changed.outdated == ["agg-2"]
