"""Define the settings of token files in params.yaml, and the job specs of the stages that encode and align text."""

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, PositiveInt, Tag

from raretokens.schema import Section, Strict

Share = Annotated[float, Field(ge=0.0, le=1.0)]


class Groups(Strict):
    """Frequent, medium and rare token types, defined by shares of all types or by the first medium and first rare id.

    One of the two fields is set.
    """

    fractions: Annotated[list[Share], Field(min_length=3, max_length=3)] | None = None
    boundaries: Annotated[list[PositiveInt], Field(min_length=2, max_length=2)] | None = None


class Subword(Strict):
    """Subword tokens of GPT-2's BPE, or of BPE learnt on words (Sennrich et al. 2016)."""

    model: Literal["gpt2", "bpe"]
    merges: PositiveInt | None = None
    longest: PositiveInt | None = None  # maximum subword tokens on a side of a sentence pair
    ratio: Annotated[float, Field(gt=1.0)] | None = None  # maximum length ratio of the two sides of a sentence pair
    rows: PositiveInt | None = None  # expected number of rows of the vocabulary; any other number is an error


class WordVocabulary(Strict):
    """A vocabulary of whole words."""

    model: Literal["words"]
    size: Annotated[int, Field(ge=16)] | None  # number of most frequent words; None: all
    tokenise: bool | Literal["letters"]  # true: split off punctuation; letters: lower-case words only
    min_count: PositiveInt = 1  # minimum training count; rarer words become <unk>
    rows: PositiveInt | None = None


def _model(declared: Any) -> Any:
    """Return the tag of the kind of vocabulary to validate against, so that errors name this kind only."""
    if isinstance(declared, dict):
        return declared.get("model")
    return getattr(declared, "model", "number")


Vocabulary = Annotated[
    Annotated[int, Field(ge=16), Tag("number")]  # number of subword tokens that SentencePiece learns
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
    """Job spec of the stage that encodes a prepared text as token files."""

    name: str
    sides: tuple[str, ...]  # suffixes of the corpus's files: one text, or source and target
    vocabulary: Vocabulary


class AlignJob(Strict):
    """Job spec of the stage that aligns the words of a bitext."""

    max_pairs: PositiveInt | None = None  # sentence pairs that the aligner is trained on, evenly spaced; None: all
