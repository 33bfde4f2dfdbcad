"""Define params.yaml as frozen objects: the keys that all tasks share. pipeline/parameters_file.py adds sections of the tasks."""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, PositiveFloat

from raretokens.errors import UserError
from raretokens.schema import Count, Length, Name, Seed, Strict
from reproduction import tasks
from reproduction.corpora.registry import Corpus
from reproduction.corpora.tokenization.settings import AlignJob, Groups, Vocabulary, WordVocabulary
from reproduction.run import Run
from reproduction.training.models.shapes import shape_of
from reproduction.training.recipe import Beta, RuleChoice, Training

TestSet = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]*$")]
# Keys of a user's own files: task, split or extra test set, and side.
Own = Annotated[str, Field(pattern=r"^(lm-(train|valid|test)|nmt-[a-z0-9][a-z0-9_-]*-(source|target))$")]
StepNumber = Annotated[int, Field(ge=0)]
Precision = Literal["float32", "bfloat16"]


class ModelConfig(Strict):
    """A model config: its architecture, and training settings that override those of the task.

    Further keys are the shape of the model (SHAPE in the architecture's module).
    """

    model_config = ConfigDict(extra="allow")

    architecture: str
    steps: Count | None = None
    tokens_per_step: Count | None = None
    block: Length | None = None
    peak_lr: PositiveFloat | None = None
    warmup: Count | None = None
    rule: RuleChoice | None = None
    betas: Annotated[list[Beta], Field(min_length=2, max_length=2)] | None = None
    weight_decay: Annotated[float, Field(ge=0.0)] | None = None
    label_smoothing: Annotated[float, Field(ge=0.0, lt=1.0)] | None = None
    precision: Precision | None = None
    snapshot_every: Count | None = None
    stop_window: Count | None = None

    @property
    def shape(self) -> dict[str, Any]:
        return dict(self.model_extra or {})

    def training(self, training: Training) -> Training:
        """Return the task's training settings with the overrides of this model config."""
        own = {name: getattr(self, name) for name in ModelConfig.model_fields if name != "architecture"}
        return training.replaced(**{name: value for name, value in own.items() if value is not None})


class TaskSettings(Strict):
    """The section of a task in params.yaml."""

    models: dict[Name, ModelConfig]
    training: Training
    projection_steps: list[StepNumber] = []  # training steps after which the embedding matrix is projected
    neighbours: list[str] = []  # queries of the nearest-neighbour tables and similarity curves


class Line(Strict):
    """A line of the run sheet. Further keys are options of the objective (OPTIONS in the objective's module)."""

    model_config = ConfigDict(extra="allow")

    tokens: str  # a key of `tokens`
    model: str  # a key of the task's `models`
    objective: str
    option_from: str | None = None  # dotted key of params.yaml whose value becomes the option of the same name
    seed: Seed | None = None

    @property
    def options(self) -> dict[str, Any]:
        return dict(self.model_extra or {})


class PreparedCorpus(Strict):
    """The prepared text of a task: a folder of data/corpus."""

    task: str
    corpus: Corpus  # a name in SERVES of a module of corpora/
    baseline: Name  # name of the baseline that needs no model
    extra_tests: list[TestSet] = []  # further test sets of a bitext
    languages: dict[str, str] = {}  # two-letter languages of a user's own corpus: text, or source and target


class TokenFiles(Strict):
    """A tokenized corpus: a folder of data/tokens."""

    corpus: str  # a key of `corpora`
    vocabulary: Vocabulary
    groups: Groups

    @property
    def unit(self) -> str:
        """Unit of a token: `piece` (subword token) or `word`."""
        return "word" if isinstance(self.vocabulary, WordVocabulary) else "piece"


class Parameters(Strict):
    """All of params.yaml. The schema (pipeline/parameters_file.py) adds a section and a run sheet for each task."""

    root: str
    scale: Name
    threads: Annotated[int, Field(gt=0, le=1024)]
    seed: Seed
    alpha: float  # the objectives with an option `alpha` check its bounds
    mirror: str | None
    sources: list[Name]
    own: dict[Own, str]
    corpora: dict[Name, PreparedCorpus]
    tokens: dict[Name, TokenFiles]
    alignments: dict[Name, AlignJob] = {}
    runs: Any
    continued: Any  # runs that start from the weights of others

    def task(self, name: str) -> TaskSettings | None:
        """Return the section of a task, or None at a scale without the task."""
        return getattr(self, name)

    def lines(self, task: str) -> dict[str, Line]:
        """Return the run sheet of a task, with runs that start from the weights of other runs last."""
        return getattr(self.runs, task) | getattr(self.continued, task)

    def corpus_of(self, tokens: str) -> PreparedCorpus:
        return self.corpora[self.tokens[tokens].corpus]

    def run(self, task: str, name: str) -> Run:
        """Return a resolved run. The value at `option_from` becomes an option: `nmt.alpha` sets the option `alpha`."""
        lines = self.lines(task)
        if name not in lines:
            raise UserError(f"runs.{task}: no run named {name}; the run sheet has {', '.join(lines)}")
        line, size = lines[name], self.task(task).models[lines[name].model]
        options = line.options
        if line.option_from:
            options.setdefault(line.option_from.rsplit(".", 1)[-1], value_at(self.model_dump(), line.option_from))
        return Run(
            name=name,
            task=task,
            tokens=line.tokens,
            objective=line.objective,
            model=line.model,
            architecture=size.architecture,
            shape=shape_of(size.architecture, size.shape, f"{task}.models.{line.model}"),
            seed=self.seed if line.seed is None else line.seed,
            options=options,
            reverse=getattr(line, "reverse", False),
            init_from=getattr(line, "init_from", None),
        )

    def every_run(self) -> list[Run]:
        return [self.run(task, name) for task in tasks.names() for name in self.lines(task)]


def value_at(tree: Any, key: str) -> Any:
    """Return the value at a dotted key. Raises KeyError or TypeError where there is none."""
    for part in key.split("."):
        tree = tree[part]
    return tree
