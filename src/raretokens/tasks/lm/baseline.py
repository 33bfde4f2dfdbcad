"""The scores of a text that need no model: what people wrote."""

from pathlib import Path

import numpy as np

from raretokens.errors import UserError
from raretokens.evaluation.artifacts import group_of, splits
from raretokens.evaluation.config import Continuation
from raretokens.evaluation.metrics import bootstrap as resampling
from raretokens.evaluation.metrics.predictions import continuation, human, of_printed, token_share, uniq
from raretokens.evaluation.metrics.text import corpus_in_words, frequency, rank_frequency
from raretokens.evaluation.score_files import Signed, layout, write_drawn, write_json, write_points
from raretokens.tasks.lm.job import Baseline
from raretokens.tokenization.encoder import located
from raretokens.tokenization.token_files import tokens
from raretokens.tokenization.vocabulary import GROUP_NAMES, VOCABULARY, Vocabulary

Job = Baseline


def score(job: Baseline, corpora: Path, token_files: Path, scores: Path) -> None:
    """Write <name>.json and .csv. Raises UserError where the test text is too short."""
    pieces, words = token_files / job.pieces, token_files / (job.words or job.pieces)
    metrics = _of_pieces(job, pieces) | (_of_words(words) if job.words else {})
    write_json(scores / f"{job.name}.json", layout({"run": job.name, "task": job.task}, metrics))
    uniq_drawn = resampling.uniq(tokens(pieces, "test"), group_of(Vocabulary.read(pieces / VOCABULARY), job.groups))
    write_drawn(scores / f"{job.name}.drawn.csv", {f"uniq.{group}": values for group, values in uniq_drawn.items()})
    ranked = rank_frequency(Vocabulary.read(words / VOCABULARY).counts)
    write_points(scores / f"{job.name}.csv", [("rank_frequency", "total", rank, share) for rank, share in ranked])


def _of_pieces(job: Baseline, folder: Path) -> Signed:
    vocabulary, targets = Vocabulary.read(folder / VOCABULARY), tokens(folder, "test")
    groups, settings = group_of(vocabulary, job.groups), job.continuation
    types = {group: int(np.sum(groups == code)) for group, code in GROUP_NAMES.items()}
    try:
        written = human(targets, **settings.model_dump())
    except ValueError as error:
        raise UserError(f"lm.probe.continuation: {error}") from None
    return {
        "uniq": uniq(targets, groups),
        "continuation": continuation(written, prefix=settings.prefix, source="targets"),
        "token_share": token_share(targets, groups),
        **_of_printed(vocabulary, targets, settings),
        "frequency": frequency(vocabulary),
        "types": ({"total": vocabulary.types} | types, "fillers:no|specials:freq"),
        "tokens": (
            {split: facts["tokens"] for split, facts in splits(folder).items()},
            "unit:piece|line-ends:yes",
        ),
    }


def _of_printed(vocabulary: Vocabulary, targets: np.ndarray, settings: Continuation) -> Signed:
    """What follows the printed prefixes in the text itself, where it has them."""
    printed = located(targets, vocabulary.pieces, settings.prefix + settings.length)
    if not printed:
        return {}
    starts = [start + settings.prefix for start in printed.values()]
    written = np.stack([np.asarray(targets[start : start + settings.length]) for start in starts])
    return {"continuation.located": of_printed(written, printed, prefix=settings.prefix, source="targets")}


def _of_words(folder: Path) -> Signed:
    vocabulary = Vocabulary.read(folder / VOCABULARY)
    return {"corpus": corpus_in_words(vocabulary, splits(folder), tokens(folder, "test"))}
