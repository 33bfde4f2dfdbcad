"""params.yaml as frozen objects, checked as a whole before any work.

Every error is one line: the key, its value, and what is allowed. An unknown key names the nearest known one.
"""

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, PositiveInt, ValidationError

from raretokens.consistency import contradictions, nearest, value_at
from raretokens.errors import UserError

Share = Annotated[float, Field(ge=0.0, le=1.0)]
Probability = Annotated[float, Field(ge=0.0, lt=1.0)]
ALTERNATIVE = re.compile(
    r"constrained|literal\[|int$|float$|str$|list\[|Subword$"
)  # names that pydantic gives to members of a union
Corpus = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]*$")]


class Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Groups(Section):
    fractions: Annotated[list[Share], Field(min_length=3, max_length=3)] | None = None
    boundaries: Annotated[list[PositiveInt], Field(min_length=2, max_length=2)] | None = None


class Shape(Section):
    layers: PositiveInt
    width: PositiveInt
    heads: PositiveInt
    feedforward: PositiveInt
    dropout: Probability
    attention_dropout: Probability
    activation: Literal["relu", "gelu"]


class Size(Shape):
    """A model's shape, and what its training does otherwise than the task's."""

    updates: PositiveInt | None = None
    tokens_per_update: PositiveInt | None = None
    peak_lr: PositiveFloat | None = None
    snapshot_every: PositiveInt | None = None


class Training(Section):
    updates: PositiveInt
    tokens_per_update: PositiveInt
    block: PositiveInt
    peak_lr: PositiveFloat
    warmup: PositiveInt
    weight_decay: Annotated[float, Field(ge=0.0)]
    label_smoothing: Probability
    validate_every: PositiveInt | Literal["epoch"]
    validation_tokens: PositiveInt | None = None
    keep: PositiveInt | Literal["best"]
    snapshot_every: PositiveInt
    precision: Literal["float32", "bfloat16"] = "float32"


class Continuation(Section):
    samples: PositiveInt
    prefix: PositiveInt
    length: PositiveInt


class Probe(Section):
    window: PositiveInt
    context: Annotated[int, Field(ge=0)]
    block: PositiveInt
    continuation: Continuation


class Decoding(Section):
    beam: PositiveInt
    length_penalty: Annotated[float, Field(ge=0.0)]
    length_penalty_form: Literal["fairseq", "gnmt"] = "fairseq"
    compute_type: Literal["float32", "bfloat16", "int8"] = "float32"
    sentences: PositiveInt | None = None

    @property
    def candidates(self) -> int:
        """Finished translations among which the length penalty chooses."""
        return self.beam if self.length_penalty_form == "fairseq" or self.beam == 1 else 2 * self.beam

    @property
    def signature(self) -> str:
        form = self.length_penalty_form + (f"-of-{self.candidates}-best" if self.length_penalty_form == "gnmt" else "")
        return f"beam:{self.beam}|length-penalty:{self.length_penalty:g}-{form}|compute:{self.compute_type}"


class Subword(Section):
    """Pieces of another model than SentencePiece's: those of GPT-2, or merges learnt on words (Sennrich et al. 2016)."""

    model: Literal["gpt2", "bpe"]
    merges: PositiveInt | None = None
    longest: PositiveInt | None = None  # pieces on a side of a pair
    ratio: Annotated[float, Field(gt=1.0)] | None = None  # of the longer side of a pair to the other
    rows: PositiveInt | None = None  # of the table that must come out


class Task(Section):
    corpus: Corpus
    vocabulary: Annotated[int, Field(ge=16)] | Subword
    groups: Groups
    sizes: dict[str, Size]
    training: Training


class LanguageModel(Task):
    probe: Probe


class Alignment(Section):
    pairs: PositiveInt | None = None


class Translation(Task):
    alpha: Annotated[float, Field(ge=0.0)]
    extra_tests: list[str] = []
    alignment: Alignment
    decoding: Decoding


class WordVocabulary(Section):
    size: Annotated[int, Field(ge=16)] | None
    tokenise: bool
    rows: PositiveInt | None = None  # of the table that must come out


class Words(Section):
    vocabulary: WordVocabulary
    groups: Groups


class Neighbours(Section):
    lm: list[str]
    nmt: list[str]
    named: dict[str, list[str]] = {}


class Curves(Section):
    lm: list[Annotated[int, Field(ge=0)]]
    nmt: list[Annotated[int, Field(ge=0)]]


class RunLine(BaseModel):
    """One line of the run sheet. Further keys are options of its objective (OPTIONS in the objective's file)."""

    model_config = ConfigDict(frozen=True, extra="allow", strict=True)
    size: str
    objective: str
    knob: str
    seed: int | None = None


