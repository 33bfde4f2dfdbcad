"""Skip-gram with negative sampling: its pairs, its draws and its loss, each against the formula written out."""

from collections import Counter
from pathlib import Path

import gensim
import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from scipy.stats import spearmanr
from tiny.applies import REFUSED, applying

from raretokens.errors import UserError
from raretokens.loss.facts import facts
from raretokens.loss.terms import negative_sampling
from raretokens.objectives.registry import build, declared
from raretokens.vocabulary import EOS, PAD, SPECIALS, UNK, VOCABULARY, Vocabulary
from reproduction.corpora.tokenization import token_files as streams
from reproduction.corpora.tokenization.settings import Groups
from reproduction.run import Run
from reproduction.tasks import skipgram
from reproduction.training.models.skip_gram import SkipGram
from reproduction.training.recipe import Execution, Observer, RuleChoice, Training
from reproduction.training.recipe import TrainJob as Job
from reproduction.training.rule import build as build_rule
from reproduction.training.run import train
from reproduction.training.window_batches import Windows, kept_share, negative_distribution

WORDS = 40


@pytest.fixture
def vocabulary() -> Vocabulary:
    counts = np.concatenate(([0, 0, 500, 100], 4000 // np.arange(1, WORDS + 1), [0, 0]))
    pieces = (*SPECIALS, *(f"w{i}" for i in range(WORDS)), "<filler0>", "<filler1>")
    return Vocabulary(pieces, counts, counts, 2)


@pytest.fixture
def text(vocabulary) -> np.ndarray:
    chance = vocabulary.counts / vocabulary.counts.sum()
    return np.random.default_rng(0).choice(len(vocabulary), 3000, p=chance)


def windows(text, vocabulary, **other) -> Windows:
    cut = {"block": 7, "window": 3, "shared_negatives": 5, "subsample": 0.01, "tokens_per_step": 100, "seed": 4}
    return Windows(text, vocabulary, **{**cut, **other})


def test_negatives_are_drawn_as_the_counts_to_the_power_three_quarters(text, vocabulary):
    expected = np.zeros(len(vocabulary))
    for word in range(len(SPECIALS), vocabulary.types):
        expected[word] = vocabulary.counts[word] ** 0.75
    expected /= expected.sum()
    np.testing.assert_allclose(negative_distribution(vocabulary), expected, rtol=1e-12)
    cut = windows(text, vocabulary, shared_negatives=400)
    drawn = np.concatenate([cut._make(number).negatives.ravel() for number in range(40)])
    found = np.bincount(drawn, minlength=len(vocabulary)) / len(drawn)
    error = np.sqrt(expected * (1 - expected) / len(drawn))
    assert np.all(np.abs(found - expected) <= 4.5 * error)


def test_frequent_words_are_kept_as_often_as_the_formula_says(vocabulary):
    total = vocabulary.counts[len(SPECIALS) :].sum()
    share = kept_share(vocabulary, 0.01)
    for word in range(len(SPECIALS), vocabulary.types):
        ratio = 0.01 / (vocabulary.counts[word] / total)
        assert share[word] == pytest.approx(min(1.0, ratio**0.5 + ratio))
    assert not share[: len(SPECIALS)].any()
    assert np.all(kept_share(vocabulary, 0.0)[len(SPECIALS) : vocabulary.types] == 1)


def test_pairs_are_those_of_a_double_loop(text, vocabulary):
    """No subsampling and one reach: every pair of kept words up to that distance, once in each direction."""
    cut = windows(text, vocabulary, subsample=0.0, window=1)
    number = cut.step(2)
    words = [int(word) for word in text[200:300] if word not in (EOS, UNK)]
    expected = Counter(
        pair for one, other in zip(words, words[1:], strict=False) for pair in ((one, other), (other, one))
    )
    assert pairs_of(cut, number) == expected
    assert cut.targets(number) == expected.total()
    by_type = cut.counts(number, len(vocabulary))
    assert {word: int(n) for word, n in enumerate(by_type) if n} == Counter(other for _, other in expected.elements())


def pairs_of(cut: Windows, number: np.ndarray, tokens: int = 1000) -> Counter:
    found = Counter()
    for batch in cut.cut(number, tokens):
        centres, others = (ids.numpy() for ids in batch.inputs)
        for block, place, other in np.argwhere(batch.targets.numpy()):
            found[int(centres[block, place]), int(others[block, other])] += 1
    assert not any(PAD in pair for pair in found)
    return found


def test_reaches_are_even_and_micro_batches_change_nothing(text, vocabulary):
    cut = windows(text, vocabulary, subsample=0.0, tokens_per_step=3000)
    number = cut.step(0)
    assert pairs_of(cut, number) == pairs_of(cut, number, tokens=7)
    batch = cut._make(0)
    blocks, places, others = np.nonzero(batch.pairs)
    distances = np.bincount(np.abs(others - 3 - places))
    assert distances[0] == 0 and len(distances) == 4
    # A word at distance k is a pair if its reach is k or more: 3, 2 and 1 of 3 reaches.
    np.testing.assert_allclose(distances[1:] / distances[1], [1, 2 / 3, 1 / 3], atol=0.05)
    assert len(blocks) > 0
    again = windows(text, vocabulary, subsample=0.0, tokens_per_step=3000)
    assert pairs_of(again, number) == pairs_of(cut, number)


def test_loss_and_gradients_are_those_of_a_loop_over_pairs(text, vocabulary):
    torch.manual_seed(0)
    model = SkipGram(len(vocabulary), 7, width=6, window=3, negatives=4, shared_negatives=5, subsample=0.01).double()
    with torch.no_grad():
        model.embedding.normal_()
        model.outputs.normal_()
    table, outputs = (weight.detach().clone().requires_grad_() for weight in (model.embedding, model.outputs))
    cut = windows(text, vocabulary)
    (batch,) = cut.cut(cut.step(3), 1000)
    loss = negative_sampling(model(*batch.inputs), batch.targets, model.negatives)
    loss.backward()
    naive = torch.zeros((), dtype=torch.float64)
    centres, others = batch.inputs
    for block, place, other in batch.targets.nonzero().tolist():
        row = table[centres[block, place]]
        naive = naive - torch.log(torch.sigmoid(row @ outputs[others[block, other]]))
        for word in others[block, -5:]:
            naive = naive - 4 / 5 * torch.log(torch.sigmoid(-(row @ outputs[word])))
    naive.backward()
    assert loss.item() == pytest.approx(naive.item(), rel=1e-12)
    for weight, reference in ((model.embedding, table), (model.outputs, outputs)):
        assert weight.grad.is_sparse
        torch.testing.assert_close(weight.grad.to_dense(), reference.grad, rtol=1e-10, atol=1e-12)


def test_minibatch_of_frage_is_drawn_once_an_update_and_moves_only_its_rows():
    counts = torch.arange(50, 0, -1)
    objective = build(
        "frage", facts(counts, width=4, steps_per_epoch=1, pad=49), minibatch=9, hidden=True, popular=0.2
    ).double()
    table = torch.randn(50, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    seen = []
    for _ in range(2):
        objective.begin_step(counts)
        fixed = {name: value.detach().clone() for name, value in objective.discriminator.named_parameters()}
        objective.penalty(table).backward()
        assert table.grad.is_sparse
        rows, popular, rare = objective._drawn(table.detach())
        assert (popular.tolist(), rare.tolist()) == ([0, 1, 2, 3], [4, 5, 6, 7, 8])
        drawn = [int((table.detach() == row).all(1).nonzero()) for row in rows]
        assert all(id < 10 for id in drawn[:4]) and all(id >= 10 for id in drawn[4:])
        assert set(table.grad.coalesce().indices()[0].tolist()) == set(drawn)
        with torch.no_grad():
            p = torch.sigmoid(torch.func.functional_call(objective.discriminator, fixed, (table[drawn],)).squeeze(1))
            expected = -(torch.log(p[:4]).mean() + torch.log(1 - p[4:]).mean())
        assert objective.penalty(table).item() == pytest.approx(-0.1 * expected.item(), rel=1e-12)
        table.grad = None
        objective.end_step(table)
        assert any(not torch.equal(value, fixed[name]) for name, value in objective.discriminator.named_parameters())
        seen.append(drawn)
    assert seen[0] != seen[1]


def job(objective: str = "mle", seed: int = 1, steps: int = 12, **other) -> Job:
    shape = {"width": 16, "window": 3, "negatives": 5, "shared_negatives": 5, "subsample": 0.0} | other.pop("shape", {})
    run = Run(
        name=objective, task="skipgram", tokens="t", objective=objective, model="s", architecture="skip_gram", shape=shape,
        seed=seed, options=other.pop("options", {}),
    )  # fmt: skip
    recipe = {"tokens_per_step": 200, "block": 8, "peak_lr": 0.05, "rule": RuleChoice(name="linear_sgd"), "weight_decay": 0.0,
              "label_smoothing": 0.0, "validate_every": steps, "keep": 1, "snapshot_every": steps}  # fmt: skip
    return Job(run=run, training=Training(steps=steps, **recipe | other), groups=Groups(fractions=[0.2, 0.3, 0.5]))


def test_the_learning_rate_falls_to_the_least_share_of_word2vec():
    settings = job(steps=100_000)
    model = SkipGram(20, 8, **settings.run.shape)
    rule = build_rule(settings.training, model, build("mle", facts(torch.ones(20).long(), width=16, steps_per_epoch=10)))
    rates = [rule.rate(step, 1) / settings.training.peak_lr for step in (1, 50_001, 100_000)]
    assert rates == pytest.approx([1.0, 0.5, 1e-4])  # word2vec.c: starting_alpha * 0.0001


def written(folder: Path, text: np.ndarray, vocabulary: Vocabulary) -> Path:
    folder.mkdir()
    for split in ("train", "valid"):
        text.astype("<u2").tofile(folder / f"{split}.bin")
    streams.write_meta(folder, {"dtype": "<u2"})
    vocabulary.write(folder / VOCABULARY)
    return folder


class Killed(Observer):
    def __init__(self, after: int) -> None:
        self.after = after

    def after_step(self, row: dict, tokens: int) -> None:
        if row["update"] == self.after:
            raise KeyboardInterrupt


def trained(
    job: Job, folder: Path, into: Path, observer: Observer | None = None, micro_batch: int = 10_000
) -> torch.Tensor:
    how = Execution(micro_batch, save_updates=4)
    train(job, b"told", skipgram, how, observer or Observer(), folder, into / "scratch", into / "out")
    return load_file(into / "out/model.safetensors")["table"]


OPTIONS = {"frage": {"minibatch": 10, "hidden": True}, "cosreg": {"gamma": 0.1}}


@pytest.mark.parametrize("name", applying("skip_gram"))
def test_a_kill_changes_nothing_to_the_bit_but_the_objective_does(tmp_path, text, vocabulary, name):
    folder = written(tmp_path / "tokens", text, vocabulary)
    told = job(name, options=OPTIONS.get(name, {}))
    with pytest.raises(UserError, match="state after step 4 is kept"):
        trained(told, folder, tmp_path / "killed", Killed(7))
    resumed, whole = trained(told, folder, tmp_path / "killed"), trained(told, folder, tmp_path / "whole")
    assert torch.equal(resumed, whole)
    assert name == "mle" or not torch.equal(whole, trained(job("mle"), folder, tmp_path / "mle"))


@pytest.mark.parametrize("name", applying("skip_gram"))
def test_micro_batches_change_nothing(tmp_path, text, vocabulary, name):
    folder, told = written(tmp_path / "tokens", text, vocabulary), job(name, steps=6, options=OPTIONS.get(name, {}))
    torch.set_default_dtype(torch.float64)
    try:
        whole, parts = (trained(told, folder, tmp_path / str(size), micro_batch=size) for size in (10_000, 24))
    finally:
        torch.set_default_dtype(torch.float32)
    torch.testing.assert_close(parts, whole, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("name", sorted(REFUSED["skip_gram"]))
def test_what_needs_a_softmax_or_adam_is_refused(tmp_path, text, vocabulary, name):
    folder = written(tmp_path / "tokens", text, vocabulary)
    expected = f"objective {declared(name).module}: its .* needs a softmax|so has the objective"
    with pytest.raises(UserError, match=expected):
        trained(job(name), folder, tmp_path)


def test_decay_is_refused(tmp_path, text, vocabulary):
    folder = written(tmp_path / "tokens", text, vocabulary)
    with pytest.raises(UserError, match="weight_decay: 0.1; .* allowed: 0.0"):
        trained(job(weight_decay=0.1), folder, tmp_path)


def topics(tokens: int) -> tuple[np.ndarray, Vocabulary, np.ndarray]:
    """A text whose words come from one of eight topics for a while, its vocabulary, and how like two words' topics are."""
    random, words, length = np.random.default_rng(7), 80, 12
    near = np.minimum((np.arange(8)[:, None] - np.arange(8)) % 8, (np.arange(8) - np.arange(8)[:, None]) % 8)
    topic = random.integers(0, 8, tokens // length).repeat(length)
    topic = (topic + random.choice((-1, 0, 1), len(topic), p=(0.2, 0.6, 0.2))) % 8  # a word may be of a topic beside
    ids = len(SPECIALS) + 8 * (random.random(len(topic)) ** 1.5 * words / 8).astype(int) + topic
    counts = np.bincount(ids, minlength=words + len(SPECIALS))
    order = np.concatenate((np.arange(4), 4 + np.argsort(-counts[4:], kind="stable")))
    place = np.argsort(order)
    pieces = (*SPECIALS, *(f"w{i}" for i in range(words)))
    likeness = -near[np.ix_((order[4:] - 4) % 8, (order[4:] - 4) % 8)]
    return place[ids], Vocabulary(pieces, counts[order], counts[order], 0), likeness


def rank_correlation(rows: np.ndarray, likeness: np.ndarray) -> float:
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    upper = np.triu_indices(len(rows), 1)
    return 100 * spearmanr((rows @ rows.T)[upper], likeness[upper]).statistic


def test_word_similarity_is_that_of_gensim(tmp_path):
    """The same text and settings, three seeds each: the means differ by less than their spread and two points."""
    text, vocabulary, likeness = topics(24_000)
    folder = written(tmp_path / "tokens", text, vocabulary)
    ours, theirs = [], []
    for seed in (1, 2, 3):
        told = job(seed=seed, steps=240, shape={"window": 4}, tokens_per_step=200, peak_lr=0.025, block=2)
        rows = trained(told, folder, tmp_path / str(seed)).numpy()[len(SPECIALS) :]
        ours.append(rank_correlation(rows, likeness))
        model = gensim.models.Word2Vec(
            [[vocabulary.tokens[word] for word in text[start : start + 9000]] for start in range(0, len(text), 9000)],
            vector_size=16, window=4, min_count=1, sg=1, negative=5, sample=0, workers=1, epochs=2, alpha=0.025, seed=seed,
        )  # fmt: skip
        theirs.append(rank_correlation(model.wv[vocabulary.tokens[len(SPECIALS) :]], likeness))
    spread = max(np.ptp(ours), np.ptp(theirs))
    assert min(theirs) > 30
    assert abs(np.mean(ours) - np.mean(theirs)) < spread + 2, (ours, theirs)
