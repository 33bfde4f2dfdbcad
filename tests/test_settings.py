"""Settings: a claim is judged where its runs are nearest to the paper's, and never by runs of two settings."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import tiny.run_sheet
import yaml
from tiny.claims import claim
from tiny.run_sheet import DECLARED, ROOT, SMALL, line

from raretokens.csv_files import read_csv
from reproduction.papers.setting import Properties, Setting
from reproduction.papers.table import Figure
from reproduction.papers.task_scores import TaskScores
from reproduction.papers.verdicts import judge, judge_all, views
from reproduction.pipeline.jobs import run_sheet
from reproduction.pipeline.parameters_file import load
from reproduction.report import build, regimes

NEAR = {"task": "lm", "models": ["near"], "title": "near", "own": "near-", "properties": {"tokenizer": "a", "text": "b"}}
FAR = {**NEAR, "models": ["far"], "title": "far", "own": ""}
UNLIKE = {**NEAR, "models": ["odd"], "own": "odd-", "is_like_the_paper": False, "reason": "little degenerates"}
SETTINGS = {name: Setting(**declared) for name, declared in {"odd": UNLIKE, "near": NEAR, "far": FAR}.items()}


def scored(folder: Path, values: dict[str, list[float]]) -> TaskScores:
    """TaskScores of runs by name, whose model is the part before the hyphen, with a seed for each value."""
    lines, files = {}, {}
    for run, numbers in values.items():
        prefix, _, objective = run.rpartition("-")
        for seed, number in enumerate(numbers, 1):
            name = run if seed == 1 else f"{run}-{seed}"
            lines[name] = line(objective, model=prefix or "far", seed=seed)
            files[name] = {"seed": seed, "metrics": {"isotropy": {"total": number}}}
    return tiny.run_sheet.scored(folder, files, lines)


def names(scores: TaskScores, *runs: list[str]) -> list[str]:
    return [name for name, _ in views(SETTINGS, scores, runs)]


THREE = [0.1, 0.2, 0.3]
PARAMETERS = [yaml.safe_load((ROOT / folder / "params.yaml").read_text()) for folder in (".", "scales/small")]


@pytest.mark.parametrize("name", DECLARED.settings)
def test_what_a_declared_setting_names_is_in_a_scale(name):
    """A misspelt name would let all claims fall back to another setting without a word."""
    one = DECLARED.settings[name]
    scale = next((tree for tree in PARAMETERS if set(one.models) <= tree[one.task]["models"].keys()), None)
    assert scale, f"{name}: models {one.models} are in no params.yaml"
    assert one.tokens is None or one.tokens in scale["tokens"]
    runs = {run: line["model"] for run, line in scale["runs"][one.task].items()}
    assert any(run.startswith(one.own) and model in one.models for run, model in runs.items())
    assert not one.replaces or any(run.startswith(one.replaces) for run in runs)
    assert set(one.data.values()) <= {corpus["baseline"] for corpus in scale["corpora"].values()}


def test_the_nearest_setting_that_has_all_runs_with_seeds_comes_first(tmp_path):
    whole = scored(tmp_path / "a", {f"{model}{run}": THREE for model in ("near-", "", "odd-") for run in ("mle", "agg")})
    assert names(whole, ["agg"], ["mle"]) == ["near", "far", "odd"]
    without = scored(tmp_path / "b", {"near-mle": THREE, "mle": THREE, "agg": THREE, "odd-mle": THREE, "odd-agg": THREE})
    assert names(without, ["agg"], ["mle"]) == ["far", "odd"]
    assert names(without, ["mle"]) == ["near", "far", "odd"]
    known = {"mle": THREE, "agg": THREE, "odd-mle": THREE, "odd-agg": THREE}
    few = scored(tmp_path / "c", {"near-mle": [0.1], "near-agg": [0.2], **known})
    assert names(few, ["agg"], ["mle"]) == ["far", "near", "odd"]


def test_one_seed_is_enough_where_other_runs_of_the_model_lend_their_variance(tmp_path):
    scores = scored(tmp_path, {"near-mle": THREE, "near-ul": THREE, "near-agg": [0.4], "mle": THREE, "agg": THREE})
    assert names(scores, ["agg"], ["mle"]) == ["near", "far"]


def test_a_claim_is_judged_where_its_own_number_has_seeds(tmp_path):
    """In `near` a run has no score, lacks the metric, or has one seed beside runs whose variances cannot be pooled."""
    known, declared = {"mle": THREE, "agg": THREE}, DECLARED.replaced(settings=SETTINGS)
    sides = [{"runs": [run], "metric": "isotropy.total"} for run in ("agg", "mle")]
    unscored = scored(tmp_path / "a", {"near-mle": THREE, "near-agg": THREE, **known})
    for path in (tmp_path / "a/lm").glob("near-agg*"):
        path.unlink()
    lacking = scored(tmp_path / "b", {"near-mle": THREE, "near-agg": THREE, **known})
    for path in (tmp_path / "b/lm").glob("near-agg*"):
        path.write_text('{"seed": 1, "metrics": {"uniq": {"rare": 1}}}')
    # Two seeds move both rows alike, so that one degree of freedom is left.
    alike = scored(tmp_path / "c", {"near-mle": [0.1, 0.3], "near-ul": [0.2, 0.4001], "near-agg": [0.4], **known})
    for scores in (unscored, lacking, alike):
        assert judge("c", claim(*sides), scores, declared).setting == "far"
    # Numbers that no seed moves are judged where they are, whatever they are.
    equal = scored(tmp_path / "e", {"near-mle": [0.3, 0.3], "near-agg": [0.4, 0.4], **known})
    assert judge("c", claim(*sides), equal, declared).setting == "near"
    assert names(unscored, ["agg"], ["mle"]) == ["far", "near"]
    alone = scored(tmp_path / "d", {"near-mle": THREE, "near-agg": THREE})
    for path in (tmp_path / "d/lm").glob("near-agg*"):
        path.unlink()
    verdict = judge("c", claim(*sides), alone, declared)
    assert (verdict.outcome, verdict.setting) == ("not run", "near")


def test_a_comparison_of_settings_is_left_as_declared(tmp_path):
    scores = scored(tmp_path, {f"{model}{run}": THREE for model in ("near-", "") for run in ("mle", "agg")})
    assert names(scores, ["near-agg"], ["agg"]) == [""]
    assert names(scores, ["nothing"]) == [""]


def test_a_run_of_a_setting_keeps_its_name_in_it():
    setting = SETTINGS["near"].replaced(data={"human": "near-text"})
    assert [setting.run(name) for name in ("agg", "near-agg", "human")] == ["near-agg", "near-agg", "near-text"]
    base = setting.replaced(replaces="base-", own="base-1k-")
    assert [base.run(name) for name in ("base-agg", "base-1k-agg", "copy")] == ["base-1k-agg", "base-1k-agg", "copy"]
    assert [base.declared(name) for name in ("base-1k-agg", "copy")] == ["base-agg", "copy"]


@pytest.mark.parametrize(("prefix", "outcome"), [("near-", "inconclusive"), ("odd-", "not testable")])
def test_nothing_is_inconclusive_where_the_papers_subject_does_not_occur(tmp_path, prefix, outcome):
    scores = scored(tmp_path, {f"{prefix}agg": [0.1, 0.5, 0.3], f"{prefix}mle": [0.3, 0.2, 0.4]})
    sides = [{"runs": [run], "metric": "isotropy.total"} for run in ("agg", "mle")]
    verdict = judge("c", claim(*sides), scores, DECLARED.replaced(settings=SETTINGS))
    assert (verdict.outcome, verdict.setting) == (outcome, prefix.rstrip("-"))
    assert verdict.runs == (f"{prefix}agg", f"{prefix}mle")


def test_a_family_keeps_the_claims_that_their_setting_makes_not_testable(tmp_path):
    """In a setting unlike the paper's, q of a decided claim counts those that are not, and may leave it undecided."""
    values = {"odd-agg": [0.50, 0.56, 0.53], "odd-mle": [0.30, 0.41, 0.33], "odd-ul": [0.31, 0.34, 0.40]}
    runs = {"clear": "agg", "doubtful": "ul"}
    claims = {
        name: claim(*({"runs": [run], "metric": "isotropy.total"} for run in (own, "mle")), paper="AGG", main=name)
        for name, own in runs.items()
    }
    declared = DECLARED.replaced(settings=SETTINGS, claims=claims)
    clear, doubtful = judge_all(declared, {"lm": scored(tmp_path / "a", values)})
    assert (doubtful.outcome, doubtful.reason, clear.outcome) == ("not testable", "little degenerates", "reproduced")
    assert doubtful.q == doubtful.p and clear.q == pytest.approx(2 * clear.p)
    many = {f"doubtful-{number}": claims["doubtful"] for number in range(40)}
    clear, *_ = judge_all(declared.replaced(claims=claims | many), {"lm": scored(tmp_path / "b", values)})
    assert clear.p < 0.05 < clear.q and (clear.outcome, clear.reason) == ("not testable", "little degenerates")


