"""Numbers that the papers print for real texts, or that another library computes from real sets."""

from pathlib import Path

import numpy as np
import pytest
from gensim.models import KeyedVectors
from gensim.test.utils import datapath

from raretokens.metrics.similarity import word_similarity
from raretokens.vocabulary import VOCABULARY, Vocabulary
from reproduction.corpora.download import fetch
from reproduction.corpora.registry import prepare
from reproduction.corpora.tokenization.encode import encode
from reproduction.corpora.tokenization.settings import EncodeJob as Job
from reproduction.corpora.tokenization.settings import WordVocabulary
from reproduction.corpora.tokenization.token_files import tokens
from reproduction.tasks.evaluation.text import corpus_in_words


def test_the_printed_statistics_of_wikitext_2(tmp_path, monkeypatch, mirror):
    """FRAGE table 5: its tokens of WikiText-2 hold the line ends, its OOV is the share of <unk> in the training text."""
    monkeypatch.chdir(tmp_path)
    fetch("wikitext-2", Path("raw/wikitext-2"), mirror)
    prepare("text", "wikitext-2", Path("raw"), Path("corpus"))
    words = WordVocabulary(model="words", size=None, tokenise=False)
    meta = encode(Job(name="words", sides=(".txt",), vocabulary=words), Path("corpus"), Path("words"))
    vocabulary = Vocabulary.read(Path("words") / VOCABULARY)
    value, _ = corpus_in_words(vocabulary, meta["splits"], tokens(Path("words"), "test"))
    assert value["with_line_ends"] == {"train": 2088628, "valid": 217646, "test": 245569}
    assert (value["train"], value["valid"], value["test"]) == (2051910, 213886, 241211)
    assert value["types"] == 33278
    assert round(value["oov"], 1) == 2.6
    assert value["oov_test"] == pytest.approx(100 * 15218 / 245569)  # counted in the file


def test_word_similarity_is_that_of_gensim():
    """WordSim-353 as gensim ships it, on random vectors in which related words lean towards each other."""
    path = datapath("wordsim353.tsv")
    rows = [line.split("\t") for line in Path(path).read_text(encoding="utf-8").splitlines() if line[0] != "#"]
    pairs = [(first, second, float(score)) for first, second, score in rows]
    words = sorted({word for pair in pairs for word in pair[:2]})
    place = {word: i for i, word in enumerate(words)}
    table = np.random.default_rng(0).normal(size=(len(words), 20)).astype(np.float32)
    for first, second, score in pairs:
        table[place[first]] += 0.03 * score * table[place[second]]
    vectors = KeyedVectors(20)
    vectors.add_vectors(words, table)
    _, theirs, unknown = vectors.evaluate_word_pairs(path, case_insensitive=False)
    assert unknown == 0
    ours = word_similarity(table, {"ws353": pairs}, lambda word: [place[word]], form="whole-word")[0]["ws353"]
    assert ours == pytest.approx(100 * theirs.statistic, abs=0.01)
    assert ours > 20
