"""Perplexity split by frequency group, and the logit-bias baseline, against float64 softmaxes over the whole vocabulary."""

import csv
import json
import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny.finished import GROUPS, SHAPE, create

from raretokens.claims.comparison import Effect
from raretokens.claims.intervals import Interval
from raretokens.claims.scores import SheetLine
from raretokens.loss.terms import Head
from raretokens.objectives.rarity import rare_share
from raretokens.vocabulary import GROUP_NAMES, MED, RARE, SPECIALS, VOCABULARY, Vocabulary
from reproduction.corpora.tokenization.token_files import tokens
from reproduction.papers.load import load_declarations
from reproduction.papers.logit_bias import (
    PARTS,
    Decomposition,
    choose,
    curves_of,
    decompositions,
    frontier_points,
    implied,
)
from reproduction.papers.task_scores import AllScores
from reproduction.pipeline.parameters_file import load
from reproduction.report.decomposition_page import to_csv, to_markdown
from reproduction.run import Run
from reproduction.run_sheet import Sheet
from reproduction.tasks.evaluation import decomposition as decomposing
from reproduction.tasks.evaluation.decomposition import (
    CONSTANTS,
    SLOPES,
    GroupPredictions,
    auc,
    decompose,
    log_frequency,
    nested_groups,
    own_share,
)
from reproduction.tasks.evaluation.job_specs import Continuation, DecompositionJob, LanguageModelEvaluation
from reproduction.tasks.evaluation.language_model import teacher_forced
from reproduction.tasks.lm import further_jobs
from reproduction.training.models.registry import build, load_weights

GROUP = SimpleNamespace(**GROUPS)
WHOLE = LanguageModelEvaluation(window=32, context=16, block=24, continuation=Continuation(samples=1, prefix=1, length=1))
STEPS, THRESHOLD = 40, 0.6  # training steps per epoch, and mean count per step of the tiny text
REACH = {"window": 32, "context": 16, "unit": "piece"}


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = create(tmp_path_factory.mktemp("decomposition"))
    (folder / "data/runs/lm/pieces/training.json").write_text(json.dumps({"updates_per_epoch": STEPS}))
    return folder


@pytest.fixture(scope="module")
def world(root):
    """Model, test text, groups, log frequencies, and the log-probabilities of all types at each position."""
    folder = root / "data/tokens/lm"
    vocabulary, text = Vocabulary.read(folder / VOCABULARY), np.asarray(tokens(folder, "test"))
    model = build("decoder", {**SHAPE, "activation": "gelu"}, len(vocabulary), 64).eval()
    load_weights(model, root / "data/runs/lm/pieces/model.safetensors")
    rows = np.empty((len(text), len(vocabulary)))
    with torch.no_grad():
        for start, first, inputs in decomposing._inputs(text, WHOLE):
            logits = (model(torch.from_numpy(inputs))[:, first:] @ model.embedding.T).double()
            for begin, row in zip(start + first, logits, strict=True):
                end = min(begin + len(row), len(text))
                rows[begin:end] = row[: end - begin].log_softmax(-1)
    return model, text, vocabulary.frequency_groups(GROUP), log_frequency(vocabulary.counts), rows


@pytest.fixture(scope="module")
def own(root) -> np.ndarray:
    """The types below THRESHOLD, N x 1: the rare group and two types more."""
    vocabulary = Vocabulary.read(root / "data/tokens/lm" / VOCABULARY)
    ids, steps = np.arange(len(vocabulary)), STEPS
    member = ((ids >= len(SPECIALS)) & (ids < vocabulary.types) & (vocabulary.target_counts / steps < THRESHOLD))[:, None]
    share = rare_share(vocabulary.target_counts[: vocabulary.types], STEPS, THRESHOLD, len(SPECIALS))
    assert member.sum() / vocabulary.types < share.types  # that is the share of the types that are no specials
    assert own_share(THRESHOLD, vocabulary, root / "data/runs/lm/pieces") == pytest.approx(share.types)
    assert member.sum() / (vocabulary.types - len(SPECIALS)) == pytest.approx(share.types)
    assert member.sum() == (vocabulary.frequency_groups(GROUP) == RARE).sum() + 2
    return member


