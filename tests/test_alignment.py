"""Word alignment: sil-thot through files and on a part of the pairs, and links that are right where they are known."""

import lzma
import re
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from thot.alignment import FastAlignModel, SymmetrizationHeuristic, SymmetrizedAligner
from tiny.world import lines

from raretokens.errors import UserError
from raretokens.vocabulary import EOS
from raretokens.yaml_files import read_yaml
from reproduction.corpora.tokenization import alignment
from reproduction.corpora.tokenization.alignment import SentencePairs, count_links, find_links, train
from reproduction.corpora.tokenization.settings import AlignJob
from reproduction.corpora.tokenization.token_files import Bitext, write_meta

ROOT = Path(__file__).parents[1]
GOLD = "word-alignment-deen"  # 508 sentence pairs of Europarl, German to English (Vilar et al. 2006)
FIRST = 10  # id of the first token type


@pytest.fixture
def encoded(tmp_path):
    """Write pairs of sentences, each a list of words or of ids, as a token file; return them as they are aligned."""

    def write(pairs):
        ids = defaultdict(lambda: len(ids) + FIRST)
        flat = [
            number
            for pair in pairs
            for side in pair
            for number in (*(word if isinstance(word, int) else ids[word] for word in side), EOS)
        ]
        np.array(flat, "<u2").tofile(tmp_path / "train.bin")
        write_meta(tmp_path, {"vocabulary": max(flat) + 1, "dtype": "<u2"})
        return SentencePairs(Bitext(tmp_path, "train"), max(flat) + 1)

    return write


def random_pairs(count, seed, longest=30, types=40):
    """Sentences without meaning, in which types recur: links of the same strength on both sides of the diagonal."""
    random = np.random.default_rng(seed)
    weights = 1.0 / np.arange(1, types + 1)
    sides = random.integers(1, longest, (count, 2))
    return [
        [(FIRST + random.choice(types, length, p=weights / weights.sum())).tolist() for length in pair]
        for pair in sides
    ]


def links_of(pairs, tmp_path, most=None):
    """Links of each usable pair, (source, target) from 0."""
    batches = find_links(pairs, train(pairs, pairs.numbers(most), tmp_path))
    return [list(zip(*where.tolist(), strict=True)) for batch in batches for _, where in batch]


def links_in_memory(training, pairs):
    """The same by the library alone, sentences given one by one."""
    models = FastAlignModel(), FastAlignModel()
    for model, order in zip(models, (1, -1), strict=True):
        model.variational_bayes = True
        for pair in training:
            model.add_sentence_pair(*pair[::order])
        model.start_training()
        for _ in range(5):
            model.train()
        model.end_training()
    aligner = SymmetrizedAligner(*models)
    aligner.heuristic = SymmetrizationHeuristic.GROW_DIAG_FINAL_AND
    found = [aligner.get_best_alignment(*pair)[1].to_numpy() for pair in pairs]
    return [list(zip(*np.stack(np.nonzero(matrix)).tolist(), strict=True)) for matrix in found]


