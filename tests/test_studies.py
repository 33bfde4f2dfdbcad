"""The studies, which run by hand on what a scale has trained: their own arithmetic."""

import ast
import csv
import importlib.util
import sys
from itertools import islice
from types import SimpleNamespace

import numpy as np
import pytest
from pytest import approx
from tiny.run_sheet import DECLARED, SMALL, committed

from raretokens.claims.comparison import Comparison
from raretokens.claims.verdict import Outcome
from raretokens.csv_files import read_csv
from reproduction.papers.verdicts import judge
from reproduction.pipeline.jobs import run_sheet
from reproduction.pipeline.parameters_file import load


@pytest.fixture(autouse=True)
def scripts(monkeypatch, request):
    monkeypatch.syspath_prepend(request.config.rootpath / "docs/studies")


@pytest.mark.parametrize("folder", ["benchmarks", "docs", "tests/faults"])
def test_scripts_import_what_exists(folder, request):
    for path in (request.config.rootpath / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("raretokens"):
                module = importlib.import_module(node.module)
                for name in node.names:
                    known = hasattr(module, name.name) or importlib.util.find_spec(f"{node.module}.{name.name}")
                    assert known, f"{path}:{node.lineno}: {node.module} has no {name.name}"


def test_a_distance_is_to_the_last_rare_piece_before():
    from rare_contexts import distances

    rare = np.array([False, True, False, True, True, False, False])
    assert distances(rare).tolist() == [1, 2, 1, 2, 1, 1, 2]  # the first two look back to the start of the text


def test_a_ratio_is_that_of_the_kept_positions_alone():
    from rare_contexts import ratio

    difference = np.where(np.arange(4000) % 2, np.log(1.5), np.log(3.0))
    assert ratio(difference, np.arange(4000) % 2 == 1) == approx((1.5, 1.5, 1.5))
    middle, low, high = ratio(np.random.default_rng(0).normal(0.1, 1.0, 4000), np.full(4000, True))
    assert low < middle < high < 1.2


def test_a_table_of_random_rows_tells_nothing(monkeypatch):
    import discriminator

    monkeypatch.setattr(discriminator, "ROWS", 200)
    monkeypatch.setattr(discriminator, "AFTER", (1, 20))
    (start, own), (later, _) = discriminator.course({"lr": 1.0}, seed=0)
    assert 30 < start < 70 and 30 < later < 70 and 0.5 < own < 1


def test_a_cone_is_seen_and_rows_all_around_are_not():
    from table_course import COLUMNS, numbers

    around = np.random.default_rng(0).normal(size=(300, 16))
    counts, groups = np.arange(300, 0, -1), np.repeat([0, 1, 2], 100)
    wide, narrow = (
        dict(zip(COLUMNS[2:], map(float, numbers(around + shift, counts, groups)), strict=True)) for shift in (0, 4)
    )
    assert wide["positive total"] == approx(0.5, abs=0.02) and narrow["positive total"] > 0.999
    assert (
        abs(wide["mean cosine"]) < 0.01
        and narrow["mean cosine"] > 0.9
        and narrow["tenth to first"] < wide["tenth to first"]
    )
    assert wide["rare beside rare"] == approx(0.8, abs=0.05)  # four of five types are rare, and rows know nothing of it


@pytest.mark.parametrize("height", [0.0, 0.3, 0.9])
def test_the_hull_of_a_cap_is_as_far_from_the_origin_as_the_cap_is_high(height):
    """Unit vectors that all have this first coordinate."""
    from hidden_states import distance

    around = np.random.default_rng(0).normal(size=(3000, 6))
    around /= np.linalg.norm(around, axis=1, keepdims=True)
    cap = np.column_stack([np.full(len(around), height), np.sqrt(1 - height**2) * around])
    assert distance(cap) == approx(height, abs=1e-6) and distance(around) == 0


def test_neighbours_by_distance_see_lengths_that_cosines_do_not():
    from hidden_states import neighbours

    rows = np.random.default_rng(0).normal(size=(300, 8))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    counts, groups = np.arange(300, 0, -1), np.repeat([0, 1, 2], 100)
    long = rows * np.where(np.arange(300) < 60, 9.0, 1.0)[:, None]  # the popular fifth
    assert neighbours(rows, counts, groups) == approx([0.8] * 5, abs=0.05)
    cosine, euclidean, lengths_alone, of_popular, chance = neighbours(long, counts, groups)
    assert (cosine, of_popular, chance) == approx((0.8, 0.8, 0.8), abs=0.05) and euclidean == lengths_alone == 1


def test_a_constant_on_the_logits_of_rare_types_is_that():
    from rare_bias import biased, matched_constants

    logits, targets, is_rare = np.random.default_rng(0).normal(size=(50, 6)), np.arange(50) % 6, np.arange(6) >= 4

    def predicted(logits):
        logprob = logits - np.log(np.exp(logits).sum(1, keepdims=True))
        return logprob[np.arange(50), targets], np.log(np.exp(logprob[:, is_rare]).sum(1))

    plain, shifted = predicted(logits), predicted(logits + 0.7 * is_rare)
    for own, other in zip(biased(plain, is_rare[targets], 0.7), shifted, strict=True):
        assert own == approx(other, abs=1e-12)
    found = dict(matched_constants(plain, shifted, is_rare[targets]))
    assert found["same rare share"] == approx(0.7, abs=1e-6)
    assert -biased(plain, is_rare[targets], found["same total"])[0].mean() == approx(-shifted[0].mean(), abs=1e-9)


def test_positives_and_known_rows_are_found_by_their_tokens(tmp_path, monkeypatch):
    """Stand-ins for the packages of the gallery, one with language tokens and one with unused tokens."""
    from undertrained_rows import GLITCH, matrices

    from raretokens.measure.model import load_model

    tokens = {"Whisper tiny.en": ["the", GLITCH[0], "<|fr|>"], "MiniLM-L6": ["[unused3]", "the", "[unused20]"]}
    for title, words in tokens.items():
        np.savez(tmp_path / f"{title}.npz", table=np.eye(3, dtype=np.float32), words=np.array(words))
    gallery = SimpleNamespace(install=lambda title, folder: folder, load=lambda title, to: (load_model(f"{to / title}.npz"), {}))
    monkeypatch.setitem(sys.modules, "gallery", gallery)
    monkeypatch.setattr(sys, "path", [*sys.path])  # the study adds the gallery's folder
    found = islice(matrices(tmp_path), 2)
    assert [(title, positives.tolist(), known.tolist()) for title, _, positives, known in found] == [
        ("Whisper tiny.en", [1], [2]), ("MiniLM-L6", [2], [0])
    ]  # fmt: skip


def test_likeness_of_one_language_is_not_taken_for_frequency():
    """Words of the source share a direction, and counts say nothing: only over all types does rarity seem to tell."""
    from similarity_by_language import COLUMNS, numbers

    from raretokens.vocabulary import Vocabulary

    of_source, of_target = np.arange(400) < 200, np.arange(400) >= 200
    seen = np.random.default_rng(1).permutation(400) + 1
    table = np.random.default_rng(0).normal(size=(400, 64)) + of_source[:, None] * np.eye(64)[0] * 4
    vocabulary = Vocabulary(tuple(map(str, range(400))), seen, np.where(of_target, seen, 0), 0)
    found = dict(zip(COLUMNS[3:], map(float, numbers(table, vocabulary, np.flatnonzero(of_source))), strict=True))
    assert found["all types"] > 0.3 and abs(found["target's types"]) < 0.15 > abs(found["source's types"])
    assert found["cosine source's"] > 0.15 and abs(found["cosine target's"]) < 0.02


def test_a_claim_judged_on_one_of_its_seeds_has_that_alone():
    from few_seeds import judge_again, with_seeds

    scores, name = committed()["lm"], "freeze-bc-lowers-rare-perplexity"
    claim = DECLARED.claims[name]
    fewer = Comparison.of_claim(claim, with_seeds(claim, scores, (2,))).values
    assert fewer["left"].runs == ("freeze-bc-2",) and fewer["right"].runs == ("mle", "mle-2", "mle-3")
    assert judge(name, claim, with_seeds(claim, scores, (2, 3)), DECLARED).effect.seeds == 2
    judged = list(judge_again(name, DECLARED, scores))
    assert [size for size, *_ in judged] == [1, 1, 1, 2, 2, 2]
    assert {outcome for _, outcome, _ in judged} == {Outcome.REPRODUCED}
    assert scores.repetitions["freeze-bc"] == ["freeze-bc", "freeze-bc-2", "freeze-bc-3"]


def test_claims_that_are_judged_again_are_those_of_three_seeds_in_the_reports(request):
    root = request.config.rootpath
    claims, study = (read_csv(root / file) for file in ("scales/small/reports/claims.csv", "docs/studies/few-seeds-small.csv"))
    three = claims[claims.seeds == "3"]
    of_q = three.reason.str.startswith("q is ")  # main claims that their intervals contradict, as the study sees them
    verdicts = three.verdict.mask(of_q, "contradicted")
    assert len(study) == 6  # one and two seeds of three, for each outcome of a tested claim
    for row in study.to_dict("records"):
        again = 3 * sum(verdicts == row["verdict of three"])  # three single seeds, and three pairs
        assert int(row["judged again"]) == again, "run docs/studies/few_seeds.py"


def test_effects_where_few_targets_are_rare_are_those_of_the_committed_files(monkeypatch):
    import rare_share

    monkeypatch.chdir(SMALL)
    sheet = run_sheet(load())
    for name, rows in rare_share.tables(sheet).items():
        file = (rare_share.FOLDER / f"{name}-small.csv").read_text(encoding="utf-8")
        assert [list(row) for row in csv.reader(file.splitlines())] == rows, "run docs/studies/rare_share.py"
    printed = read_csv(rare_share.FOLDER / "rare-share-small.csv").set_index("run")["test NLL"].astype(float)
    scores = committed()["lm"]
    for run in (run for run in printed.index if scores.read(run)):  # of others, what the stage printed is known
        assert np.log(scores.number(run, "ppl.total")) == approx(printed[run], abs=1e-3)
        printed[run] = np.log(scores.number(run, "ppl.total"))
    agg, mle = (printed[[f"32k-{name}{seed}" for seed in ("", "-2", "-3")]].to_numpy() for name in ("agg", "mle"))
    effects = read_csv(rare_share.FOLDER / "rare-share-effects-small.csv")
    assert effects.method[0] == "AGG"
    assert float(effects["total perplexity"][0].split()[1]) == approx(np.exp(np.mean(agg - mle)), abs=5e-4)


def test_rows_at_the_usual_rate_are_those_of_the_score_files():
    import rare_share

    scores = committed()["lm"]
    rows = read_csv(rare_share.FOLDER / "learning-rates-small.csv")
    usual = rows[rows["peak rate"] == rare_share.USUAL_RATE]
    assert list(usual.run) == ["mle", "agg", "ember"]
    for row in usual.to_dict("records"):
        number = {metric: scores.number(row["run"], metric) for metric in rare_share.METRICS}
        assert f"{np.log(number['ppl.total']):.4f}" == row["test NLL"] and f"{number['mass.rare']:.3g}" == row["P(rare)"]
        assert f"{number['ppl_within.rare']:.4g}" == row["perplexity within the rare group"]
        assert scores.curve(row["run"], "nll.valid")[1][-1] == float(row["validation NLL"])


def test_the_loss_of_a_word_is_the_sum_over_its_tokens():
    from word_loss import split_words, sums

    pieces = ["<s>", "<pad>", "</s>", "<unk>", "▁the", "▁", "cat", "▁cat", "s"]
    ids = np.array([4, 7, 8, 2, 2, 5, 6, 4, 2])  # the cats, an empty line, cat the
    words, word = split_words(ids, pieces)
    assert words == ["the", "cats", "cat", "the"]
    assert sums(np.arange(9.0), word, len(words)).tolist() == [0, 3, 11, 7]


def test_words_of_two_runs_are_compared_by_rank():
    """The second run is one nat worse on a word that training has twice, and two nats better on one that it lacks."""
    from collections import Counter

    from word_loss import UNSEEN, table

    words = ["often", "never", "<unk>"] * 400
    losses = np.tile([[[1.0, 8.0, 5.0]], [[2.0, 6.0, 0.0]]], 400)
    rows = table(words, losses, np.tile([[1, 3, 1], [1, 2, 1]], 400), Counter(often=2, other=1))
    found = {(rank, kind): (words, float(difference)) for _, rank, kind, words, _, _, _, difference, _, _ in rows}
    assert found == {
        ("all", "any"): (800, -0.5),
        ("all", "one token"): (400, 1.0),
        ("all", "other"): (400, -2.0),
        ("1 to 100", "any"): (400, 1.0),
        ("1 to 100", "one token"): (400, 1.0),
        (UNSEEN, "any"): (400, -2.0),
        (UNSEEN, "other"): (400, -2.0),
    }


def test_the_interval_of_words_covers_text_and_seeds():
    """Three seeds with the differences 0, 1 and 2 on all words: t of 2 degrees of freedom times the standard error."""
    from word_loss import interval

    kept = np.ones(600, bool)
    text = np.random.default_rng(0).normal(1, 1, (1, 600))
    low, high = interval(text, kept)
    assert low < text.mean() < high and high - low == pytest.approx(2 * 1.96 * text.std() / np.sqrt(600), rel=0.2)
    low, high = interval(np.repeat([[0.0], [1.0], [2.0]], 600, 1), kept)
    assert (low, high) == pytest.approx((1 - 4.3027 / 3**0.5, 1 + 4.3027 / 3**0.5), rel=1e-4)
    (narrow, wide) = (interval(text + shift * np.array([[-1.0], [0.0], [1.0]]), kept) for shift in (0.01, 1.0))
    assert wide[1] - wide[0] > 5 * (narrow[1] - narrow[0])


def test_other_forms_of_a_word_are_more_frequent_and_differ_in_more_than_case():
    pytest.importorskip("nltk")
    from collections import Counter

    from rare_words import other_forms

    counts = Counter(walk=9, Walks=5, walks=4, cat=3, walked=2, cats=1)
    found = other_forms({"walks", "walk", "cats", "dog"}, list(counts), counts)
    assert found == {"walks": ["walk"], "walk": [], "cats": ["cat"], "dog": []}


def test_matrices_are_compared_apart_from_rotation_and_scale():
    from tying import NEAREST, cka, overlap

    draw = np.random.default_rng(0)
    matrix, other = draw.normal(size=(2, 60, 8))
    rotation = np.linalg.qr(draw.normal(size=(8, 8)))[0]
    assert cka(matrix, 3 * matrix @ rotation + 5) == pytest.approx(1) and cka(matrix, other) < 0.3
    assert overlap(matrix, 3 * matrix @ rotation) == 1 and overlap(matrix, other) == pytest.approx(NEAREST / 59, abs=0.06)
