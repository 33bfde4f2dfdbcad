"""Metrics over predictions and text, against hand-computed examples and formulas written out."""

import json
import math
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr

from raretokens.files import round_digits
from raretokens.metrics import bootstrap as resampling
from raretokens.metrics.predictions import (
    continuation,
    exclude_rare_types,
    perplexity,
    rare_mass,
    reference_continuations,
    token_share,
    uniq,
)
from raretokens.metrics.score_files import write_json
from raretokens.metrics.similarity import coverage, word_similarity, word_similarity_by_tokens
from raretokens.vocabulary import EOS, FILLER, FREQ, MED, RARE, UNK, Vocabulary
from reproduction import tasks
from reproduction.tasks.evaluation.bleu import sacre_bleu, sacre_bleu_interval
from reproduction.tasks.evaluation.text import corpus_in_words, frequency, rank_frequency_points

SOURCE = Path(__file__).parents[1] / "src"
# 4 specials and one frequent piece, two medium, two rare, one filler
GROUPS = np.array([FREQ] * 5 + [MED] * 2 + [RARE] * 2 + [FILLER], dtype=np.int8)


def test_scoring_does_not_import_torch():
    """It would take seconds and a gigabyte in each of many small stages."""
    metrics = [
        f"raretokens.metrics.{path.stem}"
        for path in (SOURCE / "raretokens/metrics").glob("[a-z]*.py")
        if path.stem != "reading"  # it reads a text with a model
    ]
    files = [f"reproduction.tasks.{task}" for task in tasks.names()]
    modules = [*metrics, *files, "reproduction.tasks.evaluation.score", "reproduction.tasks.evaluation.classification"]
    assert len(metrics) > 8 and len(files) == 6
    code = f"import sys, {', '.join(modules)}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": str(SOURCE)}).returncode == 0


def test_perplexity_by_hand():
    logprob = np.log([0.5, 0.125, 0.25, 0.0625]).astype(np.float32)
    value, signature = perplexity(logprob, np.array([4, 4, 5, 8]), GROUPS, window=512, context=400)
    assert list(value) == ["total", "freq", "med", "rare"]
    assert value == pytest.approx({"total": 2**2.5, "freq": 4, "med": 4, "rare": 16})
    assert signature == "log:e|unit:piece|window:512|context:400|split:test"
    assert perplexity(logprob[:1], np.array([4]), GROUPS, window=8, context=0)[0]["rare"] is None
    with pytest.raises(ValueError, match="4 log-probabilities for 3 targets"):
        perplexity(logprob, np.array([4, 5, 8]), GROUPS, window=8, context=0)


def test_what_rare_types_are_given_and_perplexity_without_them():
    """Both from the logits: the softmax over all types, and over those that are not rare."""
    logits = np.random.default_rng(3).normal(size=(6, len(GROUPS)))
    targets, is_rare = np.array([4, 5, 8, 4, 6, 7]), GROUPS == RARE
    probability = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    rare, logprob = np.log(probability[:, is_rare].sum(1)), np.log(probability[np.arange(6), targets])
    others = np.where(is_rare, -np.inf, logits)
    expected = logits[np.arange(6), targets] - np.log(np.exp(others).sum(1))
    kept = GROUPS[targets] != RARE
    np.testing.assert_allclose(exclude_rare_types(logprob, rare)[kept], expected[kept], rtol=1e-12)
    mass, signature = rare_mass(rare, targets, GROUPS, window=8, context=0)
    given = probability[:, is_rare].sum(1)
    assert mass == pytest.approx(
        {"total": given.mean(), "freq": given[[0, 3]].mean(), "med": given[[1, 4]].mean(), "rare": given[[2, 5]].mean()}
    )
    assert signature == "of:rare-types|window:8|context:0"


