"""What methods improve and degrade, on scores made by hand."""

import copy
import io
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from scipy import stats
from tiny.run_sheet import DECLARED, cells_of, line, scored

from raretokens.claims.intervals import Interval
from raretokens.claims.scores import SheetLine
from raretokens.claims.verdict import Outcome
from reproduction.papers import methods
from reproduction.papers.load import load_searches
from reproduction.papers.logit_bias import LogitBiasBaseline, baselines
from reproduction.papers.setting import TASKS
from reproduction.report import method_tables

ROOT = Path(__file__).parents[1]
PPL = {"mle": [50.0, 51.0, 49.0], "agg": [55.0, 56.5, 53.5]}  # over three seeds
I_W = {"mle": [0.5, 0.51, 0.49], "agg": [0.8, 0.5, 0.3]}


def changes_of(folder: Path, metrics: dict[str, dict], names: dict[str, SheetLine]) -> list[methods.Change]:
    """The changes of runs with these metrics."""
    files = {name: {"seed": names[name].seed, "metrics": its} for name, its in metrics.items()}
    return methods.changes(DECLARED, {"lm": scored(folder, files, names)})


def of_three_seeds(*objectives: str) -> dict[str, SheetLine]:
    return {f"{name}-{seed}": line(name, seed=seed) for name in objectives for seed in (1, 2, 3)}


@pytest.fixture
def found(tmp_path) -> list[methods.Change]:
    names = of_three_seeds(*PPL) | {"other-size": line("agg", model="big"), "coupled": line("coupled_adam")}
    like = {name: one.objective if one.objective in PPL else "mle" for name, one in names.items()}
    metrics = {
        name: {"ppl": {"total": PPL[like[name]][one.seed - 1]}, "isotropy": {"total": I_W[like[name]][one.seed - 1]}}
        for name, one in names.items()
    }
    return changes_of(tmp_path, metrics, names)


def test_a_change_is_marked_where_the_seeds_agree_on_its_side(found):
    changes = {(change.run, change.metric): change for change in found}
    assert {run for run, _ in changes} == {"agg-1", "coupled"}  # no maximum likelihood of the other size
    dearer, wide, same = (
        changes[key] for key in (("agg-1", "ppl.total"), ("agg-1", "isotropy.total"), ("coupled", "ppl.total"))
    )
    ratio = math.exp(sum(math.log(a / b) for a, b in zip(PPL["agg"], PPL["mle"], strict=True)) / 3)
    assert (dearer.verdict, dearer.effect.seeds) == ("worse", 3) and dearer.effect.value == pytest.approx(ratio)
    assert dearer.effect.seed_interval.low > 1
    assert (wide.verdict, same.verdict) == ("inconclusive", "inconclusive")


@pytest.mark.parametrize(("left", "right", "share"), [
    (2.0, 1.0, math.log(2)), (1.0, 2.0, math.log(2)), (0.0, 2.0, math.inf), (-1.0, 2.0, 1.5), (2.0, -4.0, 1.5), (0.0, -4.0, 1.0),
    (3.0, 0.0, 1.0), (0.0, 0.0, 0.0),
])  # fmt: skip
def test_a_relative_change_is_finite_unless_a_positive_number_falls_to_zero(found, left, right, share):
    change = replace(found[0], effect=replace(found[0].effect, left=left, right=right))
    assert change.share == pytest.approx(share)


@pytest.mark.parametrize(("right", "counts"), [(-100.0, True), (-99.99, False)])
def test_a_change_counts_from_one_percent_on(found, right, counts):
    effect = replace(found[0].effect, left=-99.0, right=right)
    outcomes = Outcome.REPRODUCED, Outcome.CONTRADICTED
    better, worse = (replace(found[0], effect=effect, outcome=outcome, logit_bias=None) for outcome in outcomes)
    assert (better.improves, worse.degrades) == (counts, counts) and not (better.degrades or worse.improves)


@pytest.mark.parametrize(("bias", "compared"), [(0.89, "not better"), (0.9, "not better"), (0.91, "inconclusive"), (None, None)])
def test_of_a_bound_on_the_logit_bias_only_that_a_method_is_not_better_follows(found, bias, compared):
    change = replace(found[0], effect=replace(found[0].effect, value=0.9), logit_bias=bias, measured_baseline=None)
    assert change.compared_with_bias == compared


