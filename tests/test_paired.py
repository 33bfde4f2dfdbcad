"""Translations beside those of maximum likelihood, on the same drawn test sets."""

import json
import random
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tiny.run_sheet import line

from raretokens.metrics import bootstrap as resampling
from reproduction.papers.task_scores import TaskScores
from reproduction.tasks.evaluation.bleu import sacre_bleu

WORDS = [f"w{number}" for number in range(50)]
TRUTH = [" ".join(random.Random(row).choices(WORDS, k=12)) for row in range(60)]


def noisy(share: float, seed: int) -> list[str]:
    """TRUTH, a share of its words replaced by another."""
    random_ = random.Random(seed)
    return [" ".join("x" if random_.random() < share else word for word in text.split()) for text in TRUTH]


TEXTS = {
    "mle": (line(tokens="nmt"), noisy(0.25, 1)),
    "mle-2": (line(tokens="nmt", seed=2), noisy(0.3, 2)),
    "better": (line("agg", tokens="nmt"), noisy(0.1, 3)),
    "equal": (line("cosreg", tokens="nmt"), noisy(0.25, 4)),
    "same": (line("freeze", tokens="nmt"), noisy(0.25, 1)),
    "same-2": (line("freeze", tokens="nmt", seed=2), noisy(0.3, 2)),
    "third": (line("freeze", tokens="nmt", seed=3), noisy(0.25, 1)),
    "reverse": (line("agg", tokens="nmt", reverse=True), noisy(0.1, 5)),
}


@pytest.fixture(scope="module")
def scores(tmp_path_factory) -> TaskScores:
    folder: Path = tmp_path_factory.mktemp("nmt")
    for name, (its, texts) in TEXTS.items():
        bleu = sacre_bleu(texts, TRUTH)[0]
        score = {"seed": its.seed, "metrics": {"bleu": {"sacrebleu": bleu}}}
        (folder / f"{name}.json").write_text(json.dumps(score))
        drawn = {"bleu.sacrebleu": resampling.bleu(texts, TRUTH, {"tokenize": "13a"})}
        pd.DataFrame(drawn).to_csv(folder / f"{name}.bootstrap.csv", index=False)
    (folder / "empty.json").write_text(json.dumps({"seed": 1, "metrics": {"bleu": {"sacrebleu": 10.0}}}))
    (folder / "empty.bootstrap.csv").write_text("\n")
    lines = {name: its for name, (its, _) in TEXTS.items()} | {"empty": line("agps", tokens="nmt")}
    return TaskScores(lines, task="nmt", folder=folder)


def test_each_stands_beside_maximum_likelihood_of_its_own_seed_and_direction(scores):
    baselines = {name: scores.baseline_run(name) for name in TEXTS}
    assert baselines == {
        **dict.fromkeys(("mle", "mle-2", "reverse")),
        **dict.fromkeys(("better", "equal", "same", "third"), "mle"),
        "same-2": "mle-2",
    }
    assert scores.paired("mle") == scores.paired("reverse") == scores.paired("empty") == {}
    assert scores.value("same", "paired.delta").values == (0.0, 0.0, 0.0)
    assert scores.value("same", "paired.p").values == (1.0,)  # of several p the largest


def test_the_interval_is_that_of_differences_resampled_one_by_one(scores):
    differences = []
    for some in np.random.default_rng(12345).integers(0, 60, (400, 60)):
        one, other = (
            sacre_bleu([TEXTS[name][1][row] for row in some], [TRUTH[row] for row in some])[0]
            for name in ("equal", "mle")
        )
        differences.append(one - other)
    found = scores.paired("equal")
    own, baseline = (sacre_bleu(TEXTS[name][1], TRUTH)[0] for name in ("equal", "mle"))
    assert found["delta"] == pytest.approx(own - baseline)
    about = np.array(differences) - np.mean(differences) + found["delta"]
    assert (found["low"], found["high"]) == pytest.approx(np.percentile(about, [2.5, 97.5]), abs=1e-9)
    tail = min(np.sum(about <= 0), np.sum(about >= 0))
    assert 0 < tail < 200 and found["p"] == pytest.approx(2 * tail / 400)  # the share of one side, twice
