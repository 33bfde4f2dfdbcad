"""Job specs of prediction, translation and scoring, and the settings of them in params.yaml."""

from typing import Annotated, Literal

from pydantic import Field, PositiveFloat, PositiveInt

from raretokens.run import Run
from raretokens.schema import Count, Length, Section, Strict
from raretokens.tokenization.config import Groups
from raretokens.training.config import Training


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


Share = Annotated[float, Field(gt=0.0, lt=1.0)]
Some = Field(min_length=1)


class Pointer(Strict):
    """Continuous cache pointer (Grave et al., 2017)."""

    sizes: list[str]  # of the runs that are evaluated so
    window: Annotated[list[PositiveInt], Some]  # positions that are remembered
    theta: Annotated[list[PositiveFloat], Some]  # flatness
    weight: Annotated[list[Share], Some]  # of the cache in the mixture


class Dynamic(Strict):
    """Dynamic evaluation (Krause et al., 2018)."""

    sizes: list[str]
    rate: Annotated[list[PositiveFloat], Some]
    decay: Annotated[list[PositiveFloat], Some]  # towards the trained weights: lambda
    epsilon: Annotated[list[PositiveFloat], Some]
    length: PositiveInt = 5  # positions of a segment
    sequences: PositiveInt = 100  # of a batch of the training text, whose squared gradients are averaged
    batches: PositiveInt | None = None  # so many of them; None: all of the text
    tokens: PositiveInt | None = None  # from the start of validation and test text; None: all


class Evaluation(Strict):
    pointer: Pointer | None = None
    dynamic: Dynamic | None = None

    def of(self, size: str) -> "Evaluation":
        """What runs of that size are evaluated by."""
        parts = {name: getattr(self, name) for name in ("pointer", "dynamic")}
        return Evaluation(**{name: part for name, part in parts.items() if part and size in part.sizes})


class EvaluateJob(Section):
    run: Run
    evaluation: Evaluation
    threads: PositiveInt


class PredictJob(Section):
    run: Run
    block: PositiveInt  # ids of the longest document, or pixels of an image


class MajorityBaseline(Section):
    """The most frequent class, for every example of a classified text."""

    name: str
    task: str
    corpus: str


class ScoreJob(Section):
    """Of any task; a task's own class adds to it."""

    run: Run
    training: Training
    groups: Groups
    output: str  # folder of data/ with what the model said of the test text
    pictures: dict[str, bool]  # series of two-dimensional pictures -> whether they are centred
    queries: list[str]  # of the nearest neighbours
    updates: list[int]  # after which the table is projected
    clouds: list[str] = []  # series that a figure draws: projection, projection@ of snapshots, similarity: of queries
    mark: str = ""  # of all that the run's stages are told
    markers: bool = True  # whether <s>, </s> and <unk> are types of the table
    named: dict[str, list[str]] = {}  # query -> words whose rank among its neighbours is told
