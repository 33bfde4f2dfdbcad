"""Number of token types of a text: of its token files where they exist, else as corpora.yaml or params.yaml lets expect."""

from pathlib import Path

from raretokens.errors import UserError
from raretokens.vocabulary import SPECIALS
from raretokens.yaml_files import read_yaml
from reproduction.corpora.tokenization.settings import Subword, WordVocabulary
from reproduction.corpora.tokenization.token_files import META, read_meta
from reproduction.paths import TOKENS
from reproduction.tasks import describe
from reproduction.tasks.parameters import Parameters

EXPECTED = Path(__file__).parent / "corpora.yaml"


def vocabulary_size(parameters: Parameters, name: str, data: Path = TOKENS) -> int:
    """Return the token types of the token files `name`, including special tokens and fillers.

    Raises:
        UserError: the vocabulary is not known before encoding, as for the full word vocabulary of a custom corpus.
    """
    return encoded_size(name, data) or _expected(parameters, name)


def encoded_size(name: str, data: Path = TOKENS) -> int | None:
    """Return the token types of existing token files; None if there are none."""
    return read_meta(data / name)["vocabulary"] if (data / name / META).exists() else None


def _expected(parameters: Parameters, name: str) -> int:
    declared = parameters.tokens[name].vocabulary
    number, rows = _number(declared), getattr(declared, "rows", None)
    corpus = parameters.corpus_of(name)
    kind = "words" if isinstance(declared, WordVocabulary) else describe(corpus.task).kind
    expected = read_yaml(EXPECTED).get(corpus.corpus, {}).get(kind)
    if rows:
        return rows
    if expected and number in (None, expected["vocabulary"]):
        return expected["rows"]
    if number is None:
        raise UserError(
            f"tokens.{name}.vocabulary: how many types {corpus.corpus} has is known when it is encoded; dvc repro encode@{name}"
        )
    return -(-(number + len(SPECIALS) - 1) // 8) * 8  # SentencePiece's own <unk> is one of SPECIALS


def _number(declared: int | Subword | WordVocabulary) -> int | None:
    """Return the number of subword tokens, merges or words in params.yaml; None if the text or the model determines it."""
    if isinstance(declared, int):
        return declared
    return declared.merges if isinstance(declared, Subword) else declared.size
