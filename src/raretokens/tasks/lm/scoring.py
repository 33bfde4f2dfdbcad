"""What language models are scored by, from what their probe and their training left."""

from collections.abc import Mapping
from functools import partial

import numpy as np

from raretokens.evaluation.artifacts import Artifacts
from raretokens.evaluation.config import Continuation
from raretokens.evaluation.geometry import geometry
from raretokens.evaluation.metrics import bootstrap as resampling
from raretokens.evaluation.metrics import similarity
from raretokens.evaluation.metrics.predictions import (
    among_others,
    continuation,
    of_printed,
    perplexity,
    rare_mass,
    token_share,
    uniq,
)
from raretokens.evaluation.metrics.spectrum import all_but_top
from raretokens.evaluation.score_files import Signed
from raretokens.tasks.lm.job import Score
from raretokens.tokenization.encoder import Encoder, located
from raretokens.tokenization.token_files import tokens
from raretokens.tokenization.vocabulary import RARE, UNK


def metrics(job: Score, artifacts: Artifacts) -> Signed:
    """Raises UserError where artifacts do not fit."""
    settings, places, groups = job.probe, artifacts.places, artifacts.groups
    targets, probe = tokens(places.tokens, "test"), places.output
    reach = {"window": settings.window, "context": settings.context, "unit": job.unit}
    continued, logprob, rare = (np.load(probe / f"{name}.npy") for name in ("continuation", "logprob", "rare"))
    return {
        "ppl": perplexity(logprob, targets, groups, **reach),
        "ppl_among_others": _among_others(logprob, rare, targets, groups, reach),
        "rare_mass": rare_mass(rare, targets, groups, **reach),
        "token_share": token_share(targets, groups),
        "uniq": uniq(np.load(probe / "prediction.npy"), groups, block=settings.block),
        "continuation": continuation(continued, prefix=settings.continuation.prefix),
        **_of_printed(artifacts, targets, settings.continuation),
        **geometry(artifacts),
        **(_similarity(artifacts, job.unit) if job.english else {}),
    }


def _among_others(
    logprob: np.ndarray, rare: np.ndarray, targets: np.ndarray, groups: np.ndarray, reach: dict
) -> tuple[dict[str, float | None], str]:
    """Perplexity of targets that are not rare, were no rare type in the softmax: the cost but for what those are given."""
    others = groups[targets] != RARE
    value, signature = perplexity(among_others(logprob, rare)[others], targets[others], groups, **reach)
    return {name: number for name, number in value.items() if name != "rare"}, f"{signature}|softmax:without-rare"


def _of_printed(artifacts: Artifacts, targets: np.ndarray, settings: Continuation) -> Signed:
    """Continuations of the printed prefixes, where the test text has them."""
    printed = located(targets, artifacts.vocabulary.pieces, settings.prefix + settings.length)
    if not printed:
        return {}
    continued = np.load(artifacts.places.output / "located.npy")
    return {"continuation.located": of_printed(continued, printed, prefix=settings.prefix)}


def drawn(job: Score, artifacts: Artifacts) -> resampling.Replicates:
    """Metric -> its values on drawn test sets."""
    places, groups = artifacts.places, artifacts.groups
    targets = tokens(places.tokens, "test")
    logprob, rare = (np.load(places.output / f"{name}.npy") for name in ("logprob", "rare"))
    among = resampling.perplexity(among_others(logprob, rare), targets, groups, kept=groups[targets] != RARE)
    by_metric = {
        "ppl": resampling.perplexity(logprob, targets, groups),
        "ppl_among_others": {name: values for name, values in among.items() if name != "rare"},
        "uniq": resampling.uniq(np.load(places.output / "prediction.npy"), groups),
        "spearman": _drawn_similarity(artifacts, job.unit) if job.english else {},
    }
    return {f"{metric}.{name}": values for metric, found in by_metric.items() for name, values in found.items()}


def _drawn_similarity(artifacts: Artifacts, unit: str) -> resampling.Replicates:
    pieces = _pieces(artifacts, unit)[0]
    return {
        name: resampling.spearman(similarity.cosines(artifacts.table, pairs, pieces), similarity.scores(pairs))
        for name, pairs in _sets(artifacts).items()
    }


def hyperparameters(job: Score) -> dict:
    return {}


def _similarity(artifacts: Artifacts, unit: str) -> Signed:
    """Word similarity, of the pieces of a space-marked word and of a bare one; a model of words has one row a word."""
    sets, table, (pieces, form) = _sets(artifacts), artifacts.table, _pieces(artifacts, unit)
    bare = {}
    if unit != "word":
        encode_bare = Encoder(artifacts.places.tokens).encode_bare
        bare = {"spearman_bare": similarity.word_similarity(table, sets, encode_bare, form="bare")}
    processed, how = all_but_top(table, artifacts.groups)
    value, signature = similarity.word_similarity(processed, sets, pieces, form=form)
    return {
        "spearman": similarity.word_similarity(table, sets, pieces, form=form),
        **bare,
        "coverage": similarity.coverage(sets, pieces, form=form),
        "all_but_top.spearman": (value, f"{how}|{signature}"),
    }


def _sets(artifacts: Artifacts) -> dict[str, list[similarity.Pair]]:
    folder = artifacts.places.corpora / "similarity"
    return {key: similarity.read_pairs(folder / f"{key}.tsv") for key in similarity.SETS}


def _pieces(artifacts: Artifacts, unit: str) -> tuple[similarity.Pieces, str]:
    """How a word is cut, and what the signature calls it."""
    if unit == "word":
        return partial(_row, {word: i for i, word in enumerate(artifacts.vocabulary.pieces)}), "whole-word"
    return Encoder(artifacts.places.tokens).encode, "leading-space"


def _row(rows: Mapping[str, int], word: str) -> list[int]:
    return [rows.get(word, UNK)]
