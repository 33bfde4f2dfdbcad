"""What preparing a corpus is told."""

from typing import Annotated

from pydantic import Field

from raretokens.sections import Strict

Corpus = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]*$")]


class Job(Strict):
    """A prepared text: one corpus, as lines or as pairs of lines."""

    kind: str  # text, bitext or similarity
    corpus: Corpus  # a name that a file of corpora/ serves
    extra_tests: list[str] = []  # of a bitext: further test sets
    languages: dict[str, str] = {}  # where its file cannot know them
    processes: int = 1