@given(st.lists(st.tuples(st.floats(-30, 0), st.integers(2, 8)), min_size=1, max_size=60))
def test_log_perplexity_is_the_share_weighted_mean_of_the_groups(positions):
    logprob, targets = (np.array(column) for column in zip(*positions, strict=True))
    value = perplexity(logprob, targets, GROUPS, window=8, context=0)[0]
    share = token_share(targets, GROUPS)[0]
    parts = [share[g] * math.log(value[g]) for g in ("freq", "med", "rare") if value[g] is not None]
    assert math.log(value["total"]) == pytest.approx(sum(parts), abs=1e-9)


def test_uniq_by_hand():
    predicted = np.array([4, 4, 2, 8, 7, 8, 5, 9], dtype=np.int32)  # 9 is a filler: no type
    assert uniq(predicted, GROUPS, block=128) == (
        {"total": 5, "freq": 2, "med": 1, "rare": 2},
        "of:argmax|block:128|split:test",
    )
    assert uniq(predicted[:2], GROUPS) == ({"total": 1, "freq": 1, "med": 0, "rare": 0}, "of:targets|split:test")


def test_what_people_wrote_counted_by_hand():
    """Two lines of 4 and 3 pieces and their ends: 9 positions, 5 types, of which the specials and 4 are frequent."""
    text = np.array([4, 5, 4, 8, EOS, 4, UNK, 8, EOS], dtype=np.int32)
    assert uniq(text, GROUPS)[0] == {"total": 5, "freq": 3, "med": 1, "rare": 1}
    share = token_share(text, GROUPS)[0]
    assert share == pytest.approx({"total": 1, "freq": 6 / 9, "med": 1 / 9, "rare": 2 / 9})


def test_repetition_of_continuations_by_hand():
    texts = np.array(
        [[7, 8, 7, 8, 7, 8], [4, 5, 6, 7, 8, 9], [4, 4, 4, 4, 4, 4], [1, 2, 3, 1, 2, 3], [5, 5, 6, 7, 8, 9]]
    )
    value, signature = continuation(texts, prefix=50)
    assert value["samples"] == {"1": 2, "2": 6, "3": 1, "4": 3}
    assert value["uniq"] == pytest.approx((2 + 6 + 1 + 3 + 5) / 5)
    assert value["rep1"] == pytest.approx((4 / 6 + 0 + 5 / 6 + 3 / 6 + 1 / 6) / 5)
    assert value["rep2"] == pytest.approx((3 / 5 + 0 + 4 / 5 + 2 / 5 + 0) / 5)
    assert value["rep3"] == pytest.approx((2 / 4 + 0 + 3 / 4 + 1 / 4 + 0) / 5)
    assert value["rep4"] == pytest.approx((1 / 3 + 0 + 2 / 3 + 0 + 0) / 5)
    assert signature == "of:greedy|prefix:50|length:6|samples:5|split:test"
    short = continuation(texts[:, :3], prefix=50)[0]
    assert short["rep3"] == short["rep4"] == 0  # nothing that could repeat


def test_continuations_that_people_wrote_lie_evenly_in_the_text():
    # 40 tokens less 7 of one sample leave a stride of 33 // 4 = 8
    starts = reference_continuations(np.arange(40), samples=4, prefix=4, length=3)
    assert starts.tolist() == [[4, 5, 6], [12, 13, 14], [20, 21, 22], [28, 29, 30]]
    with pytest.raises(ValueError, match="only 10 tokens"):
        reference_continuations(np.arange(10), samples=4, prefix=4, length=3)