@pytest.fixture(scope="module")
def found(world, own) -> GroupPredictions:
    model, text, groups, frequency, _ = world
    return decomposing.masses(model, text, WHOLE, groups, frequency, SLOPES, own)


def test_masses_are_sums_of_the_softmax_over_the_windows_of_perplexity(world, found, own):
    model, text, groups, frequency, rows = world
    np.testing.assert_allclose(found.logprob, teacher_forced(model, text, WHOLE).logprob, rtol=1e-5)
    np.testing.assert_allclose(found.logprob, rows[np.arange(len(text)), text], rtol=1e-5)
    capped = decomposing.masses(model, text, WHOLE, groups, frequency, SLOPES, own, Head(softcap=2.0)).logprob
    np.testing.assert_allclose(capped, teacher_forced(model, text, WHOLE, head=Head(softcap=2.0)).logprob, rtol=1e-5)
    assert np.abs(capped - found.logprob).max() > 0.1
    for code, column in zip(GROUP_NAMES.values(), found.groups.T, strict=True):
        np.testing.assert_allclose(np.exp(column), np.exp(rows[:, groups == code]).sum(1), rtol=1e-5)
    np.testing.assert_allclose(np.exp(found.nested[:, 0]), np.exp(rows[:, own[:, 0]]).sum(1), rtol=1e-5)
    for place, slope in enumerate(SLOPES):
        weighted = np.exp(rows - slope * frequency)
        for part, member in enumerate((groups != RARE, groups == RARE)):
            np.testing.assert_allclose(np.exp(found.tilted[:, place, part]), weighted[:, member].sum(1), rtol=1e-4)


def test_perplexity_is_that_within_the_group_divided_by_the_mass_of_the_group(world, found):
    _, text, groups, _, rows = world
    metrics, replicates = decomposing.decomposition(found, text, groups, REACH)
    within, mass = metrics["ppl_within"][0], metrics["mass"][0]
    for name, code in GROUP_NAMES.items():
        member = groups[text] == code
        nll = -rows[np.flatnonzero(member), text[member]]
        own = np.log(np.exp(rows[member][:, groups == code]).sum(1))
        assert within[name] == pytest.approx(math.exp((nll + own).mean()), rel=1e-5)
        assert mass[name] == pytest.approx(math.exp(own.mean()), rel=1e-5)
        assert within[name] / mass[name] == pytest.approx(math.exp(nll.mean()), rel=1e-5)
        assert replicates[f"ppl_within.{name}"].mean() == pytest.approx(within[name], rel=0.2)
        assert replicates[f"mass.{name}"].mean() == pytest.approx(mass[name], rel=0.2)
    assert within["total"] / mass["total"] == pytest.approx(math.exp(-found.logprob.mean()), rel=1e-9)


def test_a_bias_is_that_of_the_logits_and_a_constant_moves_only_the_mass(world, found):
    _, text, groups, frequency, rows = world
    biased = decomposing.logit_bias(found, text, groups, frequency, SLOPES)
    rare = groups == RARE
    for place in (0, 40, 137, len(biased) - 1):
        slope, constant = SLOPES[place // len(CONSTANTS)], CONSTANTS[place % len(CONSTANTS)]
        logits = rows + constant * rare - slope * frequency
        logs = logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)
        nll = -logs[np.arange(len(text)), text]
        assert biased[place]["total"] == pytest.approx(math.exp(nll.mean()), rel=1e-4)
        assert biased[place]["rare"] == pytest.approx(math.exp(nll[rare[text]].mean()), rel=1e-4)
        assert biased[place]["mass"] == pytest.approx(np.exp(logs[:, rare]).sum(1).mean(), rel=1e-4)
        if slope == 0:
            own = np.logaddexp.reduce(logs[:, rare], axis=1)
            within = math.exp((nll + own)[rare[text]].mean())
            assert within == pytest.approx(decomposing.decomposition(found, text, groups, REACH)[0]["ppl_within"][0]["rare"])