def test_the_page_lists_what_is_certain_of_each_run(found):
    text = method_tables.to_markdown(found, DECLARED)
    assert "* `agg-1` (language models, 3 seeds)\n    * Improves: nothing certain.\n    * Degrades: perplexity x 1.1.\n" in text
    rows = text.split("\n\n")[1].splitlines()[2:]  # the page opens with a table of the methods
    agg, coupled = (DECLARED.methods[name].choose for name in ("agg", "coupled_adam"))
    assert rows == [
        f"| [`agg`](#agg), language models (`agg-1`) | nothing certain | perplexity +10 % | {agg} |",
        f"| [`coupled_adam`](#coupled_adam), language models (`coupled`) | nothing certain | nothing certain | {coupled} |",
    ]
    table = pd.read_csv(io.StringIO(method_tables.to_csv(found)))
    assert list(table.verdict) == ["worse", "inconclusive", "inconclusive", "inconclusive"] and "share" not in table


def test_a_number_that_is_noise_without_the_method_is_neither_better_nor_worse(tmp_path):
    """Word similarity of a baseline that has learnt none."""
    spearman = {"mle": {"men": 30.0, "ws353": 4.0}, "agg": {"men": 20.0, "ws353": -6.0}}
    names = of_three_seeds(*spearman)
    metrics = {
        name: {"spearman": {key: value + its.seed / 10 for key, value in spearman[its.objective].items()}}
        for name, its in names.items()
    }
    changes = changes_of(tmp_path, metrics, names)
    assert {change.metric: change.verdict for change in changes} == {
        "spearman.men": "worse",
        "spearman.ws353": "not testable",
    }
    assert "    * Degrades: MEN, Spearman x 100 -10.\n" in method_tables.to_markdown(changes, DECLARED)


def test_the_preconditions_of_method_metrics_are_declared():
    needs = {need for task in TASKS.values() for compared in task.compared.values() for need in compared.needs}
    assert needs and needs <= DECLARED.preconditions.keys()


def test_rare_targets_are_not_bought_where_a_constant_on_rare_logits_does_as_much(tmp_path):
    generator = np.random.default_rng(0)
    logits, targets, is_rare = generator.normal(size=(400, 8)), generator.integers(8, size=400), np.arange(8) >= 6
    shares = {"mle": 0.0, "agg": 0.9, "frage": 0.9}  # a constant on the rare logits; nothing else is learnt
    metrics = {run: _of_rare(logits + shift * is_rare, targets, is_rare) for run, shift in shares.items()}
    exact = metrics["agg"]["ppl"]["rare"] / metrics["mle"]["ppl"]["rare"]
    metrics["agg"]["ppl"]["rare"] *= 1.2  # worse than the constant
    metrics["frage"]["ppl"]["rare"] *= 0.5  # far better
    names = of_three_seeds(*metrics)
    of_runs = {name: copy.deepcopy(metrics[its.objective]) for name, its in names.items()}
    for seed in (1, 2, 3):  # without a difference between seeds nothing is decided
        of_runs[f"frage-{seed}"]["ppl"]["rare"] *= 1 + seed / 1000
    found = changes_of(tmp_path, of_runs, names)
    changes = {change.run: change for change in found if change.metric == "ppl.rare"}
    bound = changes["agg-1"].logit_bias
    assert exact <= bound < 1.1 * exact
    versus = [changes[run].compared_with_bias for run in ("agg-1", "frage-1")]
    assert versus == ["not better", "inconclusive"] and not any(change.improves for change in changes.values())
    text = method_tables.to_markdown(list(changes.values()), DECLARED)
    assert f"The logit-bias baseline reaches x {bound:.3g} or lower. The run is not better." in text
    assert "| frage | classify | `lr` | `lr` 0.1 to 10, on random rows | 4 | not recorded |" in text
    assert "\nIn rare-token perplexity, 0 of 2 runs are certainly better" in text
    for ends, versus in (((0.8, 0.95), "better"), ((0.9, 1.05), "inconclusive"), ((1.1, 1.2), "not better")):
        baseline = LogitBiasBaseline("rare", "mean P(rare)", 1, {}, rare=0.6, total=1.0, advantage=0.9, interval=Interval(*ends))
        measured = replace(changes["frage-1"], measured_baseline=baseline)
        assert (measured.compared_with_bias, measured.improves) == (versus, versus == "better")