class LanguageModelLine(RunLine):
    tokens: Literal["lm", "words"]  # folder of data/tokens


class TranslationLine(RunLine):
    reverse: bool = False

    @property
    def tokens(self) -> str:
        return "nmt"


class Runs(Section):
    lm: dict[str, LanguageModelLine] = {}
    nmt: dict[str, TranslationLine] = {}


@dataclass(frozen=True)
class Run:
    """A run with everything resolved: what the train stage needs to know."""

    name: str
    task: str
    objective: str
    size: str
    seed: int
    options: dict[str, Any]
    tokens: str  # folder of data/tokens: lm (pieces), words, nmt
    reverse: bool = False  # translation from target to source


class Parameters(Section):
    root: str
    scale: str
    threads: PositiveInt
    seed: int
    alpha: Annotated[float, Field(ge=0.0)]
    mirror: str | None
    sources: list[str]
    own: dict[str, str]
    lm: LanguageModel
    words: Words
    nmt: Translation
    neighbours: Neighbours
    curves: Curves
    runs: Runs

    def task(self, name: str) -> LanguageModel | Translation:
        return {"lm": self.lm, "nmt": self.nmt}[name]

    def training(self, run: Run) -> Training:
        """Training settings of a run: those of its task, less what its size sets otherwise."""
        task = self.task(run.task)
        instead = task.sizes[run.size].model_dump(include=set(Training.model_fields), exclude_none=True)
        return task.training.model_copy(update=instead)

    def groups(self, run: Run) -> Groups:
        """Frequency groups of the vocabulary that a run is trained on."""
        return getattr(self, run.tokens).groups

    def run(self, task: str, name: str) -> Run:
        """The resolved run; its knob's value becomes the option of that name (`nmt.alpha` sets alpha)."""
        lines = getattr(self.runs, task)
        if name not in lines:
            raise UserError(f"runs.{task}: no run named {name}; the run sheet has {', '.join(lines)}")
        line = lines[name]
        options = dict(line.model_extra or {})
        knob = line.knob.rsplit(".", 1)[-1]
        if knob != "seed":
            options.setdefault(knob, value_at(self.model_dump(), line.knob))
        seed = self.seed if line.seed is None else line.seed
        return Run(name, task, line.objective, line.size, seed, options, line.tokens, getattr(line, "reverse", False))


def load(path: Path = Path("params.yaml")) -> Parameters:
    """Read and check params.yaml.

    Raises UserError with one line per mistake: unknown keys, wrong types, runs that name a missing objective, size or
    corpus, contradictory values.
    """
    try:
        tree = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path}: no such file; run from the folder of a scale (the top level or scales/*)") from None
    except yaml.YAMLError as error:
        raise UserError(f"{path}: not YAML: {' '.join(str(error).split())}") from None
    try:
        parameters = Parameters.model_validate(tree)
    except ValidationError as error:
        raise UserError("\n".join(_lines(path, error))) from None
    found = [f"{path}: {line}" for line in contradictions(parameters)]
    if found:
        raise UserError("\n".join(found))
    return parameters


def main(function: Callable[[], None]) -> None:
    """Run a stage; a user's mistake is printed as it is and exits 1."""
    try:
        function()
    except UserError as error:
        sys.exit(f"error: {error}")


def _lines(path: Path, error: ValidationError) -> list[str]:
    """One line a mistake; the alternatives of a union, which each complain by themselves, are put together."""
    mistakes: dict[str, list[dict]] = {}
    for item in error.errors():
        place = [part for part in map(str, item["loc"]) if not ALTERNATIVE.match(part)]
        mistakes.setdefault(".".join(place), []).append(dict(item))
    return [f"{path}: {key}: {_what(key, items)}" for key, items in mistakes.items()]


def _what(key: str, items: list[dict]) -> str:
    kind, value = items[0]["type"], items[0]["input"]
    if kind == "extra_forbidden":
        *section, name = key.split(".")
        return f"unknown key (value {value!r}); {nearest(name, _section_of(section))}"
    if kind == "missing":
        return "missing; it is required"
    return f"{value!r} is not allowed: {', or '.join(item['msg'].lower() for item in items)}"


def _section_of(place: list[str]) -> list[str]:
    """Keys that the schema knows at a place of params.yaml."""
    model: Any = Parameters
    for part in place:
        model = (
            model.model_fields[part].annotation if part in getattr(model, "model_fields", {}) else model.__args__[-1]
        )
    return list((model if hasattr(model, "model_fields") else model.__args__[-1]).model_fields)
