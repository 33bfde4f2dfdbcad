"""What params.yaml says of token files, and the job specs of the stages that encode and align them."""

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, PositiveInt, Tag

from raretokens.schema import Section, Strict

Share = Annotated[float, Field(ge=0.0, le=1.0)]


class Groups(Strict):
    """Frequent, medium and rare token types: shares of all types, or the first medium and the first rare id."""

    fractions: Annotated[list[Share], Field(min_length=3, max_length=3)] | None = None
    boundaries: Annotated[list[PositiveInt], Field(min_length=2, max_length=2)] | None = None


class Subword(Strict):
    """Subword tokens of another model than SentencePiece: GPT-2's, or merges learnt on words (Sennrich et al. 2016)."""

    model: Literal["gpt2", "bpe"]
    merges: PositiveInt | None = None
    longest: PositiveInt | None = None  # subword tokens on a side of a pair
    ratio: Annotated[float, Field(gt=1.0)] | None = None  # of the longer side of a pair to the other
    rows: PositiveInt | None = None  # of the vocabulary; any other number is an error


class WordVocabulary(Strict):
    """Whole words."""

    model: Literal["words"]
    size: Annotated[int, Field(ge=16)] | None  # the most frequent ones; None: all
    tokenise: bool | Literal["letters"]  # punctuation is split off; letters: only words are left, in lower case
    min_count: PositiveInt = 1  # of a word that is no <unk>
    rows: PositiveInt | None = None


def _model(declared: Any) -> Any:
    """Return the kind that a vocabulary is checked as, so that errors name that kind alone."""
    if isinstance(declared, dict):
        return declared.get("model")
    return getattr(declared, "model", "number")


Vocabulary = Annotated[
    Annotated[int, Field(ge=16), Tag("number")]  # subword tokens for SentencePiece to learn
    | Annotated[Subword, Tag("gpt2")]
    | Annotated[Subword, Tag("bpe")]
    | Annotated[WordVocabulary, Tag("words")],
    Discriminator(
        _model,
        custom_error_type="model",
        custom_error_message="should be a number of subword tokens, or have a model: gpt2, bpe or words",
    ),
]


class EncodeJob(Section):
    name: str
    sides: tuple[str, ...]  # endings of the corpus's files: one text, or source and target
    vocabulary: Vocabulary


class AlignJob(Strict):
    max_pairs: PositiveInt | None = None  # sentence pairs that the aligner is trained on, evenly spaced; None: all
