"""What cutting a corpus into tokens is told."""

from typing import Annotated, Literal

from pydantic import Field, PositiveInt

from raretokens.sections import Section, Strict


class Subword(Strict):
    """Pieces of another model than SentencePiece's: those of GPT-2, or merges learnt on words (Sennrich et al. 2016)."""

    model: Literal["gpt2", "bpe"]
    merges: PositiveInt | None = None
    longest: PositiveInt | None = None  # pieces on a side of a pair
    ratio: Annotated[float, Field(gt=1.0)] | None = None  # of the longer side of a pair to the other
    rows: PositiveInt | None = None  # of the table that must come out


class WordVocabulary(Strict):
    """Whole words."""

    model: Literal["words"]
    size: Annotated[int, Field(ge=16)] | None  # the most frequent ones; None: all
    tokenise: bool  # punctuation is split off
    rows: PositiveInt | None = None


Vocabulary = Annotated[int, Field(ge=16)] | Subword | WordVocabulary  # a number: pieces for SentencePiece to learn


class Job(Section):
    name: str
    sides: tuple[str, ...]  # endings of the corpus's files: one text, or source and target
    vocabulary: Vocabulary
