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


class LanguageModelEvaluation(Strict):
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

    def sentence_numbers(self, lines: int) -> list[int]:
        """Return which sentences of a test set are translated: evenly spaced, since a text may be sorted by length."""
        count = min(self.sentences or lines, lines)
        return [number * lines // count for number in range(count)]

    @property
    def candidates(self) -> int:
        """Number of finished translations among which the length penalty chooses."""
        return self.beam if self.length_penalty_form == "fairseq" or self.beam == 1 else 2 * self.beam

    @property
    def signature(self) -> str:
        form = self.length_penalty_form + (f"-of-{self.candidates}-best" if self.length_penalty_form == "gnmt" else "")
        return f"beam:{self.beam}|length-penalty:{self.length_penalty:g}-{form}|compute:{self.compute_type}"


class LanguageModelPredictJob(Section):
    run: Run
    groups: Groups
    evaluation: LanguageModelEvaluation
    threads: PositiveInt


class TranslateJob(Section):
    run: Run
    decoding: Decoding
    tests: list[str]
    longest: PositiveInt  # tokens of a translation at most: as many as the model saw in training
    keep: int | str  # of the training; for the record
    threads: PositiveInt


Share = Annotated[float, Field(gt=0.0, lt=1.0)]
Some = Field(min_length=1)


class CachePointer(Strict):
    """Continuous cache pointer (Grave et al., 2017)."""

    models: list[str]  # model configs whose runs are evaluated so
    window: Annotated[list[PositiveInt], Some]  # positions that are remembered
    theta: Annotated[list[PositiveFloat], Some]  # flatness
    weight: Annotated[list[Share], Some]  # of the cache in the mixture


class DynamicEvaluation(Strict):
    """Dynamic evaluation (Krause et al., 2018)."""

    models: list[str]
    rate: Annotated[list[PositiveFloat], Some]
    decay: Annotated[list[PositiveFloat], Some]  # towards the trained weights: lambda
    epsilon: Annotated[list[PositiveFloat], Some]
    length: PositiveInt = 5  # positions of a segment
    sequences: PositiveInt = 100  # of a batch of the training text, whose squared gradients are averaged
    batches: PositiveInt | None = None  # so many of them; None: all of the text
    tokens: PositiveInt | None = None  # read from the start of validation and test text; None: all


class RecurrentEvaluation(Strict):
    pointer: CachePointer | None = None
    dynamic: DynamicEvaluation | None = None

    def for_size(self, size: str) -> "RecurrentEvaluation":
        """Return what is declared for runs of a model config."""
        parts = {name: getattr(self, name) for name in ("pointer", "dynamic")}
        return RecurrentEvaluation(**{name: part for name, part in parts.items() if part and size in part.models})


class RecurrentPredictJob(Section):
    run: Run
    evaluation: RecurrentEvaluation
    threads: PositiveInt


class ClassifierPredictJob(Section):
    run: Run
    block: PositiveInt  # ids of the longest document, or pixels of an image


class MajorityBaseline(Section):
    """The most frequent class, predicted for every test example."""

    name: str
    task: str
    corpus: str


class ScoreJob(Section):
    """Job spec of scoring, of any task; a task may have a class of its own that adds fields."""

    run: Run
    training: Training
    groups: Groups
    pictures: dict[str, bool]  # series of two-dimensional pictures -> whether they are centred
    queries: list[str]  # of the nearest neighbours
    projection_steps: list[int]  # training steps after which the embedding matrix is projected
    clouds: list[str] = []  # series that a figure draws: projection, projection@ of snapshots, similarity: of queries
    parameters_hash: str = ""  # hash of the parameters of all stages of the run
    markers: bool = True  # whether <s>, </s> and <unk> count as types
    neighbour_ranks: dict[str, list[str]] = {}  # query -> words whose rank among its neighbours is reported
