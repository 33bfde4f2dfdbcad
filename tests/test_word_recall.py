"""Word recall by frequency: a worked example, sacreBLEU's own counts, and generated sentences."""

import json
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics import BLEU

from raretokens.metrics.bootstrap import REPLICATES, resample
from reproduction.run import Run
from reproduction.tasks.evaluation import word_recall
from reproduction.tasks.nmt import RecallJob, Texts, recall

COUNTS = Counter({"the": 500, "a": 100, "dog": 99, "barks": 10, "okapi": 9, "yodels": 1})
WORDS = [*COUNTS, "xylem"]


def test_a_worked_example():
    reference = [["the", "okapi", "yodels", "the", "xylem"], ["a", "dog", "barks"]]
    system = [["the", "okapi", "barks", "the", "the"], ["a", "okapi", "barks"]]
    counted = word_recall.matches(system, reference, COUNTS)
    found = word_recall.scores(*counted)
    assert word_recall.reference_words(counted[2]) == {"unseen": 1, "rare": 2, "medium": 2, "frequent": 3}
    assert found["recall"] == pytest.approx({"unseen": 0.0, "rare": 50.0, "medium": 50.0, "frequent": 100.0})
    # No unseen word was produced; a third "the" and the second okapi match nothing.
    assert found["precision"] == {"unseen": None, "rare": 50.0, "medium": 50.0, "frequent": 75.0}
    assert found["f1"]["frequent"] == pytest.approx(100 * 6 / 7)


SENTENCES = st.lists(st.sampled_from(WORDS), min_size=1, max_size=12)


@given(st.lists(st.tuples(SENTENCES, SENTENCES), min_size=1, max_size=6))
def test_all_classes_together_are_the_unigram_counts_of_sacrebleu(pairs):
    system, truth = zip(*pairs, strict=True)
    matched, produced, wanted = word_recall.matches(system, truth, COUNTS)
    joined = [[" ".join(words) for words in side] for side in (system, truth)]
    score = BLEU(tokenize="none", force=True).corpus_score(joined[0], [joined[1]])
    assert (matched.sum(), produced.sum(), wanted.sum()) == (score.counts[0], score.totals[0], score.ref_len)


def test_replicates_are_the_scores_of_resampled_sentences():
    rng = np.random.default_rng(0)
    system, truth = ([list(rng.choice(WORDS, rng.integers(1, 9))) for _ in range(20)] for _ in range(2))
    counted = word_recall.matches(system, truth, COUNTS)
    draws = word_recall.replicates(*counted)
    for draw in (0, REPLICATES - 1):
        rows = resample(20)[draw]
        again = word_recall.scores(*(part[rows] for part in counted))
        expected = {f"{name}.{label}": value for name, values in again.items() for label, value in values.items()}
        assert {name: values[draw] for name, values in draws.items()} == pytest.approx(
            {name: np.nan if value is None else value for name, value in expected.items()}, nan_ok=True
        )


def test_the_stage_scores_all_test_sets_together(tmp_path):
    corpus, predictions = tmp_path / "corpora/nmt", tmp_path / "predictions"
    corpus.mkdir(parents=True)
    predictions.mkdir()
    (corpus / "counts.json").write_text(json.dumps({"languages": {"source": "en", "target": "de"}}))
    texts = {
        "test": (["Ein Hund bellt laut, sehr laut."], ["Ein Hund bellt laut, sehr laut."]),
        "more": (["Das Okapi schläft im hohen Gras."], ["Das Okapi ruht im hohen Gras."]),
    }
    for name, (system, truth) in texts.items():
        (predictions / f"{name}.txt").write_text("\n".join(system) + "\n")
        (corpus / f"{name}.target").write_text("\n".join(truth) + "\n")
    (corpus / "train.target").write_text("Ein Hund bellt.\n" * 20 + "Das Okapi ruht im Gras.\n")
    run = Run(name="r", task="nmt", tokens="nmt", objective="mle", model="base", architecture="encoder_decoder",
              shape={}, seed=1, options={})  # fmt: skip
    decoding = {"beam": 4, "length_penalty": 0.6}
    job = RecallJob(
        run=run, texts=Texts(corpus="nmt", decoding=decoding, extra_tests=["more", "absent"]), parameters_hash="x"
    )
    recall(job, tmp_path / "corpora", predictions, tmp_path)
    found = json.loads((tmp_path / "r.recall.json").read_text())
    sides = [[line for pair in texts.values() for line in pair[side]] for side in (0, 1)]
    assert found["metrics"]["all_tests"]["sacrebleu"] == pytest.approx(
        BLEU().corpus_score(sides[0], [sides[1]]).score, rel=1e-5
    )
    assert found["metrics"]["all_tests"]["sentences"] == 2
    # Das, Okapi, im and Gras of five rare reference words; ruht is missing.
    assert found["metrics"]["words"]["recall"]["rare"] == pytest.approx(80.0)
    assert dict(found["signatures"])["words.recall"].startswith(
        "unit:word|tok:sacrebleu-13a|classes:0/9/99|clipped:yes"
    )
    header = (tmp_path / "r.recall.bootstrap.csv").read_text().splitlines()[0].split(",")
    assert {"all_tests.sacrebleu", "words.recall.rare", "bleu.more.tokenised"} <= {*header}