def test_a_constant_on_the_group_of_an_objective_acts_on_that_group_alone(world, found, own):
    _, text, groups, _, rows = world
    member = own[:, 0]
    biased = decomposing.nested_bias(found, text, groups, own)
    for place in (0, 7, len(biased) - 1):
        logits = rows + CONSTANTS[place] * member
        logs = logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)
        nll = -logs[np.arange(len(text)), text]
        assert biased[place]["total"] == pytest.approx(math.exp(nll.mean()), rel=1e-4)
        assert biased[place]["rare"] == pytest.approx(math.exp(nll[(groups == RARE)[text]].mean()), rel=1e-4)
        assert biased[place]["mass"] == pytest.approx(np.exp(logs[:, member]).sum(1).mean(), rel=1e-4)


def test_maximum_likelihood_does_not_depend_on_the_options_of_other_objectives(request, monkeypatch):
    monkeypatch.chdir(request.config.rootpath / "scales/small")
    parameters = load()
    jobs = {name: dict(further_jobs(parameters, parameters.lm, parameters.run("lm", name), ""))["decompose-lm"]
            for name in ("mle", "agg", "agg-a001", "freeze-b", "soft-cap")}  # fmt: skip
    softcaps = {name: job.run.options.get("softcap") for name, job in jobs.items()}
    assert {name: softcap for name, softcap in softcaps.items() if softcap} == {"soft-cap": 30.0}  # its default
    assert {name: job.threshold and round(job.threshold / 3.08, 6) for name, job in jobs.items()} == {
        "mle": None, "agg": 0.03, "agg-a001": 0.01, "freeze-b": None, "soft-cap": None}  # fmt: skip


def test_a_method_is_compared_with_the_group_of_nearest_share():
    class Counted:
        """A vocabulary of which only the counts are known: half of the types occur once."""

        target_counts = np.concatenate([np.zeros(len(SPECIALS)), np.arange(2, 502), np.ones(500)])
        types = len(target_counts)

        def __len__(self) -> int:
            return self.types

    nested = nested_groups(Counted())
    assert nested.sum(0).tolist() == [500]
    masses = GroupPredictions(np.zeros(2), None, None, np.log([[0.25], [0.75]]))
    near, far = (decomposing.own_group(0.1, share, nested.sum(0) / 1000, masses)["own_group"][0] for share in (0.505, 0.52))
    assert near == {"threshold": 0.1, "share": 0.505, "baseline_share": 0.5, "valid_mass": 0.5}
    assert far["baseline_share"] is None and far["valid_mass"] is None


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=1, max_size=30))
def test_the_auc_is_the_share_of_pairs_in_order(pairs):
    score, positive = np.array([one for one, _ in pairs], float), np.array([one for _, one in pairs])
    ordered = [(a > b) + 0.5 * (a == b) for a in score[positive] for b in score[~positive]]
    assert auc(score, positive) == (pytest.approx(np.mean(ordered)) if ordered else None)


def test_the_baseline_is_chosen_on_the_validation_text_to_a_thousandth(world, found):
    """Splines between constants of the grid, against the same constant computed exactly."""
    _, text, groups, frequency, _ = world
    half = len(text) // 2
    parts = {"valid": slice(0, half), "test": slice(half, None)}
    cut = {name: (GroupPredictions(*(array[part] for array in found)), text[part]) for name, part in parts.items()}
    frontier, zero = _frontier(cut, groups, frequency), SLOPES.tolist().index(0)
    plain = {name: (one._replace(tilted=one.tilted[:, [zero]]), ids) for name, (one, ids) in cut.items()}
    for aim in (0.1, 0.3, 0.6):
        exact = decomposing.CONSTANTS.copy()
        bias = choose(curves_of(frontier), aim, "mean P(rare)", 1)
        try:
            decomposing.CONSTANTS = np.array([bias.constant])
            rows = {name: decomposing.logit_bias(*one, groups, frequency, np.zeros(1))[0] for name, one in plain.items()}
        finally:
            decomposing.CONSTANTS = exact
        assert rows["valid"]["mass"] == pytest.approx(aim, rel=1e-3)
        assert (bias.rare, bias.total) == pytest.approx((rows["test"]["rare"], rows["test"]["total"]), rel=1e-3)
        assert choose(curves_of(frontier), aim, "mean P(rare)", 2).valid_rare <= bias.valid_rare
    assert choose(curves_of(frontier), 1.1 * frontier.valid_mass.max(), "mean P(rare)", 1) is None
    total, rare = frontier_points(frontier, 1)
    assert total[0] == pytest.approx(1, abs=0.01) and 1.05 < total[-1] < 1.2
    larger = frontier.assign(test_total=2 * frontier.test_total, test_rare=3 * frontier.test_rare)
    np.testing.assert_allclose(frontier_points(larger, 1), (total, rare))