def test_a_precondition_on_the_text_reads_that_of_the_setting(tmp_path):
    """`human-near` has too few rare targets. A setting whose tokens have no score file of the text meets no such precondition."""
    scores = scored(tmp_path, {f"{prefix}{run}": THREE for prefix in ("near-", "odd-") for run in ("agg", "mle")})
    scores.baselines.update({"human": "lm", "human-near": "near"})
    for name, share in (("human", 0.5), ("human-near", 0.0)):
        (tmp_path / f"lm/{name}.json").write_text(json.dumps({"metrics": {"token_share": {"rare": share}}}))
    sides = [{"runs": [run], "metric": "isotropy.total"} for run in ("agg", "mle")]
    needing = claim(*sides, needs=["rare-targets"])
    near = SETTINGS["near"].replaced(data={"human": "human-near"})
    for setting, reason in {"near": "fewer than one target in a thousand is rare",
                            "odd": "no run named odd-human has token_share.rare"}.items():  # fmt: skip
        declared = DECLARED.replaced(settings={setting: {**SETTINGS, "near": near}[setting]})
        verdict = judge("c", needing, scores, declared)
        assert (verdict.outcome, verdict.reason) == ("not testable", reason)


def test_a_figure_is_shown_in_the_nearest_setting_that_has_its_points(tmp_path):
    """Also beside a panel of another task, whose runs are in no setting of this task."""
    known = {f"{model}{run}": [0.1] for model in ("near-", "") for run in ("mle", "agg")}
    scores = {"lm": scored(tmp_path / "a", known), "nmt": TaskScores({"base-mle": line()}, task="nmt", folder=tmp_path / "a/nmt")}
    runs = {name: [name] for name in ("mle", "agg")}
    panels = [{"title": "a", "kind": "line", "series": "isotropy", "runs": runs},
              {"title": "b", "kind": "line", "series": "isotropy", "task": "nmt", "runs": {"MLE": ["base-mle"]}}]  # fmt: skip
    figure = Figure(title="f", paper="AGG", place="figure 9", task="lm", drift=0.1, panels=panels)

    def shown(*having: str) -> set[str]:
        for name in known:
            x = "1" if name.startswith("near-") else "2"
            points = f"isotropy,total,{x},0.5\n" if name in having else ""
            (tmp_path / f"a/lm/{name}.csv").write_text(f"series,group,x,y\n{points}")
        fresh = {task: replace(part, series={}) for task, part in scores.items()}
        own, _ = build.points_in_setting(figure, DECLARED.replaced(settings=SETTINGS), fresh)
        return set(own.rows.x)

    assert shown(*known) == {"1"}
    assert shown("near-mle", "mle", "agg") == {"2"}


