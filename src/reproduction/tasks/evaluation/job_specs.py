"""Define the job specs of prediction, decomposition, translation and scoring, and their settings in params.yaml."""

from typing import Annotated, Literal

from pydantic import Field, PositiveFloat, PositiveInt

from raretokens.schema import Count, Length, Section, Strict
from reproduction.corpora.tokenization.settings import Groups
from reproduction.run import Run
from reproduction.training.recipe import Training


class Continuation(Strict):
    """Greedy continuations of prefixes of the test text."""

    samples: Count  # number of prefixes
    prefix: Length  # tokens of a prefix
    length: Length  # tokens of a continuation


class LanguageModelEvaluation(Strict):
    """Settings of predicting the test text with a language model."""

    window: Length  # tokens per forward pass when perplexity is measured
    context: Annotated[int, Field(ge=0)]  # tokens of the window that serve as context only and were scored before
    block: Length  # tokens per teacher-forced block for Uniq
    continuation: Continuation


class Decoding(Strict):
    """Settings of beam search."""

    beam: Annotated[int, Field(gt=0, le=1000)]
    length_penalty: Annotated[float, Field(ge=0.0)]
    length_penalty_form: Literal["fairseq", "gnmt"] = "fairseq"
    compute_type: Literal["float32", "bfloat16", "int8"] = "float32"
    sentences: PositiveInt | None = None  # number of evenly spaced sentences of each test set; None: all

    def sentence_numbers(self, lines: int) -> list[int]:
        """Return the indices of the sentences to translate, evenly spaced because a text may be sorted by length."""
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
    """Job spec of predicting the test text with a language model."""

    run: Run
    groups: Groups
    evaluation: LanguageModelEvaluation
    threads: PositiveInt


class DecompositionJob(Section):
    """Job spec of decomposing the perplexity of a language model."""

    run: Run
    groups: Groups
    evaluation: LanguageModelEvaluation
    unit: str  # unit of a token: `piece` (subword token) or `word`
    threads: PositiveInt
    logit_bias: bool  # whether the run is a baseline that constants are added to
    threshold: float | None = None  # mean count per training step below which the objective of the run calls a type rare
    parameters_hash: str


class TranslateJob(Section):
    """Job spec of translating the test sets."""

    run: Run
    decoding: Decoding
    tests: list[str]
    longest: PositiveInt  # maximum tokens of a translation: the maximum in training
    keep: int | str  # `keep` of the training, copied to meta.json
    threads: PositiveInt


Share = Annotated[float, Field(gt=0.0, lt=1.0)]
Some = Field(min_length=1)


class CachePointer(Strict):
    """Continuous cache pointer (Grave et al., 2017)."""

    models: list[str]  # model configs whose runs are evaluated with the cache
    window: Annotated[list[PositiveInt], Some]  # positions in the cache
    theta: Annotated[list[PositiveFloat], Some]  # inverse temperature of the cache distribution
    weight: Annotated[list[Share], Some]  # weight of the cache in the mixture


class DynamicEvaluation(Strict):
    """Dynamic evaluation (Krause et al., 2018)."""

    models: list[str]
    rate: Annotated[list[PositiveFloat], Some]
    decay: Annotated[list[PositiveFloat], Some]  # decay rate lambda towards the trained weights
    epsilon: Annotated[list[PositiveFloat], Some]
    length: PositiveInt = 5  # positions per segment
    sequences: PositiveInt = 100  # sequences per batch of training text, for the mean squared gradients
    batches: PositiveInt | None = None  # number of these batches; None: all of the training text
    tokens: PositiveInt | None = None  # tokens to evaluate, from the start of validation and test text; None: all


class RecurrentEvaluation(Strict):
    """Settings of evaluating recurrent language models; None disables a kind of evaluation."""

    pointer: CachePointer | None = None
    dynamic: DynamicEvaluation | None = None

    def for_size(self, size: str) -> "RecurrentEvaluation":
        """Return the settings that apply to runs of a model config."""
        parts = {name: getattr(self, name) for name in ("pointer", "dynamic")}
        return RecurrentEvaluation(**{name: part for name, part in parts.items() if part and size in part.models})


class RecurrentPredictJob(Section):
    """Job spec of predicting validation and test text with a recurrent language model."""

    run: Run
    evaluation: RecurrentEvaluation
    threads: PositiveInt


class ClassifierPredictJob(Section):
    """Job spec of predicting the test set with a classifier."""

    run: Run
    block: PositiveInt  # maximum number of ids of a document, or pixels of an image


class MajorityBaseline(Section):
    """Job spec of the baseline that predicts the most frequent class for every test example."""

    name: str
    task: str
    corpus: str


class ScoreJob(Section):
    """Job spec of scoring. A task may define a subclass that adds fields."""

    run: Run
    training: Training
    groups: Groups
    pictures: dict[str, bool]  # series of two-dimensional projections -> whether they are centred
    queries: list[str]  # words whose nearest neighbours are reported
    projection_steps: list[int]  # training steps after which the embedding matrix is projected
    clouds: list[str] = []  # series that figures show: `projection`, `projection@` (snapshots), `similarity:` (queries)
    parameters_hash: str = ""  # hash of the parameters of all stages of the run
    markers: bool = True  # whether <s>, </s> and <unk> count as types
    neighbour_ranks: dict[str, list[str]] = {}  # query -> words whose rank among its neighbours is reported
