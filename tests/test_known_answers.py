"""Numbers that the papers print for real texts."""

from pathlib import Path

import pytest

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
