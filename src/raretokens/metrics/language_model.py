"""The scores of a language model, from what its probe and its training left."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path

import numpy as np

from raretokens.config import Parameters
from raretokens.metrics import scores, similarity
from raretokens.metrics.all_but_top import all_but_top
from raretokens.metrics.artifacts import Artifacts
from raretokens.metrics.continuation import continuation
from raretokens.metrics.perplexity import perplexity
from raretokens.metrics.scores import Signed
from raretokens.metrics.uniq import uniq
from raretokens.subword.bpe import Encoder
from raretokens.subword.streams import tokens
from raretokens.subword.vocabulary import UNK

UNITS = {"lm": "piece", "words": "word"}  # of a token, by folder of the token files


def score(parameters: Parameters, name: str) -> None:
    """Write the files of scores.write for a language model. Raises UserError where artifacts do not fit."""
    artifacts, settings = Artifacts.read(parameters, "lm", name), parameters.lm.probe
    targets, groups, probe = tokens(artifacts.tokens, "test"), artifacts.groups, artifacts.probe
    reach = {"window": settings.window, "context": settings.context, "unit": UNITS[artifacts.run.tokens]}
    continued = np.load(probe / "continuation.npy")
    metrics: Signed = {
        "ppl": perplexity(np.load(probe / "logprob.npy"), targets, groups, **reach),
        "uniq": uniq(np.load(probe / "prediction.npy"), groups, block=settings.block),
        "continuation": continuation(continued, prefix=settings.continuation.prefix),
        **scores.geometry(artifacts),
        **_similarity(artifacts),
    }
    scores.write(parameters, artifacts, metrics)


def _similarity(artifacts: Artifacts) -> Signed:
    """Word similarity, of the pieces of a space-marked word and of a bare one; a model of words has one row a word."""
    sets = {key: similarity.read_pairs(Path(f"data/corpus/similarity/{key}.tsv")) for key in similarity.SETS}
    table, bare = artifacts.table, {}
    if artifacts.run.tokens == "words":
        pieces, form = partial(_row, {word: i for i, word in enumerate(artifacts.vocabulary.pieces)}), "whole-word"
    else:
        encoder = Encoder(artifacts.tokens)
        pieces, form = encoder.encode, "leading-space"
        bare = {"spearman_bare": similarity.word_similarity(table, sets, encoder.encode_bare, form="bare")}
    processed, how = all_but_top(table, artifacts.groups)
    value, signature = similarity.word_similarity(processed, sets, pieces, form=form)
    return {
        "spearman": similarity.word_similarity(table, sets, pieces, form=form),
        **bare,
        "coverage": similarity.coverage(sets, pieces, form=form),
        "all_but_top.spearman": (value, f"{how}|{signature}"),
    }


def _row(rows: Mapping[str, int], word: str) -> list[int]:
    return [rows.get(word, UNK)]
