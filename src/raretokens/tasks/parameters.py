"""params.yaml as one frozen object: what all tasks share (config/schema.py adds the section of each)."""

from typing import Annotated, Any

from pydantic import Field

from raretokens import tasks
from raretokens.corpora.names import Corpus
from raretokens.errors import UserError
from raretokens.models.registry import shape_of
from raretokens.run import Run
from raretokens.schema import Name, Seed, Strict
from raretokens.tasks.settings import Line, TaskSettings
from raretokens.tokenization.config import AlignJob, Groups, Vocabulary

TestSet = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]*$")]
# A file of one's own is called by its place in the corpus.
Own = Annotated[str, Field(pattern=r"^(lm-(train|valid|test)|nmt-[a-z0-9][a-z0-9_-]*-(source|target))$")]


class PreparedCorpus(Strict):
    """Text of a task, a folder of data/corpus."""

    task: str
    corpus: Corpus  # a name that a file of corpora/ serves
    baseline: Name  # what its row of tables that needs no model is called
    extra_tests: list[TestSet] = []  # of a bitext: further test sets
    languages: dict[str, str] = {}  # of one's own corpus: text, or source and target, in two letters


class TokenFiles(Strict):
    """A corpus cut into tokens, a folder of data/tokens."""

    corpus: str  # a key of `corpora`
    vocabulary: Vocabulary
    groups: Groups


class Parameters(Strict):
    """A section for each task and a run sheet for each in `runs` come with the schema."""

    root: str
    scale: Name
    threads: Annotated[int, Field(gt=0, le=1024)]
    seed: Seed
    alpha: Annotated[float, Field(ge=0.0)]
    mirror: str | None
    sources: list[Name]
    own: dict[Own, str]
    corpora: dict[Name, PreparedCorpus]
    tokens: dict[Name, TokenFiles]
    alignments: dict[Name, AlignJob] = {}
    runs: Any
    continued: Any  # runs that start from the weights of others

    def task(self, name: str) -> TaskSettings | None:
        """Its section; None at a scale that does without the task."""
        return getattr(self, name)

    def lines(self, task: str) -> dict[str, Line]:
        """The run sheet of a task, runs that start from others last."""
        return getattr(self.runs, task) | getattr(self.continued, task)

    def corpus_of(self, tokens: str) -> PreparedCorpus:
        return self.corpora[self.tokens[tokens].corpus]

    def run(self, task: str, name: str) -> Run:
        """The resolved run; its knob's value becomes the option of that name (`nmt.alpha` sets alpha)."""
        lines = self.lines(task)
        if name not in lines:
            raise UserError(f"runs.{task}: no run named {name}; the run sheet has {', '.join(lines)}")
        line, size = lines[name], self.task(task).sizes[lines[name].size]
        options = line.options
        if line.knob:
            options.setdefault(line.knob.rsplit(".", 1)[-1], value_at(self.model_dump(), line.knob))
        return Run(
            name=name,
            task=task,
            tokens=line.tokens,
            objective=line.objective,
            size=line.size,
            architecture=size.architecture,
            shape=shape_of(size.architecture, size.shape, f"{task}.sizes.{line.size}"),
            seed=self.seed if line.seed is None else line.seed,
            options=options,
            reverse=getattr(line, "reverse", False),
            after=getattr(line, "after", None),
        )

    def every_run(self) -> list[Run]:
        return [self.run(task, name) for task in tasks.names() for name in self.lines(task)]


def value_at(tree: Any, key: str) -> Any:
    """The value of a dotted key; KeyError or TypeError where there is none."""
    for part in key.split("."):
        tree = tree[part]
    return tree