def _frontier(cut, groups, frequency) -> pd.DataFrame:
    rows = {name: decomposing.logit_bias(*one, groups, frequency, SLOPES) for name, one in cut.items()}
    biases = [(slope, constant) for slope in SLOPES for constant in CONSTANTS]
    return pd.DataFrame(
        {"slope": slope, "constant": constant} | {f"{split}_{key}": row[n][key] for split, row in rows.items() for key in row[n]}
        for n, (slope, constant) in enumerate(biases)
    )


@pytest.mark.parametrize(("constant", "is_determined"), [(1.0, True), (0.6, True), (0.4, False), (0.01, False)])
def test_a_total_near_the_lowest_does_not_determine_the_constant(constant, is_determined):
    """With a total of exp(c^2 / 100) and a rare-token perplexity of exp(-c), the sensitivity is 50 / c."""
    at = np.linspace(-1, 3, 81)
    columns = {"slope": 0.0, "constant": at, "valid_total": np.exp(at**2 / 100)}
    columns |= {"valid_rare": np.exp(-at), "valid_mass": np.exp(at)}
    frontier = pd.DataFrame(columns | {f"test_{kind}": np.exp(-at) for kind in ("freq", "med", "rare", "total")})
    bias = choose(curves_of(frontier), np.exp(constant**2 / 100), "total perplexity", 1)
    assert bias.sensitivity == pytest.approx(50 / constant, rel=0.01)
    assert bias.is_determined == is_determined
    assert choose(curves_of(frontier), np.exp(constant), "mean P(rare)", 1).is_determined
    # A total below the lowest, 1, is as sensitive as one as far above it.
    assert choose(curves_of(frontier), 0.9, "total perplexity", 1).is_determined
    below = choose(curves_of(frontier), np.exp(-(constant**2) / 100), "total perplexity", 1)
    assert (below.constant, below.sensitivity) == (pytest.approx(0, abs=1e-5), pytest.approx(50 / constant, rel=0.01))
    assert below.is_determined == is_determined


