"""params.yaml as frozen objects: the keys that all tasks share; pipeline/config.py adds the section of each task."""

from typing import Annotated, Any

from pydantic import ConfigDict, Field, PositiveFloat

from raretokens import tasks
from raretokens.corpora.registry import Corpus
from raretokens.errors import UserError
from raretokens.models.shapes import shape_of
from raretokens.run import Run
from raretokens.schema import Count, Length, Name, Seed, Strict
from raretokens.tokenization.config import AlignJob, Groups, Vocabulary
from raretokens.training.config import Beta, RuleChoice, Training

TestSet = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]*$")]
# Files of one's own corpus are named by task, split or language, and side.
Own = Annotated[str, Field(pattern=r"^(lm-(train|valid|test)|nmt-[a-z0-9][a-z0-9_-]*-(source|target))$")]
Update = Annotated[int, Field(ge=0)]


class ModelConfig(Strict):
    """A model config: its architecture, and what it overrides of the task's training.

    Further keys are its shape (SHAPE in the architecture's file).
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
    snapshot_every: Count | None = None
    stop_window: Count | None = None

    @property
    def shape(self) -> dict[str, Any]:
        return dict(self.model_extra or {})

    def training(self, training: Training) -> Training:
        """Return the task's recipe with what this model config overrides."""
        own = {name: getattr(self, name) for name in ModelConfig.model_fields if name != "architecture"}
        return training.replaced(**{name: value for name, value in own.items() if value is not None})


class TaskSettings(Strict):
    """The section of params.yaml that has the name of the task."""

    models: dict[Name, ModelConfig]
    training: Training
    projection_steps: list[Update] = []  # updates after which the embedding matrix is projected
    neighbours: list[str] = []  # queries of the nearest-neighbour tables and similarity curves


class Line(Strict):
    """A line of the run sheet. Further keys are options of its objective (OPTIONS in the objective's file)."""

    model_config = ConfigDict(extra="allow")

    tokens: str  # a key of `tokens`
    model: str  # a key of the task's `models`
    objective: str
    option_from: str | None = None  # a key of params.yaml whose value is the option of that name
    seed: Seed | None = None

    @property
    def options(self) -> dict[str, Any]:
        return dict(self.model_extra or {})


class PreparedCorpus(Strict):
    """The text of a task: a folder of data/corpus."""

    task: str
    corpus: Corpus  # a name that a file of corpora/ serves
    baseline: Name  # name of its row of tables that needs no model
    extra_tests: list[TestSet] = []  # of a bitext: further test sets
    languages: dict[str, str] = {}  # of one's own corpus: text, or source and target, in two letters


class TokenFiles(Strict):
    """A tokenized corpus: a folder of data/tokens."""

    corpus: str  # a key of `corpora`
    vocabulary: Vocabulary
    groups: Groups


class Parameters(Strict):
    """All of params.yaml; a section and a run sheet for each task come with the schema (pipeline/config.py)."""

    root: str
    scale: Name
    threads: Annotated[int, Field(gt=0, le=1024)]
    seed: Seed
    alpha: float  # bounds: those of the option of each objective that has it
    mirror: str | None
    sources: list[Name]
    own: dict[Own, str]
    corpora: dict[Name, PreparedCorpus]
    tokens: dict[Name, TokenFiles]
    alignments: dict[Name, AlignJob] = {}
    runs: Any
    continued: Any  # runs that start from the weights of others

    def task(self, name: str) -> TaskSettings | None:
        """Return the section of a task; None at a scale without the task."""
        return getattr(self, name)

    def lines(self, task: str) -> dict[str, Line]:
        """Return the run sheet of a task; runs that start from the weights of others come last."""
        return getattr(self.runs, task) | getattr(self.continued, task)

    def corpus_of(self, tokens: str) -> PreparedCorpus:
        return self.corpora[self.tokens[tokens].corpus]

    def run(self, task: str, name: str) -> Run:
        """Return a resolved run; the value at its `option_from` becomes the option of that name (`nmt.alpha` sets alpha)."""
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
    """Return the value at a dotted key; KeyError or TypeError where there is none."""
    for part in key.split("."):
        tree = tree[part]
    return tree