@pytest.mark.parametrize("most", [None, 100])
def test_links_are_those_of_the_library(encoded, tmp_path, monkeypatch, most):
    monkeypatch.setattr(alignment, "BATCH", 70)
    pairs = encoded(random_pairs(400, 1))
    words = [pairs.words(number) for number in range(400)]
    training = words if most is None else words[:: 400 // most]
    assert links_of(pairs, tmp_path, most) == links_in_memory(training, words)


def test_words_are_linked_to_their_translations(encoded, tmp_path):
    pairs = [[s.split(), t.split()] for s, t in zip(*lines(500, 3), strict=True)]
    found = links_of(encoded(pairs), tmp_path)
    right = [source[i][::-1] == target[j] for (source, target), pair in zip(pairs, found, strict=True) for i, j in pair]
    assert sum(right) / len(right) > 0.95


def test_links_are_counted_by_type(encoded, tmp_path):
    declared = random_pairs(300, 4)
    pairs = encoded(declared)
    counts = count_links(pairs, pairs.numbers(), tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["meta.json", "train.bin"]  # the copy as text is gone
    expected = np.zeros((pairs.vocabulary, pairs.vocabulary), int)
    for (source, target), found in zip(declared, links_of(pairs, tmp_path), strict=True):
        for i, j in found:
            expected[source[i], target[j]] += 1
    assert counts.dtype == np.int64 and (counts.toarray() == expected).all()
    assert counts.has_canonical_format


@pytest.mark.parametrize("most, expected", [(4, [0, 2, 5, 7]), *((n, list(range(10))) for n in (10, 99, None))])
def test_training_pairs_are_evenly_spaced(encoded, most, expected):
    assert encoded([[[n], [n + 100]] for n in range(10, 20)]).numbers(most).tolist() == expected


def test_a_very_long_pair_and_empty_sides_are_left_out(encoded, tmp_path, capsys):
    short = random_pairs(100, 2)
    alone = links_of(encoded(short), tmp_path)
    longest = [[FIRST] * alignment.LONGEST, [FIRST + 1]]
    pairs = encoded(
        [*short[:50], [[FIRST] * 1_000_000, [FIRST, 49]], [[], [FIRST]], [[FIRST], []], [[], []], *short[50:]]
    )
    assert (pairs.usable.sum(), pairs.long, pairs.empty) == (100, 1, 3)
    assert links_of(pairs, tmp_path) == alone
    alignment.align(AlignJob(), tmp_path, tmp_path / "aligned")
    assert capsys.readouterr().out.endswith(
        "in 100 pairs; left out: 3 with an empty side, 1 longer than 1,024 tokens\n"
    )
    pairs = encoded([longest])
    assert (pairs.usable.sum(), pairs.long) == (1, 0)


def test_without_pairs_there_are_no_links(encoded, tmp_path):
    pairs = encoded([[[], [FIRST]]])
    assert count_links(pairs, pairs.numbers(), tmp_path).nnz == 0


def test_progress_is_reported(encoded, tmp_path, capsys):
    links_of(encoded(random_pairs(30, 1)), tmp_path)
    reported = capsys.readouterr().out.splitlines()
    assert reported[0] == "align  direction 1 of 2, iteration 1 of 5"
    assert reported[-2:] == ["align  direction 2 of 2, iteration 5 of 5", "align  links  100%"]


def test_a_text_that_does_not_fit_is_refused_with_what_to_change(encoded, tmp_path, monkeypatch):
    pairs = encoded(random_pairs(20, 1))
    monkeypatch.setattr(alignment.psutil, "virtual_memory", lambda: type("", (), {"available": 100.0}))
    with pytest.raises(UserError, match=r"alignments\.<name>\.max_pairs"):
        count_links(pairs, pairs.numbers(), tmp_path)


def test_training_at_the_paper_s_scale_fits_16_GB():
    """4.5 million pairs have 250 million tokens."""
    pairs = read_yaml(ROOT / "scales/paper/params.yaml")["alignments"]["nmt"]["max_pairs"]
    assert alignment.expected_memory(pairs, 56 * pairs, 40_624) < 16e9


@pytest.mark.parametrize(
    "pairs, tokens, types, cooccurrences",
    [
        (28_038, 1_839_346, 3_787, 2_714_087),  # two Bibles
        (10_000, 458_765, 17_781, 2_683_611),  # German-English, 37,000 merges
        (68_721, 3_150_206, 23_992, 11_655_885),
        (68_721, 4_612_203, 3_361, 4_846_304),  # 4,000 merges
        (300_000, 27_187_769, 28_729, 91_056_139),  # generated, 37,000 merges
    ],
)
def test_cooccurrences_are_estimated_from_the_size_of_a_text(pairs, tokens, types, cooccurrences):
    assert 0.8 < alignment.expected_cooccurrences(pairs, tokens, types) / cooccurrences < 1.25


def read(path):
    return lzma.open(path, "rt", encoding="utf-8").read().splitlines()


def links_by_hand(mirror, mark):
    """Links of each line of i-j pairs, which count from 1; possible links have a p in the place of the hyphen."""
    lines = read(mirror / GOLD / "gold.talp.xz")
    return [{tuple(int(i) - 1 for i in w.split(mark)) for w in line.split() if mark in w} for line in lines]


def error_rate(found, sure, possible):
    """AER in percent over all sentence pairs (Och and Ney 2003), links counted together; every sure link is possible too."""
    links = right = 0
    for ours, must, may in zip(found, sure, possible, strict=True):
        links, right = links + len(ours) + len(must), right + len(ours & must) + len(ours & (may | must))
    return 100 * (1 - right / links)


def europarl(mirror, count):
    names = [f"wmt-train-samples/europarl-v7.first20k.{side}.xz" for side in ("de", "en")]
    sides = [[re.findall(r"\w+|[^\w\s]", line.lower()) for line in read(mirror / name)[:count]] for name in names]
    return [pair for pair in zip(*sides, strict=True) if all(pair)]


def test_our_links_of_the_gold_sentences(mirror, encoded, tmp_path):
    """2,000 training pairs in the place of the 1.9 million behind the published 27.7: worse, but far from chance."""
    test = [[line.split() for line in read(mirror / GOLD / f"test.{side}.xz")] for side in ("de", "en")]
    pairs = list(zip(*test, strict=True))
    found = links_of(encoded([*europarl(mirror, 2000), *pairs]), tmp_path)[-len(pairs) :]
    gold = [links_by_hand(mirror, mark) for mark in "-p"]
    ours = error_rate(map(set, found), *gold)
    diagonal = [{(i, round(i * (len(t) - 1) / max(len(s) - 1, 1))) for i in range(len(s))} for s, t in pairs]
    assert 35 < ours < 46
    assert ours < error_rate(diagonal, *gold) - 15
