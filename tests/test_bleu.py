"""BLEU and chrF: known answers, multi-bleu written out, and the tokenizer of each language."""

import math
import re
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import sacremoses
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics import BLEU

from raretokens.errors import UserError
from raretokens.metrics import bootstrap
from reproduction.pipeline.parameters_file import load
from reproduction.tasks.evaluation import bleu
from reproduction.tasks.evaluation.bleu import (
    Tokens,
    chrf,
    is_unsegmented,
    sacre_bleu,
    sacre_bleu_interval,
    split_compounds,
    tokenised_bleu,
)

ROOT = Path(__file__).parents[1]


def naive_bleu(hypotheses, references):
    """BLEU as multi-bleu has it: clipped counts over the corpus, geometric mean of four precisions, brevity penalty."""
    same, total, lengths = [0] * 4, [0] * 4, [0, 0]
    for hypothesis, reference in zip(hypotheses, references, strict=True):
        h, r = hypothesis.split(), reference.split()
        lengths = [lengths[0] + len(h), lengths[1] + len(r)]
        for n in range(4):
            grams_h, grams_r = (Counter(tuple(t[i : i + n + 1]) for i in range(len(t) - n)) for t in (h, r))
            total[n] += sum(grams_h.values())
            same[n] += sum(min(count, grams_r[gram]) for gram, count in grams_h.items())
    if 0 in same:
        return 0.0
    brevity = min(0.0, 1 - lengths[1] / lengths[0])
    return 100 * math.exp(brevity + sum(math.log(s / t) for s, t in zip(same, total, strict=True)) / 4)


WORDS = st.sampled_from(["well-known", "a", "the", "don't", "X-ray", "(so)", "U.S.", "far", "1,000", '"God"'])
LINES = st.lists(WORDS, min_size=1, max_size=12).map(" ".join)


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(LINES, LINES), min_size=1, max_size=6), st.booleans())
def test_tokenised_bleu_is_multi_bleu_of_compound_split_moses_tokens(pairs, escape):
    hypotheses, references = zip(*((h + " . ", h + " " + r + ".") for h, r in pairs), strict=True)
    moses = sacremoses.MosesTokenizer(lang="en")
    tokens = [
        [split_compounds(moses.tokenize(line, escape=escape, return_str=True)) for line in text]
        for text in (hypotheses, references)
    ]
    value = tokenised_bleu(hypotheses, references, Tokens("en"))[0]
    assert value == pytest.approx(naive_bleu(*tokens), abs=1e-9)  # with and without escaping