def test_corpus_in_words_and_its_rank_frequency_by_hand():
    # training text: "a b a <unk>" and "a c", two line ends
    vocabulary = Vocabulary(
        ("<s>", "<pad>", "</s>", "<unk>", "a", "b", "c", "<filler0>"), *[np.array([0, 0, 2, 1, 3, 1, 1, 0])] * 2, 1
    )
    splits = {"train": {"tokens": 8, "lines": 2}, "valid": {"tokens": 3, "lines": 1}, "test": {"tokens": 4, "lines": 1}}
    value, _ = corpus_in_words(vocabulary, splits, np.array([4, UNK, 5, EOS]))
    assert value == {
        "train": 6,
        "valid": 2,
        "test": 3,
        "with_line_ends": {"train": 8, "valid": 3, "test": 4},
        "types": 5,
        "oov": 12.5,
        "oov_test": 25.0,
    }
    assert frequency(vocabulary)[0] == {"below_1e-3": 0.0, "below_1e-4": 0.0, "is": None}
    named = Vocabulary((*vocabulary.tokens[:4], "is", "\u2581is", *vocabulary.tokens[6:]), *[vocabulary.counts] * 2, 1)
    assert frequency(named)[0]["is"] == 4 / 8
    shares = [math.log10(count / 8) for count in (3, 2, 1, 1, 1)]
    points = [("rank_frequency", "total", rank, pytest.approx(share)) for rank, share in enumerate(shares, 1)]
    assert rank_frequency_points(vocabulary) == points
    many = rank_frequency_points(SimpleNamespace(counts=np.arange(1, 100_001)))
    assert (many[0][2], many[-1][2]) == (1, 100_000) and 200 < len(many) <= 300


def noisy(lines, share, seed):
    """The lines with a share of their words replaced."""
    random = np.random.default_rng(seed)
    return [" ".join("x" if random.random() < share else w for w in line.split()) for line in lines]


TRUTH = [" ".join(np.random.default_rng(n).choice(list("abcdefgh"), 12)) for n in range(60)]


def test_interval_is_that_of_resampled_test_sets():
    system = noisy(TRUTH, 0.2, 1)
    value, signature = sacre_bleu_interval(system, TRUTH)
    drawn = np.random.default_rng(7).choice(60, (300, 60))
    scores = sorted(sacre_bleu([system[i] for i in some], [TRUTH[i] for i in some])[0] for some in drawn)
    assert value == pytest.approx((scores[292] - scores[7]) / 2, rel=0.25)
    assert "|bs:1000|seed:12345|" in signature


def test_replicates_are_the_metric_of_each_drawn_test_set():
    random = np.random.default_rng(5)
    cosine, human = random.normal(size=30), random.integers(0, 4, 30)
    rows = np.random.default_rng(12345).integers(0, 30, (400, 30))
    expected = [100 * spearmanr(cosine[some], human[some]).statistic for some in rows]
    np.testing.assert_allclose(resampling.spearman(cosine, human), expected, atol=1e-9)
    np.testing.assert_allclose(resampling.mean(cosine), cosine[rows].mean(1), atol=1e-12)
    logprob, targets = random.uniform(-9, 0, 30), random.integers(2, 9, 30)  # 30 positions: a block each
    expected = [perplexity(logprob[some], targets[some], GROUPS, window=8, context=0)[0] for some in rows]
    drawn = resampling.perplexity(logprob, targets, GROUPS)
    for group in ("total", "freq", "med", "rare"):
        truth = [np.nan if value[group] is None else value[group] for value in expected]
        np.testing.assert_allclose(drawn[group], truth, rtol=1e-9)
    expected = [uniq(targets[some], GROUPS)[0] for some in rows]
    assert {name: list(values) for name, values in resampling.uniq(targets, GROUPS).items()} == {
        name: [value[name] for value in expected] for name in ("total", "freq", "med", "rare")
    }
    system = noisy(TRUTH, 0.3, 1)
    some = np.random.default_rng(12345).integers(0, 60, (400, 60))[:4]
    scores = [sacre_bleu([system[i] for i in row], [TRUTH[i] for i in row])[0] for row in some]
    assert resampling.bleu(system, TRUTH, {"tokenize": "13a"})[:4] == pytest.approx(scores)


