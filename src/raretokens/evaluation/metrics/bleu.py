"""BLEU of tokens, as the papers report it, and sacreBLEU and chrF of detokenised text."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import regex
import sacremoses
from sacrebleu.metrics import BLEU, CHRF

from raretokens.errors import UserError

TOKENISED = {"tokenize": "none", "smooth_method": "none"}  # settings of sacreBLEU for text that is tokenised already
RESAMPLES = 1000  # of a bootstrap, sacreBLEU's default
# Three-letter codes (ISO 639) of the languages for which sacreBLEU has a tokenizer; it knows the two letters alone.
TWO_LETTERS = {"zho": "zh", "chi": "zh", "cmn": "zh", "jpn": "ja", "kor": "ko"}
LETTERS = regex.compile(r"\p{L}")
# Letters of scripts that put no blanks between words. Hangul has blanks.
UNSPACED = regex.compile(
    r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Tibetan}&&\p{L}]", regex.V1
)


@dataclass(frozen=True)
class Tokens:
    """How plain text is cut before its BLEU: as of WMT14, unless its corpus says otherwise.

    language: a code such as `de`, `zh-CN` or `jpn`; of a name that is no known code the rules of English apply.
    """

    language: str
    case: Literal["mixed", "lower"] = "mixed"
    compounds: Literal["split", "kept"] = "split"  # Vaswani et al. (2017) split them

    @property
    def sacrebleu(self) -> dict[str, str]:
        """Settings of sacreBLEU, which has tokenizers of its own for some languages, and 13a for all others."""
        return {"trg_lang": two_letters(self.language)}


def two_letters(language: str) -> str:
    """Return the code of a language without its region, in two letters where sacreBLEU has a tokenizer for it."""
    code = re.split("[-_]", language.lower())[0]
    return TWO_LETTERS.get(code, code)


def language_tokenizer(language: str) -> BLEU | None:
    """Return sacreBLEU with its tokenizer for the language; None where it has none but 13a.

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


def is_unsegmented(references: Sequence[str], language: str) -> bool:
    """Return whether BLEU takes whole clauses for tokens: most letters are of scripts without blanks between words."""
    if language_tokenizer(language):
        return False
    letters = sum(len(LETTERS.findall(line)) for line in references)
    return sum(len(UNSPACED.findall(line)) for line in references) > letters / 2


def tokenised_bleu(hypotheses: Sequence[str], references: Sequence[str], how: Tokens) -> tuple[float, str]:
    """BLEU-4 in percent of tokenised text: one reference, no smoothing.

    The tokens are Moses', or sacreBLEU's where it has a tokenizer for the language. Equal to multi-bleu on the same tokens,
    as the papers use it. hypotheses and references are plain text, line by line. A corpus without a single common 4-gram
    scores 0, as there is no smoothing.

    Raises:
        ValueError: The numbers of lines differ.
    """
    _same_length(hypotheses, references)
    metric = BLEU(**TOKENISED, force=True)
    system, truth = (split_tokens(text, how) for text in (hypotheses, references))
    score = metric.corpus_score(system, [truth]).score
    if own := language_tokenizer(how.language):
        return score, f"nrefs:1|case:{how.case}|tok:sacrebleu-{own.tokenizer_signature}|smooth:none"
    version = sacremoses.__version__
    tokens = f"case:{how.case}|tok:moses-{how.language}|compounds:{how.compounds}"
    return score, f"nrefs:1|{tokens}|smooth:none|sacremoses:{version}"


def sacre_bleu(hypotheses: Sequence[str], references: Sequence[str], language: str = "") -> tuple[float, str]:
    """sacreBLEU (Post 2018) in percent with its defaults (case kept, exponential smoothing) and its own signature.

    The tokenizer is sacreBLEU's for the language, 13a where it has none of its own; the signature names it.

    Raises:
        ValueError: The numbers of lines differ.
    """
    _same_length(hypotheses, references)
    metric = language_tokenizer(language) or BLEU(tokenize="13a")
    return metric.corpus_score(list(hypotheses), [list(references)]).score, str(metric.get_signature())


def sacre_bleu_interval(hypotheses: Sequence[str], references: Sequence[str], language: str = "") -> tuple[float, str]:
    """Half the width of the 95 % interval of sacre_bleu over resampled test sets (Koehn 2004), sacreBLEU's fixed seed."""
    _same_length(hypotheses, references)
    metric = language_tokenizer(language) or BLEU(tokenize="13a")
    score = metric.corpus_score(list(hypotheses), [list(references)], n_bootstrap=RESAMPLES)
    return float(score._ci), str(metric.get_signature())


def chrf(hypotheses: Sequence[str], references: Sequence[str]) -> tuple[float, str]:
    """chrF2 (Popovic 2015) in percent with sacreBLEU's defaults: character n-grams up to 6, recall twice as heavy."""
    _same_length(hypotheses, references)
    metric = CHRF()
    return metric.corpus_score(list(hypotheses), [list(references)]).score, str(metric.get_signature())


def split_tokens(text: Sequence[str], how: Tokens) -> list[str]:
    """Lines as tokenised_bleu compares them."""
    if metric := language_tokenizer(how.language):
        lines = map(metric.tokenizer, text)
        return [line.lower() if how.case == "lower" else line for line in lines]
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
