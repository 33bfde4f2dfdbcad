"""What probing a language model and translating are told."""

from typing import Annotated, Literal

from pydantic import Field, PositiveInt

from raretokens.run import Run
from raretokens.sections import Count, Length, Section, Strict
from raretokens.subword.groups import Groups


class Continuation(Strict):
    samples: Count
    prefix: Length
    length: Length


class Probe(Strict):
    window: Length  # tokens a forward pass sees when perplexity is measured
    context: Annotated[int, Field(ge=0)]  # of which this many were scored before
    block: Length  # tokens a teacher-forced block for Uniq
    continuation: Continuation


class Decoding(Strict):
    beam: Annotated[int, Field(gt=0, le=1000)]
    length_penalty: Annotated[float, Field(ge=0.0)]
    length_penalty_form: Literal["fairseq", "gnmt"] = "fairseq"
    compute_type: Literal["float32", "bfloat16", "int8"] = "float32"
    sentences: PositiveInt | None = None  # of each test set, evenly spaced; None: all

    def chosen(self, lines: int) -> list[int]:
        """Numbers of the sentences that are translated of a test set of so many; a text sorted by length is met as a whole."""
        count = min(self.sentences or lines, lines)
        return [number * lines // count for number in range(count)]

    @property
    def candidates(self) -> int:
        """Finished translations among which the length penalty chooses."""
        return self.beam if self.length_penalty_form == "fairseq" or self.beam == 1 else 2 * self.beam

    @property
    def signature(self) -> str:
        form = self.length_penalty_form + (f"-of-{self.candidates}-best" if self.length_penalty_form == "gnmt" else "")
        return f"beam:{self.beam}|length-penalty:{self.length_penalty:g}-{form}|compute:{self.compute_type}"


class ProbeJob(Section):
    run: Run
    groups: Groups
    probe: Probe
    threads: PositiveInt


class TranslateJob(Section):
    run: Run
    decoding: Decoding
    tests: list[str]
    longest: PositiveInt  # pieces of a translation: as many as the model saw in training
    keep: int | str  # of the training; only written down
    threads: PositiveInt