def test_word_similarity_with_ties_by_hand():
    angles = np.radians([0, 60, 60, 0, 90])
    table = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    pieces = {"a": [0], "b": [1], "c": [2], "d": [4], "odd": [0, UNK]}
    # cosines with a: b .5, c .5 (a tie), d 0; ranks 2.5, 2.5, 1 against human 3, 2, 1: Spearman = 1.5 / sqrt(1.5 * 2)
    sets = {"men": [("a", "b", 9.0), ("a", "c", 5.0), ("d", "a", 1.0)], "rw": [("a", "b", 1.0), ("a", "odd", 1.0)]}
    value, signature = word_similarity(table, sets, pieces.__getitem__, form="bare")
    assert value["men"] == pytest.approx(100 * math.sqrt(0.75))
    assert value["rw"] is None  # people see no difference, so there is no correlation
    assert signature == "x:100|corr:spearman|word:mean-of-pieces|form:bare|pairs:all"
    assert coverage(sets, pieces.__getitem__)[0] == {"men": 1.0, "rw": pytest.approx(2 / 3)}


def test_similarity_takes_the_mean_of_raw_vectors():
    table = np.array([[3.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 2.0]])
    pieces = {"two": [0, 1], "x": [2], "y": [3], "z": [1, 2]}  # raw mean of two: (1.5, .5)
    sets = {"men": [("two", "x", 3.0), ("two", "z", 2.0), ("two", "y", 1.0)]}
    assert word_similarity(table, sets, pieces.__getitem__, form="bare")[0]["men"] == pytest.approx(100)
    table[0] = [1.0, 0.0]  # as unit rows would have it: two and z coincide, x and y tie
    assert word_similarity(table, sets, pieces.__getitem__, form="bare")[0]["men"] == pytest.approx(0)


def test_word_similarity_of_words_of_one_token_and_of_all_others_by_hand():
    """People and cosines agree on whole words and disagree on words that are cut or unknown."""
    angles = np.radians([0, 20, 50, 90, 10])
    table = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    pieces = {"a": [0], "b": [1], "c": [2], "cut": [1, 2], "odd": [UNK]}
    whole = [("a", "b", 9.0), ("a", "c", 2.0)]
    others = [("a", "cut", 1.0), ("odd", "a", 7.0), ("odd", "odd", 0.0)]  # by cosine: odd-odd, a-cut, odd-a
    sets = {"men": [others[0], whole[0], *others[1:], whole[1]], "rg65": whole}
    metrics = word_similarity_by_tokens(table, sets, pieces.__getitem__, form="bare")
    assert {name: value for name, (value, _) in metrics.items()} == {
        "spearman_one_token": {"men": pytest.approx(100), "rg65": pytest.approx(100)},
        "pairs_one_token": {"men": 2, "rg65": 2},
        "spearman_not_one_token": {"men": pytest.approx(-100), "rg65": None},
        "pairs_not_one_token": {"men": 3, "rg65": 0},
    }
    assert metrics["spearman_one_token"][1] == "x:100|corr:spearman|word:mean-of-pieces|form:bare|pairs:one-token"


def test_cosines_that_differ_in_the_last_bits_are_ties():
    table = np.outer(np.arange(1, 20), [0.1, 0.7, 0.3])  # one direction
    sets = {"men": [(0, i, float(i)) for i in range(1, 19)]}
    assert word_similarity(table, sets, lambda i: [i], form="bare")[0]["men"] is None


def test_rounding_and_invalid_numbers(tmp_path):
    write_json(tmp_path / "run.json", {"a": [1234567.8, (-0.0, 3, "x", None)], "b": 0.00012345678})
    assert json.loads((tmp_path / "run.json").read_text()) == {"a": [1234570.0, [0.0, 3, "x", None]], "b": 0.000123457}
    assert str(round_digits(-0.0)) == "0.0"
    assert [round_digits(value, 3) for value in (1234.5, 0.00012345, -1e-9, 2)] == [1230.0, 0.000123, -1e-9, 2.0]
    with pytest.raises(ValueError):
        write_json(tmp_path / "other.json", {"x": float("nan")})
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]
