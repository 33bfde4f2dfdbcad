"""Translations beside their references, as BLEU sees them."""

import json
from pathlib import Path

from raretokens.errors import UserError
from raretokens.evaluation.artifacts import lines
from raretokens.evaluation.config import Decoding
from raretokens.evaluation.metrics import bootstrap as resampling
from raretokens.evaluation.metrics.bleu import (
    TOKENISED,
    Tokens,
    chrf,
    sacre_bleu,
    sacre_bleu_interval,
    split_tokens,
    tokenised_bleu,
)
from raretokens.evaluation.metrics.bootstrap import Replicates
from raretokens.evaluation.score_files import Signed
from raretokens.tasks.nmt.job import Texts


def bleu(texts: Texts, corpus: Path, folder: Path, ending: str, reverse: bool = False) -> Signed:
    """Both BLEUs of the files <test><ending> of a folder, as far as the corpus has that test; of `test` also chrF.

    corpus: folder of the prepared text.
    """
    side, how = _side(corpus, reverse)
    signed: Signed = {}
    for test in ("test", *texts.extra_tests):
        if test != "test" and not (corpus / f"{test}.{side}").exists():
            continue
        system, truth, suffix = paired_lines(texts.decoding, folder / f"{test}{ending}", corpus / f"{test}.{side}")
        prefix = "bleu." if test == "test" else f"bleu.{test}."
        values: Signed = {
            prefix + "tokenised": tokenised_bleu(system, truth, how),
            prefix + "sacrebleu": sacre_bleu(system, truth),
        }
        if test == "test":
            values |= {"bleu.interval": sacre_bleu_interval(system, truth), "chrf": chrf(system, truth)}
        signed |= {path: (value, signature + suffix) for path, (value, signature) in values.items()}
    return signed


def drawn_bleu(texts: Texts, corpus: Path, system: Path, reverse: bool = False) -> Replicates:
    """Both BLEUs of a file of translations of the test set, on drawn test sets."""
    side, how = _side(corpus, reverse)
    translated, truth, _ = paired_lines(texts.decoding, system, corpus / f"test.{side}")
    split = (split_tokens(text, how) for text in (translated, truth))
    return {
        "bleu.tokenised": resampling.bleu(*split, TOKENISED),
        "bleu.sacrebleu": resampling.bleu(translated, truth, {"tokenize": "13a"}),
    }


def _side(corpus: Path, reverse: bool) -> tuple[str, Tokens]:
    """Which files hold the references, and how they are cut."""
    side = "source" if reverse else "target"
    counts = json.loads((corpus / "counts.json").read_text(encoding="utf-8"))
    return side, Tokens(counts["languages"][side].split("-")[0], **counts.get("bleu", {}))  # en-ylt is English


def paired_lines(decoding: Decoding, system: Path, reference: Path) -> tuple[list[str], list[str], str]:
    """Hypotheses, as many references, and what the signature says of decoding: how, and how many if not all sentences."""
    translated, truth = lines(system), lines(reference)
    chosen, decoded = decoding.chosen(len(truth)), f"|{decoding.signature}"
    expected = [truth[number] for number in chosen]
    if system.parent == reference.parent:  # the source itself stands for a translation
        translated, decoded = [translated[number] for number in chosen], ""
    if len(translated) != len(expected):
        raise UserError(f"{system}: {len(translated)} lines; there are {len(expected)} references to score")
    return translated, expected, decoded + (f"|sentences:{len(expected)}" if len(expected) < len(truth) else "")
