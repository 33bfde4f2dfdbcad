"""Sentences are tokenised as by sacremoses, whatever the number of processes."""

import random

import pytest
import regex
from sacremoses import MosesPunctNormalizer, MosesTokenizer

from reproduction.corpora import moses

CHARACTERS = "aAbZ 09 .,,'\"`-()[]<>&|;:?!%#\u00a0«»„“”–—´‘’‚…º\r\t\x00\x1c\u2028\u200b äßÉ漢1２ "
WORDS = ["Mr.", "No.", "z.B.", "DOTMULTI", "...", "'s", "n't", "U.S.", "12,5", "3.", "nº\u00a0", "\u00a0ºC", "\u00a0cm", "Nr.",
         "u.a.", " % ", "ca.", ". ", ".'", ",\"", "\u00a0%", "\u00a0?"]  # fmt: skip


def made(count: int) -> list[str]:
    chosen = random.Random(0)
    parts = [*CHARACTERS * 4, *WORDS * 3]
    return ["".join(chosen.choices(parts, k=chosen.randrange(1, 30))) for _ in range(count)]


@pytest.mark.parametrize("language", ["en", "de", "fr"])
def test_sentences_are_those_of_the_library(language):
    normaliser, tokeniser = MosesPunctNormalizer(language, perl_parity=True), MosesTokenizer(language)
    for text in made(100):
        for training in (True, False):
            ready = text.replace("\u2019", "'")
            if training:
                ready = regex.sub(r"\p{C}", " ", normaliser.normalize(text))
            for hyphens in (True, False):
                expected = tokeniser.tokenize(ready, aggressive_dash_splits=hyphens, return_str=True)
                assert moses.Recipe(True, hyphens).tokenise(text, language, training) == expected, text


def test_several_processes_give_the_same_pairs_in_order(monkeypatch):
    monkeypatch.setattr(moses, "BLOCK", 7)
    pairs = list(zip(made(50), made(60)[10:], strict=True))
    one, two = (list(moses.tokenise_pairs(pairs, ("en", "de"), moses.Recipe(True, True), True, n)) for n in (1, 2))
    assert one == two and len(one) == len(pairs)