def test_bleu_known_answers():
    same = ["The well-known cat, in 1,000 words, isn't here.", "A b c d e-f g."]
    value, signature = tokenised_bleu(same, same, Tokens("en"))
    assert value == pytest.approx(100)
    assert signature.startswith("nrefs:1|case:mixed|tok:moses-en|compounds:split|smooth:none")
    assert (
        split_compounds("a state-of-the-art x - y")
        == "a state ##AT##-##AT## of ##AT##-##AT## the ##AT##-##AT## art x - y"
    )
    assert (
        tokenised_bleu(["the the the the the the the"], ["the cat is on the mat"], Tokens("en"))[0] == 0.0
    )  # no smoothing
    assert tokenised_bleu(["A B C D E"], ["a b c d e"], Tokens("en"))[0] == 0.0  # case counts
    lower = tokenised_bleu(["A-B C D E F"], ["a-b c d e f"], Tokens("en", case="lower", compounds="kept"))
    assert lower[0] == pytest.approx(100) and lower[1].startswith("nrefs:1|case:lower|tok:moses-en|compounds:kept|")
    halved = tokenised_bleu(["a-b c d e f"], ["a-x c d e f"], Tokens("en", compounds="kept"))[0]
    assert halved == pytest.approx(100 * (4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** 0.25)  # a compound is one token
    value, signature = sacre_bleu(["the cat is on the mat"], ["The cat is on the mat"])
    assert 0 < value < 100
    assert signature.startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:")
    with pytest.raises(ValueError, match="1 hypotheses for 2 references"):
        sacre_bleu(["a"], same)


def test_chrf_by_hand():
    assert chrf(["a cat"], ["a cat"])[0] == pytest.approx(100)
    # "abcd" against "abce", orders 1 to 4: 3/4, 2/3, 1/2, 0 of the n-grams on both sides, so F is their mean
    value, signature = chrf(["abcd"], ["abce"])
    assert value == pytest.approx(100 * (3 / 4 + 2 / 3 + 1 / 2 + 0) / 4)
    assert signature.startswith("nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:")


@pytest.mark.parametrize(
    ("code", "others"),
    {"fr": ("FR", "fr_FR", "fr-CA", "fra", "fre"), "en": ("EN", "en_US", "eng"), "de": ("DEU", "ger_AT"), "xx": ("XX",)}.items(),
)
def test_codes_of_one_language_give_one_score(code, others):
    truth = ["l'homme n'a pas vu l'eau d'aujourd'hui .", "Mr. Dupont's dog et Mme. Durand l'ont dit, p. ex. hier."]
    system = ["l'homme n'a pas bu l'eau d'aujourd'hui .", "Mr. Dupont's cat et Mme. Martin l'ont dit, p. ex. hier."]
    right = tokenised_bleu(system, truth, Tokens(code))
    assert f"tok:moses-{code}|" in right[1]
    assert [tokenised_bleu(system, truth, Tokens(other)) for other in others] == [right] * len(others)


@pytest.mark.parametrize("language", ["zh", "zh-CN", "ZH_tw", "cmn", "zho"])
def test_bleu_uses_the_tokenizer_that_sacrebleu_has_for_the_language(language):
    system, truth = ["我喜欢吃苹果，可是不喜欢香蕉。"], ["我喜欢吃苹果，但是不喜欢香蕉。"]
    expected = BLEU(tokenize="zh").corpus_score(system, [truth]).score
    value, signature = sacre_bleu(system, truth, language)
    assert value == expected > 50 and "|tok:zh|" in signature
    value, signature = tokenised_bleu(system, truth, Tokens(language))
    assert value == pytest.approx(expected) and "|tok:sacrebleu-zh|" in signature
    assert "|tok:zh|" in sacre_bleu_interval(system, truth, language)[1]
    assert bootstrap.bleu(system, truth, Tokens(language).sacrebleu) == pytest.approx(np.full(400, expected))
    assert not is_unsegmented(truth, language) and is_unsegmented(truth, "own")


@pytest.mark.parametrize("language", ["en", "de", "en-ylt", "own", "th", ""])
def test_bleu_of_other_languages_is_that_of_13a(language):
    system, truth = ["a b, c d e.", "x y z w"], ["a b, c d f.", "x y z w"]
    assert sacre_bleu(system, truth, language) == sacre_bleu(system, truth)
    assert sacre_bleu_interval(system, truth, language) == sacre_bleu_interval(system, truth)
    expected = bootstrap.bleu(system, truth, {"tokenize": "13a"})
    assert (bootstrap.bleu(system, truth, Tokens(language).sacrebleu) == expected).all()
    assert not is_unsegmented(truth, language) and is_unsegmented(["ภาษาไทยไม่มีช่องว่าง"], language)


@pytest.mark.parametrize("language", ["ja", "kor", "ko-KR"])
def test_a_language_whose_tokenizer_is_not_installed_is_refused(language, monkeypatch):
    for package in ("MeCab", "mecab_ko"):
        monkeypatch.setitem(sys.modules, package, None)
    for name in ("ja", "ko"):
        monkeypatch.delitem(sys.modules, f"sacrebleu.tokenizers.tokenizer_{name}_mecab", raising=False)
    with pytest.raises(UserError, match=f"BLEU of {language!r} .*: pip install 'sacrebleu.{language[:2]}.'$"):
        sacre_bleu(["a"], ["a"], language)


def test_it_is_refused_before_any_work(tmp_path, monkeypatch):
    monkeypatch.setattr(bleu, "BLEU", lambda trg_lang: exec("raise RuntimeError('several\\nlines')"))
    text = (ROOT / "params.yaml").read_text(encoding="utf-8")
    declared = "    task: nmt\n    corpus: own\n    languages: {source: ko, target: ja}\n"
    (tmp_path / "params.yaml").write_text(re.sub(r" +task: nmt\n +corpus: bible\n", declared, text))
    with pytest.raises(UserError) as error:
        load(tmp_path / "params.yaml")
    expected = [
        f"{tmp_path}/params.yaml: corpora.nmt.languages.{side}: BLEU of '{language}' needs a tokenizer that is not "
        f"installed: pip install 'sacrebleu[{language}]'"
        for side, language in (("source", "ko"), ("target", "ja"))  # a run of the demo translates back
    ]
    assert str(error.value).split("\n") == expected
