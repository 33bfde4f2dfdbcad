"""BLEU of tokens, as the papers report it, and sacreBLEU and chrF of detokenised text."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import sacremoses
from sacrebleu.metrics import BLEU, CHRF

TOKENISED = {"tokenize": "none", "smooth_method": "none"}  # settings of sacreBLEU for text that is tokenised already
RESAMPLES = 1000  # of a bootstrap, sacreBLEU's default


@dataclass(frozen=True)
class Tokens:
    """How plain text is cut before its BLEU: as of WMT14, unless its corpus says otherwise."""

    language: str
    case: Literal["mixed", "lower"] = "mixed"
    compounds: Literal["split", "kept"] = "split"  # Vaswani et al. (2017) split them


def tokenised_bleu(hypotheses: Sequence[str], references: Sequence[str], how: Tokens) -> tuple[float, str]:
    """BLEU-4 in percent of Moses-tokenised text: one reference, no smoothing.

    Equal to multi-bleu on the same tokens, as the papers use it. hypotheses and references are plain text, line by line.
    Raises ValueError when their numbers differ. A corpus without a single common 4-gram scores 0, as there is no smoothing.
    """
    _same_length(hypotheses, references)
    metric = BLEU(**TOKENISED, force=True)
    system, truth = (split_tokens(text, how) for text in (hypotheses, references))
    score = metric.corpus_score(system, [truth]).score
    version = sacremoses.__version__
    tokens = f"case:{how.case}|tok:moses-{how.language}|compounds:{how.compounds}"
    return score, f"nrefs:1|{tokens}|smooth:none|sacremoses:{version}"


def sacre_bleu(hypotheses: Sequence[str], references: Sequence[str]) -> tuple[float, str]:
    """sacreBLEU (Post 2018) in percent with its defaults (13a, case kept, exponential smoothing) and its own signature.

    Raises ValueError when the numbers of lines differ.
    """
    _same_length(hypotheses, references)
    metric = BLEU(tokenize="13a")
    return metric.corpus_score(list(hypotheses), [list(references)]).score, str(metric.get_signature())


def sacre_bleu_interval(hypotheses: Sequence[str], references: Sequence[str]) -> tuple[float, str]:
    """Half the width of the 95 % interval of sacre_bleu over resampled test sets (Koehn 2004), sacreBLEU's fixed seed."""
    _same_length(hypotheses, references)
    metric = BLEU(tokenize="13a")
    score = metric.corpus_score(list(hypotheses), [list(references)], n_bootstrap=RESAMPLES)
    return float(score._ci), str(metric.get_signature())


def chrf(hypotheses: Sequence[str], references: Sequence[str]) -> tuple[float, str]:
    """chrF2 (Popovic 2015) in percent with sacreBLEU's defaults: character n-grams up to 6, recall twice as heavy."""
    _same_length(hypotheses, references)
    metric = CHRF()
    return metric.corpus_score(list(hypotheses), [list(references)]).score, str(metric.get_signature())


def split_tokens(text: Sequence[str], how: Tokens) -> list[str]:
    """Lines as tokenised_bleu compares them."""
    moses = sacremoses.MosesTokenizer(lang=how.language)
    return [_tokenise(moses, line, how) for line in text]


def _tokenise(moses: sacremoses.MosesTokenizer, line: str, how: Tokens) -> str:
    # Escaped (' becomes &apos;) as the Moses script does by itself, so that these are the tokens multi-bleu was given;
    # escaping changes tokens one by one, hence not the score. Hyphens stay inside tokens here and are split below.
    tokens = moses.tokenize(line, escape=True, aggressive_dash_splits=False, return_str=True)
    tokens = tokens.lower() if how.case == "lower" else tokens
    return split_compounds(tokens) if how.compounds == "split" else tokens


def split_compounds(tokens: str) -> str:
    """a-b becomes a ##AT##-##AT## b. As in the usual script, matches do not overlap: a-b-c keeps its second hyphen."""
    return re.sub(r"(\S)-(\S)", r"\1 ##AT##-##AT## \2", tokens)


def _same_length(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    if len(hypotheses) != len(references):
        raise ValueError(f"{len(hypotheses)} hypotheses for {len(references)} references: one line each is needed")
