"""Skip-gram with negative sampling: its pairs, its draws and its loss, each against the formula written out."""

from collections import Counter

import numpy as np
import pytest
import torch

from raretokens.errors import UserError
from raretokens.loss.facts import facts
from raretokens.loss.negative_sampling import negative_sampling
from raretokens.models.skip_gram import SkipGram
from raretokens.objectives.building import build
from raretokens.subword.vocabulary import EOS, PAD, SPECIALS, UNK, Vocabulary
from raretokens.training.windows import Windows, kept_share, negative_distribution

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
    cut = {"block": 7, "window": 3, "drawn": 5, "subsample": 0.01, "tokens_per_update": 100, "seed": 4}
    return Windows(text, vocabulary, **{**cut, **other})


def test_negatives_are_drawn_as_the_counts_to_the_power_three_quarters(text, vocabulary):
    expected = np.zeros(len(vocabulary))
    for word in range(len(SPECIALS), vocabulary.types):
        expected[word] = vocabulary.counts[word] ** 0.75
    expected /= expected.sum()
    np.testing.assert_allclose(negative_distribution(vocabulary), expected, rtol=1e-12)
    cut = windows(text, vocabulary, drawn=400)
    drawn = np.concatenate([cut._drawn(number).negatives.ravel() for number in range(40)])
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
    number = cut.update(2)
    words = [int(word) for word in text[200:300] if word not in (EOS, UNK)]
    expected = Counter(pair for one, other in zip(words, words[1:], strict=False) for pair in ((one, other), (other, one)))
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
    cut = windows(text, vocabulary, subsample=0.0, tokens_per_update=3000)
    number = cut.update(0)
    assert pairs_of(cut, number) == pairs_of(cut, number, tokens=7)
    drawn = cut._drawn(0)
    blocks, places, others = np.nonzero(drawn.pairs)
    distances = np.bincount(np.abs(others - 3 - places))
    assert distances[0] == 0 and len(distances) == 4
    # A word at distance k is a pair if its reach is k or more: 3, 2 and 1 of 3 reaches.
    np.testing.assert_allclose(distances[1:] / distances[1], [1, 2 / 3, 1 / 3], atol=0.05)
    assert len(blocks) > 0
    again = windows(text, vocabulary, subsample=0.0, tokens_per_update=3000)
    assert pairs_of(again, number) == pairs_of(cut, number)


def test_loss_and_gradients_are_those_of_a_loop_over_pairs(text, vocabulary):
    torch.manual_seed(0)
    model = SkipGram(len(vocabulary), 7, width=6, window=3, negatives=4, drawn=5, subsample=0.01).double()
    with torch.no_grad():
        model.table.normal_()
        model.outputs.normal_()
    table, outputs = (weight.detach().clone().requires_grad_() for weight in (model.table, model.outputs))
    cut = windows(text, vocabulary)
    (batch,) = cut.cut(cut.update(3), 1000)
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
    for weight, reference in ((model.table, table), (model.outputs, outputs)):
        assert weight.grad.is_sparse
        torch.testing.assert_close(weight.grad.to_dense(), reference.grad, rtol=1e-10, atol=1e-12)


def test_minibatch_of_frage_is_drawn_once_an_update_and_moves_only_its_rows():
    counts = torch.arange(50, 0, -1)
    objective = build("frage", facts(counts, width=4, updates_per_epoch=1, pad=49), minibatch=9, hidden=True, popular=0.2).double()
    table = torch.randn(50, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    seen = []
    for _ in range(2):
        objective.begin_update(counts)
        fixed = {name: value.detach().clone() for name, value in objective.discriminator.named_parameters()}
        objective.penalty(table).backward()
        assert table.grad.is_sparse
        rows, popular, rare = objective._drawn(table.detach())
        assert (int(popular.sum()), int(rare.sum())) == (4, 5)
        drawn = [int((table.detach() == row).all(1).nonzero()) for row in rows]
        assert all(id < 10 for id in drawn[:4]) and all(id >= 10 for id in drawn[4:])
        assert set(table.grad.coalesce().indices()[0].tolist()) == set(drawn)
        with torch.no_grad():
            p = torch.sigmoid(torch.func.functional_call(objective.discriminator, fixed, (table[drawn],)).squeeze(1))
            expected = -(torch.log(p[:4]).mean() + torch.log(1 - p[4:]).mean()) / 2
        assert objective.penalty(table).item() == pytest.approx(-0.1 * expected.item(), rel=1e-12)
        table.grad = None
        objective.end_update(table)
        assert any(not torch.equal(value, fixed[name]) for name, value in objective.discriminator.named_parameters())
        seen.append(drawn)
    assert seen[0] != seen[1]
