"""What language models are scored by, from what their probe and their training left."""

from collections.abc import Mapping
from functools import partial

import numpy as np

from raretokens.metrics import similarity
from raretokens.metrics.all_but_top import all_but_top
from raretokens.metrics.continuation import continuation
from raretokens.metrics.perplexity import perplexity
from raretokens.metrics.uniq import uniq
from raretokens.scoring.artifacts import Artifacts
from raretokens.scoring.geometry import geometry
from raretokens.scoring.layout import Signed
from raretokens.subword.encoder import Encoder
from raretokens.subword.streams import tokens
from raretokens.subword.vocabulary import UNK
from raretokens.tasks.lm.job import Score


def metrics(job: Score, artifacts: Artifacts) -> Signed:
    """Raises UserError where artifacts do not fit."""
    settings, places, groups = job.probe, artifacts.places, artifacts.groups
    targets, probe = tokens(places.tokens, "test"), places.output
    reach = {"window": settings.window, "context": settings.context, "unit": job.unit}
    continued = np.load(probe / "continuation.npy")
    return {
        "ppl": perplexity(np.load(probe / "logprob.npy"), targets, groups, **reach),
        "uniq": uniq(np.load(probe / "prediction.npy"), groups, block=settings.block),
        "continuation": continuation(continued, prefix=settings.continuation.prefix),
        **geometry(artifacts),
        **_similarity(artifacts, job.unit),
    }


def hyperparameters(job: Score) -> dict:
    return {}


def _similarity(artifacts: Artifacts, unit: str) -> Signed:
    """Word similarity, of the pieces of a space-marked word and of a bare one; a model of words has one row a word."""
    folder = artifacts.places.corpora / "similarity"
    sets = {key: similarity.read_pairs(folder / f"{key}.tsv") for key in similarity.SETS}
    table, bare = artifacts.table, {}
    if unit == "word":
        pieces, form = partial(_row, {word: i for i, word in enumerate(artifacts.vocabulary.pieces)}), "whole-word"
    else:
        encoder = Encoder(artifacts.places.tokens)
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
