"""What the stages before training need: memory and disk in bytes, hours on two cores; NaN where the size of a text is not known.

Hours are by speeds of benchmarks/data-cpu.csv and alignment-cpu.csv, memory is the largest seen there. Downloads are not counted.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from raretokens.alignment import fast_align, memory
from raretokens.errors import UserError
from raretokens.planning import disk
from raretokens.planning.vocabulary import Text, size, text
from raretokens.tasks.parameters import Parameters
from raretokens.tasks.record import record
from raretokens.tokenization.config import WordVocabulary

PREPARED = {"text": 50e6, "bitext": 5e6}  # bytes a second; bitext as far as Moses cuts it into words
ENCODED = {"text": 5e6, "words": 6e6, "bitext": 2.3e6}
PEAK = {
    "text": 0.3e9,
    "words": 0.3e9,
    "bitext": 1.5e9,
}  # of a text of any size: blocks, and what merges are learnt from
LEARNT = 10.0  # bytes that SentencePiece takes for each of the text that it learns from
SECONDS = 0.06e-6  # of a pair of positions in a pass of the alignment


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
            pairs = min(alignment.pairs or every, every)
            yield aligned(name, pairs, found.tokens * pairs / every, found.rows)
        else:
            yield Need(f"align@{name}", math.nan, math.nan, math.nan)


def aligned(name: str, pairs: float, tokens: float, types: float) -> Need:
    """tokens: of both sides; types: of a side, at most."""
    taken = memory.memory(pairs, tokens, types)
    positions = memory.positions(pairs, tokens)
    links = 12 * memory.cells(pairs, tokens, types)  # as many types at most are linked as meet
    return Need(f"align@{name}", sum(taken.values()), links, SECONDS * (2 * fast_align.PASSES + 1) * positions / 3600)


def _bytes(corpus: str) -> float:
    return 1e6 * size(corpus).get("megabytes", math.nan)


def _text(parameters: Parameters, name: str) -> Text | None:
    try:
        return text(parameters, name)
    except UserError:  # known when it is encoded
        return None