def test_a_table_has_each_run_of_its_setting_once_and_needs_these_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(SMALL)
    sheet = run_sheet(load())
    (tmp_path / "runs").symlink_to(SMALL / "reports/runs")
    text = build.one_table("agps-3", sheet, DECLARED, tmp_path)
    assert "(setting: Multi30k in steps of 1,024 tokens)" in text
    cells = read_csv(tmp_path / "tables/agps-3.csv").to_dict("records")
    runs = [cell["runs"].split()[0] for cell in cells if cell["column"] == "AlignSim Total" and cell["runs"]]
    named = ["base-1k-mle", "base-1k-cosreg", "base-1k-agps"]
    assert runs[:3] == named and len(set(runs)) == len(runs)
    assert build.needed("agps-3", sheet, DECLARED, tmp_path) == [f"score-nmt@{run}" for run in named]
    others = {cell["runs"] or cell["reason"] for cell in cells if cell["row"] == "base-coupled-adam"}
    assert others and all(text.startswith("base-1k-coupled-adam") for text in others)


def test_declared_settings_are_in_the_order_of_nearness():
    """The order that docs/settings.md describes: the first property in which two settings differ from the paper's unequally."""

    def distance(setting: Setting, paper: Properties) -> tuple[bool | float, ...]:
        pairs = [(getattr(setting.properties, name), getattr(paper, name)) for name in Properties.model_fields]
        parts = [a != b if isinstance(b, str) else abs(a - b) if None not in (a, b) else 0.0 for a, b in pairs]
        return not setting.is_like_the_paper, *parts

    assert list(Properties.model_fields) == [
        "tokenizer", "text", "rare_targets", "per_rare_type", "isotropy", "mean_cosine", "epochs"]  # fmt: skip
    for task, paper in DECLARED.reported_settings.items():
        distances = {name: distance(one, paper) for name, one in DECLARED.settings.items() if one.task == task}
        assert list(distances) == sorted(distances, key=distances.__getitem__)
        assert len(set(distances.values())) == len(distances)