@pytest.mark.parametrize("group", ["rare", "own"])
def test_a_run_that_is_a_constant_is_no_better_than_the_baseline(root, world, found, own, group, monkeypatch):
    """From the stage to the report: maximum likelihood, and a method that is the same model with 2 nats on a group's logits."""
    _, text, groups, frequency, _ = world
    scores, rare = root / "reports/runs/lm", groups == RARE
    member = rare if group == "rare" else own[:, 0]
    share = own.sum() / ((groups >= 0).sum() - len(SPECIALS))
    monkeypatch.setattr(decomposing, "GROUP_SHARES", np.array([share - 0.1, share, share + 0.1]))  # exact at the share of `own`
    for name, objective in (("mle", "mle"), ("method", "agg")):
        run = Run(name=name, task="lm", tokens="lm", objective=objective, options={}, model="tiny", seed=1,
                  architecture="decoder", shape={**SHAPE, "activation": "gelu"})  # fmt: skip
        job = DecompositionJob(run=run, groups=GROUPS, evaluation=WHOLE, unit="piece", threads=1,
                               logit_bias=objective == "mle", threshold=THRESHOLD, parameters_hash=name)  # fmt: skip
        decompose(job, root / "data/tokens/lm", root / "data/runs/lm/pieces", scores)
    file = json.loads((scores / "method.decomposition.json").read_text())
    valid = np.asarray(tokens(root / "data/tokens/lm", "valid"))
    by_split = {"valid": valid, "test": text}
    for split, ids in by_split.items():
        both = np.stack([rare, own[:, 0], rare & member, (groups == MED) & member], 1)
        masses = decomposing.masses(world[0], ids, WHOLE, groups, frequency, np.zeros(1), both)
        whole, gain = np.exp(masses.nested), math.exp(2) - 1
        norm = 1 + gain * whole[:, 0 if group == "rare" else 1]  # each member of the group has e^2 times its probability
        logs = np.log((np.exp(masses.groups) + gain * np.stack([0 * norm, whole[:, 3], whole[:, 2]], 1)) / norm[:, None])
        whole = np.log((whole[:, 1:2] + gain * whole[:, 1 if group == "own" else 2, None]) / norm[:, None])
        moved = GroupPredictions(masses.logprob + 2 * member[ids] - np.log(norm), logs, None, whole)
        if split == "test":
            file["metrics"] |= {key: value for key, (value, _) in decomposing.decomposition(moved, ids, groups, REACH)[0].items()}
        else:
            metrics = decomposing.validation(moved, ids, groups, REACH)
            metrics |= decomposing.own_group(THRESHOLD, share, np.array([share]), moved)
            file["metrics"] |= {key: value for key, (value, _) in metrics.items()}
    ppl = {"mle": found.logprob, "method": moved.logprob}
    (scores / "method.decomposition.json").write_text(json.dumps(file))
    for name, logprob in ppl.items():
        whole = {"total": math.exp(-logprob.mean()), "rare": math.exp(-logprob[rare[text]].mean())}
        score = {"parameters_hash": name, "seed": 1, "metrics": {"ppl": whole}, "signatures": []}
        (scores / f"{name}.json").write_text(json.dumps(score))
    lines = {name: SheetLine(model="tiny", objective=objective, seed=1, tokens="lm", parameters_hash=name)
             for name, objective in (("mle", "mle"), ("method", "agg"))}  # fmt: skip
    one, = decompositions(AllScores(Sheet(scale="tiny", corpora={}, baselines={}, runs={"lm": lines}), root / "reports/runs"))
    if group == "rare":
        assert one.effects["ppl_within.rare"].value == pytest.approx(1, rel=1e-4)
        assert one.effects["auc.rare"].value == pytest.approx(0, abs=0.05)
    product = one.effects["ppl_within.rare"].value / one.effects["mass.rare"].value
    assert product == pytest.approx(one.effects["ppl.rare"].value, rel=1e-4)
    same = [baseline for baseline in one.baselines if baseline.parameters == 1 and baseline.group == group]
    assert [baseline.equal for baseline in same] == ["mean P(rare)", "total perplexity"]
    for baseline in same:
        assert baseline.constant == pytest.approx(2, abs=0.01) and baseline.advantage == pytest.approx(1, rel=1e-3)
    other = next(baseline for baseline in one.baselines if baseline.group != group)
    assert abs(other.advantage - 1) > 0.01, "the baseline with the constant on the other group is another one"
    assert one.own_share == pytest.approx(share, rel=1e-4)
    page, rows = to_markdown([one], [], "tiny"), to_csv([one]).splitlines()
    assert page.count("| `method` | 27.5 % | ") == 2, "matched on P(rare) and on total perplexity"
    assert sum("logit bias on the own group, 1 parameter" in row for row in rows) == 4 and len(rows) == 1 + 5 + 2 * (4 + 2)
    biases = [row for row in csv.DictReader(rows) if row["constant"]]
    assert {("2 parameters" in row["number"], bool(row["slope"])) for row in biases} == {(False, False), (True, True)}


def test_a_run_whose_interval_covers_no_seeds_is_neither_higher_nor_lower():
    def run(name: str, seeds: int, interval: Interval | None) -> Decomposition:
        effect = Effect("ratio", None, None, 1.4, interval, interval, Interval(1.3, 1.5), seeds)
        return Decomposition(name, "agg", dict.fromkeys(PARTS, effect), [])

    one, three = run("one", 1, None), run("three", 3, Interval(1.2, 1.6))
    page = to_markdown([one, three], [], "tiny")
    assert "compared with maximum likelihood, is higher in `three`.\n" in page
    assert "| `one` | 1 | x 1.4 (x 1.3 to x 1.5) |" in page
    assert "compared with maximum likelihood, is" not in to_markdown([one], [], "tiny")


def test_what_reported_perplexities_imply():
    rows = {one.row: one for one in implied(load_declarations(Path("data/paper")))}
    agg, freeze = rows["AGG"], rows["Freeze (b)"]
    assert agg.others == pytest.approx(1.0035, abs=5e-5) and agg.others < agg.constant.low
    assert freeze.others == pytest.approx(1.0288, abs=5e-5) and freeze.others > freeze.constant.high
