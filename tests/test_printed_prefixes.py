"""The prefixes of AGG's table 14 are found by their first words, in any pieces; other texts have none."""

import lzma

import numpy as np

from raretokens.metrics.predictions import paper_prefix_uniq
from raretokens.vocabulary import EOS, SPECIALS
from reproduction.tasks.evaluation.paper_prefixes import find_paper_prefixes

PIECES = [*SPECIALS, *["▁A", "▁Com", "pany", ",", "▁2", "nd", "▁Amos", "▁was", "▁born", "▁by"]]
IDS = {piece: i for i, piece in enumerate(PIECES)}


def text(*lines: str) -> np.ndarray:
    return np.array([i for line in lines for i in (*map(IDS.__getitem__, line.split()), EOS)], dtype="<u2")


def test_a_prefix_begins_a_line_in_whatever_pieces():
    amos, company = "\u2581Amos \u2581was \u2581born \u2581by", "\u2581A \u2581Com pany , \u25812 nd \u2581by"
    found = find_paper_prefixes(text("\u2581by", amos, "", company), PIECES, 3)
    assert found == {1: 8, 4: 2}
    assert find_paper_prefixes(text("\u2581by", amos, "", company), PIECES, 9) == {4: 2}  # too little follows the other
    assert find_paper_prefixes(text(f"\u2581by {amos}", "\u2581by"), PIECES, 3) == {}  # inside a line
    value, signature = paper_prefix_uniq(np.array([[5, 5, 6], [7, 7, 7]]), found, prefix=2)
    assert (value, signature) == ({"1": 2, "4": 1}, "of:greedy|prefix:2|length:3|prefixes:printed|split:test")


def test_the_test_text_of_wikitext_has_all_four(mirror):
    with lzma.open(mirror / "wikitext-103/wiki.test.tokens.xz", "rt", encoding="utf-8") as file:
        lines = file.read().split("\n")
    words = sorted({word for line in lines for word in line.split()})
    ids = {word: i for i, word in enumerate([*SPECIALS, *words])}
    stream = np.array([i for line in lines for i in (*(ids[word] for word in line.split()), EOS)])
    found = find_paper_prefixes(stream, [*SPECIALS, *words], 150)
    assert list(found) == [1, 2, 3, 4]
