"""Compute tokenised BLEU, as the papers report it, and sacreBLEU and chrF of detokenised text."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import regex
import sacremoses
from sacrebleu.metrics import BLEU, CHRF
from sacrebleu.metrics.base import Metric, Score

from raretokens.errors import UserError
from raretokens.languages import UNSPACED, two_letters

TOKENISED = {"tokenize": "none", "smooth_method": "none"}  # sacreBLEU options for text that is already tokenised
RESAMPLES = 1000  # bootstrap resamples, sacreBLEU's default
LETTERS = regex.compile(r"\p{L}")


@dataclass(frozen=True)
class Tokens:
    """Tokenization of plain text before BLEU. The defaults are those of WMT14.

    language: A code such as `de`, `zh_CN` or `jpn`. The rules of English apply to unknown codes.
    """

    language: str
    case: Literal["mixed", "lower"] = "mixed"
    compounds: Literal["split", "kept"] = "split"  # Vaswani et al. (2017) split them

    @property
    def sacrebleu(self) -> dict[str, str]:
        """Options of sacreBLEU, which selects its tokenizer for the language, or 13a where it has none."""
        return {"trg_lang": two_letters(self.language)}


def language_tokenizer(language: str) -> BLEU | None:
    """Return sacreBLEU's BLEU with its tokenizer for the language; None where sacreBLEU would use 13a.

    Raises:
        UserError: The tokenizer needs a package that is not installed.
    """
    try:
        metric = BLEU(trg_lang=two_letters(language))
    except RuntimeError:  # sacreBLEU's message has several lines
        package = f"sacrebleu[{two_letters(language)}]"
        raise UserError(
            f"BLEU of {language!r} needs a tokenizer that is not installed: pip install '{package}'"
        ) from None
    return None if metric.tokenizer_signature == BLEU.TOKENIZER_DEFAULT else metric


def sacre_metric(language: str) -> BLEU:
    """Return sacreBLEU's BLEU with its tokenizer for the language, or 13a where sacreBLEU has none."""
    return language_tokenizer(language) or BLEU(tokenize="13a")


def is_unsegmented(references: Sequence[str], language: str) -> bool:
    """Return whether most letters belong to scripts without blanks and BLEU has no tokenizer for the language.

    BLEU then treats whole clauses as tokens.
    """
    if language_tokenizer(language):
        return False
    letters = sum(len(LETTERS.findall(line)) for line in references)
    return sum(len(UNSPACED.findall(line)) for line in references) > letters / 2


def tokenised_bleu(hypotheses: Sequence[str], references: Sequence[str], how: Tokens) -> tuple[float, str]:
    """BLEU-4 in percent of tokenised text, with one reference and no smoothing.

    The tokenizer is Moses, or sacreBLEU's where sacreBLEU has a tokenizer for the language. The score equals multi-bleu on
    the same tokens, which the papers use. Without smoothing, a corpus with no common 4-gram scores 0.

    Args:
        hypotheses, references: Lines of plain text.
        how: Options of the tokenization.
    Raises:
        ValueError: The numbers of lines differ.
    """
    system, truth = (split_tokens(text, how) for text in (hypotheses, references))
    score = _corpus_score(BLEU(**TOKENISED, force=True), system, truth).score
    if own := language_tokenizer(how.language):
        return score, f"nrefs:1|case:{how.case}|tok:sacrebleu-{own.tokenizer_signature}|smooth:none"
    version = sacremoses.__version__
    tokens = f"case:{how.case}|tok:moses-{two_letters(how.language)}|compounds:{how.compounds}"
    return score, f"nrefs:1|{tokens}|smooth:none|sacremoses:{version}"


def sacre_bleu(hypotheses: Sequence[str], references: Sequence[str], language: str = "") -> tuple[float, str]:
    """sacreBLEU (Post 2018) in percent with its defaults (case kept, exponential smoothing) and its own signature.

    The tokenizer is sacreBLEU's for the language, or 13a where sacreBLEU has none. The signature names the tokenizer.

    Raises:
        ValueError: The numbers of lines differ.
    """
    metric = sacre_metric(language)
    return _corpus_score(metric, hypotheses, references).score, str(metric.get_signature())


def sacre_bleu_interval(hypotheses: Sequence[str], references: Sequence[str], language: str = "") -> tuple[float, str]:
    """Half the width of the 95 % bootstrap interval of sacre_bleu() (Koehn 2004), with sacreBLEU's fixed seed."""
    metric = sacre_metric(language)
    score = _corpus_score(metric, hypotheses, references, n_bootstrap=RESAMPLES)
    return float(score._ci), str(metric.get_signature())


def chrf(hypotheses: Sequence[str], references: Sequence[str]) -> tuple[float, str]:
    """chrF2 (Popovic 2015) in percent with sacreBLEU's defaults: character n-grams up to 6, recall weighted twice."""
    metric = CHRF()
    return _corpus_score(metric, hypotheses, references).score, str(metric.get_signature())


def split_tokens(text: Sequence[str], how: Tokens) -> list[str]:
    """Return the tokenised lines that tokenised_bleu() compares."""
    if metric := language_tokenizer(how.language):
        lines = map(metric.tokenizer, text)
        return [line.lower() if how.case == "lower" else line for line in lines]
    moses = sacremoses.MosesTokenizer(lang=two_letters(how.language))
    return [_tokenise(moses, line, how) for line in text]


def _tokenise(moses: sacremoses.MosesTokenizer, line: str, how: Tokens) -> str:
    # Escape (' becomes &apos;) as the Moses script does by default, so that the tokens are those that multi-bleu reads.
    # Escaping does not change the score. split_compounds() splits hyphens afterwards.
    tokens = moses.tokenize(line, escape=True, aggressive_dash_splits=False, return_str=True)
    tokens = tokens.lower() if how.case == "lower" else tokens
    return split_compounds(tokens) if how.compounds == "split" else tokens


def split_compounds(tokens: str) -> str:
    """Replace a-b by a ##AT##-##AT## b. As in the usual script, matches do not overlap, so a-b-c keeps its second hyphen."""
    return re.sub(r"(\S)-(\S)", r"\1 ##AT##-##AT## \2", tokens)


def _corpus_score(metric: Metric, hypotheses: Sequence[str], references: Sequence[str], **options: int) -> Score:
    if len(hypotheses) != len(references):
        raise ValueError(f"{len(hypotheses)} hypotheses for {len(references)} references: one line each is needed")
    return metric.corpus_score(list(hypotheses), [list(references)], **options)