def test_the_regime_table_has_a_column_for_each_setting_whose_maximum_likelihood_is_scored(tmp_path):
    scores = scored(tmp_path, {"near-mle": [0.2], "near-agg": [0.5], "mle": THREE})
    declared = DECLARED.replaced(settings=SETTINGS)
    found = regimes.entries(declared, scores)
    of = {name: next(one for one in column if one.quantity.metric == "isotropy.total") for name, column in found.items()}
    assert of["near"].text == "0.2, +0.3"
    assert of["far"].text == "0.2"
    assert [entry.text for entry in found["far"] if entry.quantity.metric == "mean_cosine"] == ["not recorded"]
    text = regimes.to_markdown(found, declared)
    assert "| I(W) | 0.377, +0.436 | 0.2, +0.3 | 0.2 |" in text
    assert "mean cosine" not in text  # no setting has it


def test_the_numbers_of_the_regime_table_are_those_of_the_seeds_that_both_runs_have(tmp_path):
    scores = scored(tmp_path, {"near-mle": [0.1, 0.2, 0.9], "near-agg": [0.4, 0.5], "mle": THREE})
    declared = DECLARED.replaced(settings=SETTINGS)
    found = regimes.entries(declared, scores)
    lines = [line for line in regimes.to_csv(found).splitlines() if line.startswith("I(W),")]
    assert lines[0].startswith("I(W),near,isotropy.total,0.15,2,0.3,") and lines[1].startswith("I(W),far,isotropy.total,0.2,3,")
    assert "| seeds | 1 | 2 | 3 |" in regimes.to_markdown(found, declared)
