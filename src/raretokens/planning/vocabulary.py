"""How many rows the table of a run will have, and how many tokens it is trained on, also before the text is encoded."""

from pathlib import Path
from typing import NamedTuple

from raretokens.errors import UserError
from raretokens.paths import TOKENS
from raretokens.tasks.parameters import Parameters
from raretokens.tasks.record import record
from raretokens.tokenization.config import Subword, WordVocabulary
from raretokens.tokenization.token_files import META, read_meta
from raretokens.tokenization.vocabulary import SPECIALS
from raretokens.yaml_files import read_yaml

EXPECTED = Path(__file__).parent / "corpora.yaml"


class Text(NamedTuple):
    rows: int  # N, types with markers and fillers
    tokens: int | None  # of the training text, of translation both sides; None: not known


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


def size(corpus: str) -> dict[str, float]:
    """Expected megabytes and pairs of a corpus's training text; empty where nothing is expected of it."""
    return read_yaml(EXPECTED).get(corpus, {}).get("size", {})


def _expected(parameters: Parameters, name: str) -> Text:
    declared = parameters.tokens[name].vocabulary
    number, rows = _number(declared), getattr(declared, "rows", None)
    corpus = parameters.corpus_of(name)
    kind = "words" if isinstance(declared, WordVocabulary) else record(corpus.task).kind
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
    """Pieces, merges or words that params.yaml asks for; None where the text or the model decides."""
    if isinstance(declared, int):
        return declared
    return declared.merges if isinstance(declared, Subword) else declared.size
