"""Text of a scale before it is prepared: vocabulary and tokens that are expected, and what the stages before training need.

Hours are by speeds of benchmarks/data-cpu.csv and alignment-cpu.csv, memory is the largest seen there. Downloads are not counted.
NaN stands for what is unknown, since the size of a text is.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from raretokens.errors import UserError
from raretokens.paths import TOKENS
from raretokens.tasks import describe
from raretokens.tasks.parameters import Parameters
from raretokens.tokenization.alignment import ITERATIONS, expected_cooccurrences, expected_memory, expected_positions
from raretokens.tokenization.config import Subword, WordVocabulary
from raretokens.tokenization.token_files import META, read_meta, token_dtype
from raretokens.tokenization.vocabulary import SPECIALS
from raretokens.yaml_files import read_yaml

EXPECTED = Path(__file__).parent / "corpora.yaml"
PREPARED = {"text": 50e6, "bitext": 2.5e6}  # bytes a second; bitext as far as Moses splits it into words
ENCODED = {"text": 5e6, "words": 6e6, "bitext": 2.3e6}
# Bytes of memory for a text of any size: blocks, and what merges are learnt from.
PEAK = {"text": 0.3e9, "words": 0.3e9, "bitext": 1.5e9}
LEARNT = 10.0  # bytes that SentencePiece takes for each of the text that it learns from
SECONDS = 0.25e-6  # of a pair of positions in an iteration of the alignment, and when pairs are linked


class Text(NamedTuple):
    rows: int  # N, types with markers and fillers
    tokens: int | None  # of the training text, of translation both sides; None: not known

    @property
    def disk(self) -> float:
        """Bytes of its token files."""
        return float(token_dtype(self.rows).itemsize * (self.tokens or 0))


def text(parameters: Parameters, name: str, data: Path = TOKENS) -> Text:
    """What the token files `name` hold, or are expected to hold by corpora.yaml or their size.

    Raises UserError where neither tells, as for all words of a text of one's own.
    """
    return encoded(name, data) or _expected(parameters, name)


def encoded(name: str, data: Path = TOKENS) -> Text | None:
    """What token files hold; None where there are none."""
    if not (data / name / META).exists():
        return None
    meta = read_meta(data / name)
    return Text(meta["vocabulary"], meta["splits"].get("train", {}).get("tokens"))


def expected_size(corpus: str) -> dict[str, float]:
    """Expected megabytes and pairs of a corpus's training text; empty where nothing is expected of it."""
    return read_yaml(EXPECTED).get(corpus, {}).get("size", {})


def _expected(parameters: Parameters, name: str) -> Text:
    declared = parameters.tokens[name].vocabulary
    number, rows = _number(declared), getattr(declared, "rows", None)
    corpus = parameters.corpus_of(name)
    kind = "words" if isinstance(declared, WordVocabulary) else describe(corpus.task).kind
    expected = read_yaml(EXPECTED).get(corpus.corpus, {}).get(kind)
    if expected and number in (None, expected["vocabulary"]):
        return Text(rows or expected["rows"], expected["tokens"])
    if rows:
        return Text(rows, None)
    if number is None:
        raise UserError(
            f"tokens.{name}.vocabulary: how many types {corpus.corpus} has is known when it is encoded; dvc repro encode@{name}"
        )
    return Text(-(-(number + len(SPECIALS) - 1) // 8) * 8, None)  # the model's own <unk> is one of the markers


def _number(declared: int | Subword | WordVocabulary) -> int | None:
    """Subword tokens, merges or words that params.yaml requests; None where the text or the model decides."""
    if isinstance(declared, int):
        return declared
    return declared.merges if isinstance(declared, Subword) else declared.size


@dataclass(frozen=True)
class Need:
    stage: str  # as DVC names it
    memory: float
    disk: float
    hours: float


def needs(parameters: Parameters) -> Iterator[Need]:
    """Needs of all stages between the downloads and the runs, in their order."""
    for name, corpus in parameters.corpora.items():
        size, kind = _bytes(corpus.corpus), describe(corpus.task).kind
        yield Need(f"prepare@{name}", PEAK["text"], size, size / PREPARED.get(kind, PREPARED["text"]) / 3600)
    for name, tokens in parameters.tokens.items():
        corpus, found = parameters.corpus_of(name), _text_or_none(parameters, name)
        size, kind = _bytes(corpus.corpus), describe(corpus.task).kind
        kind = "words" if isinstance(tokens.vocabulary, WordVocabulary) else kind
        learnt = LEARNT * size if isinstance(tokens.vocabulary, int) else 0.0
        disk = found.disk if found and found.tokens else math.nan
        hours = size / ENCODED.get(kind, ENCODED["words"]) / 3600
        yield Need(f"encode@{name}", PEAK.get(kind, PEAK["text"]) + learnt, disk, hours)
    for name, alignment in parameters.alignments.items():
        every, found = expected_size(parameters.corpus_of(name).corpus).get("pairs"), _text_or_none(parameters, name)
        if every and found and found.tokens:
            yield aligned(name, every, found.tokens, found.rows, min(alignment.max_pairs or every, every))
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
    return 1e6 * expected_size(corpus).get("megabytes", math.nan)


def _text_or_none(parameters: Parameters, name: str) -> Text | None:
    try:
        return text(parameters, name)
    except UserError:  # known when it is encoded
        return None
