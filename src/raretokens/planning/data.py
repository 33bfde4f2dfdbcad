"""What the stages before training need: memory and disk in bytes, hours on two cores; NaN where the size of a text is not known.

Hours are by speeds of benchmarks/data-cpu.csv and alignment-cpu.csv, memory is the largest seen there. Downloads are not counted.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from raretokens.errors import UserError
from raretokens.planning import disk
from raretokens.planning.vocabulary import Text, size, text
from raretokens.tasks.parameters import Parameters
from raretokens.tasks.record import record
from raretokens.tokenization.alignment import ITERATIONS, expected_cooccurrences, expected_memory, expected_positions
from raretokens.tokenization.config import WordVocabulary

PREPARED = {"text": 50e6, "bitext": 5e6}  # bytes a second; bitext as far as Moses cuts it into words
ENCODED = {"text": 5e6, "words": 6e6, "bitext": 2.3e6}
PEAK = {
    "text": 0.3e9,
    "words": 0.3e9,
    "bitext": 1.5e9,
}  # of a text of any size: blocks, and what merges are learnt from
LEARNT = 10.0  # bytes that SentencePiece takes for each of the text that it learns from
SECONDS = 0.25e-6  # of a pair of positions in an iteration of the alignment, and when pairs are linked


@dataclass(frozen=True)
class Need:
    stage: str  # as DVC calls it
    memory: float
    disk: float
    hours: float


def needs(parameters: Parameters) -> Iterator[Need]:
    """Of all stages between the downloads and the runs, in their order."""
    for name, corpus in parameters.corpora.items():
        there, kind = _bytes(corpus.corpus), record(corpus.task).kind
        yield Need(f"prepare@{name}", PEAK["text"], there, there / PREPARED.get(kind, PREPARED["text"]) / 3600)
    for name, tokens in parameters.tokens.items():
        corpus, found = parameters.corpus_of(name), _text(parameters, name)
        there, kind = _bytes(corpus.corpus), record(corpus.task).kind
        kind = "words" if isinstance(tokens.vocabulary, WordVocabulary) else kind
        learnt = LEARNT * there if isinstance(tokens.vocabulary, int) else 0.0
        left = disk.token_files(*found) if found and found.tokens else math.nan
        yield Need(
            f"encode@{name}",
            PEAK.get(kind, PEAK["text"]) + learnt,
            left,
            there / ENCODED.get(kind, ENCODED["words"]) / 3600,
        )
    for name, alignment in parameters.alignments.items():
        every, found = size(parameters.corpus_of(name).corpus).get("pairs"), _text(parameters, name)
        if every and found and found.tokens:
            yield aligned(name, every, found.tokens, found.rows, min(alignment.pairs or every, every))
        else:
            yield Need(f"align@{name}", math.nan, math.nan, math.nan)


def aligned(name: str, pairs: float, tokens: float, types: float, training: float) -> Need:
    """tokens: of both sides; types: of a side, at most; training: pairs that the aligner is trained on."""
    share = training / pairs
    links = 12 * expected_cooccurrences(pairs, tokens, types)  # bytes; only types that share a pair can be linked
    passes = 2 * (ITERATIONS * share + 1)  # both directions
    hours = SECONDS * passes * expected_positions(pairs, tokens) / 3600
    return Need(f"align@{name}", expected_memory(training, share * tokens, types), links, hours)


def _bytes(corpus: str) -> float:
    return 1e6 * size(corpus).get("megabytes", math.nan)


def _text(parameters: Parameters, name: str) -> Text | None:
    try:
        return text(parameters, name)
    except UserError:  # known when it is encoded
        return None
