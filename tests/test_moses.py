"""Rules of Moses that are tried only where they can apply give what sacremoses gives."""

import random
import re

import pytest
import regex
from sacremoses import MosesPunctNormalizer, MosesTokenizer

from raretokens.corpora import moses

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
    for text in made(800):
        for training in (True, False):
            ready = text.replace("\u2019", "'")
            if training:
                ready = regex.sub(r"\p{C}", " ", normaliser.normalize(text))
            for hyphens in (True, False):
                expected = tokeniser.tokenize(ready, aggressive_dash_splits=hyphens, return_str=True)
                assert moses.Recipe(True, hyphens).tokenise(text, language, training) == expected, text


@pytest.mark.parametrize("rule", [rule for rule, _ in MosesPunctNormalizer("de").substitutions])
def test_every_match_of_a_rule_contains_what_it_needs(rule):
    matches = [match[0] for text in made(3000) for match in re.finditer(rule, text)]
    assert all(moses.needed(rule) in match for match in matches)