def test_the_declared_trials_of_the_cache_pointer_are_those_of_the_lists_and_sources_exist():
    lists = yaml.safe_load((ROOT / "scales/small/params.yaml").read_text(encoding="utf-8"))["recurrent"]["evaluation"]["pointer"]
    searches = load_searches(ROOT / "data/paper")
    assert all((ROOT / search.source).is_file() for search in searches.values())
    pointer = searches["pointer"]
    assert pointer.trials == len(lists["window"]) * len(lists["theta"]) * len(lists["weight"])
    assert pointer.models == lists["models"]
    for name in ("window", "theta", "weight"):
        assert f"`{name}` {min(lists[name]):g} to {max(lists[name]):g}" in pointer.bounds


def _of_rare(logits: np.ndarray, targets: np.ndarray, is_rare: np.ndarray) -> dict:
    probability = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    mass, hit = probability[:, is_rare].sum(1), is_rare[targets]
    nll = -np.log(probability[np.arange(len(targets)), targets])
    return {
        "ppl": {"rare": float(np.exp(nll[hit].mean()))},
        "rare_mass": {"total": float(mass.mean()), "rare": float(mass[hit].mean())},
    }


def test_the_logit_bias_baseline_averages_the_seeds_that_both_have(tmp_path):
    """A constant c divides rare-token perplexity by exp(c). No run of maximum likelihood has seed 4."""
    at, (constants, of_mle, of_agg) = np.linspace(-1, 4, 101), np.array([(0.5, 1.0, 3.0), (10, 20, 80), (5, 6, 9)])
    files, runs, names = {}, {}, {1: ("mle", "agg")} | {seed: (f"mle-{seed}", f"agg-{seed}") for seed in (2, 3, 4)}
    (tmp_path / "lm").mkdir()
    for seed, constant, rare, own in zip((1, 2, 3), constants, of_mle, of_agg, strict=True):
        mle, agg = names[seed]
        columns = {"share": None, "slope": 0.0, "constant": at, "valid_rare": np.exp(-at), "valid_mass": np.exp(at)}
        columns |= {"valid_total": np.exp(at**2 / 100), "test_total": 5 * np.exp(at**2 / 100), "test_rare": rare * np.exp(-at)}
        pd.DataFrame(columns | {"test_freq": 3.0, "test_med": 4.0}).to_csv(tmp_path / f"lm/{mle}.logit-bias.csv", index=False)
        files[mle] = {"ppl": {"rare": float(rare), "total": 5.0}, "ppl_within": {"rare": 1.0}}
        files[agg] = {"ppl": {"rare": float(own), "total": 6.0}, "valid_rare_mass": {"total": math.exp(constant)}}
    files["agg-4"] = {"ppl": {"rare": 1e6, "total": 6.0}, "valid_rare_mass": {"total": math.exp(1)}}
    for seed, pair in names.items():
        runs |= {name: line(name[:3], seed=seed) for name in pair if name in files}
    scores = scored(tmp_path, {name: {"seed": runs[name].seed, "metrics": own} for name, own in files.items()}, runs)
    (one,) = (baseline for baseline in baselines("agg", scores) if baseline.is_main)
    reached = of_mle * np.exp(-constants)
    logs = np.log(of_agg / reached)
    reach = stats.t.ppf(0.975, 2) * stats.sem(logs)
    assert list(one.biases) == [1, 2, 3] and one.constant == pytest.approx(constants.mean())
    assert (one.rare, one.total) == pytest.approx((np.exp(-constants.mean()), np.exp((constants**2).mean() / 100)), rel=1e-4)
    assert (one.advantage, *one.interval) == pytest.approx(np.exp(logs.mean() + np.array([0, -reach, reach])), rel=1e-4)
    row = "MLE + logit bias, same mean P(rare) as AGG"
    (cell,) = (cell for cell in cells_of("agg-3", scores) if (cell.row, cell.column) == (row, "PPL Rare"))
    assert (cell.measured, cell.spread) == (f"{reached.mean():.2f}", f"{np.ptp(reached) / 2:.2f}")
    assert cell.runs == "mle mle-2 mle-3"
