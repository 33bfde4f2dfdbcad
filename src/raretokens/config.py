"""params.yaml as frozen objects, checked as a whole before any work.

Every error is one line: the key, its value, and what is allowed. An unknown key names the nearest known one.
"""

import ast
import difflib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, PositiveInt, ValidationError

CODE = Path(__file__).parent
Share = Annotated[float, Field(ge=0.0, le=1.0)]
Probability = Annotated[float, Field(ge=0.0, lt=1.0)]
Corpus = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]*$")]


class UserError(Exception):
    """A mistake that the user can mend; shown as its message alone, without a traceback."""


class Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Groups(Section):
    fractions: Annotated[list[Share], Field(min_length=3, max_length=3)] | None = None
    boundaries: Annotated[list[PositiveInt], Field(min_length=2, max_length=2)] | None = None


class Size(Section):
    layers: PositiveInt
    width: PositiveInt
    heads: PositiveInt
    feedforward: PositiveInt
    dropout: Probability
    attention_dropout: Probability
    activation: Literal["relu", "gelu"]
    updates: PositiveInt | None = None  # instead of training.updates


class Training(Section):
    updates: PositiveInt
    tokens_per_update: PositiveInt
    block: PositiveInt
    peak_lr: PositiveFloat
    warmup: PositiveInt
    weight_decay: Annotated[float, Field(ge=0.0)]
    label_smoothing: Probability
    validate_every: PositiveInt | Literal["epoch"]
    keep: PositiveInt | Literal["best"]
    precision: Literal["float32", "bfloat16"] = "float32"


class Probe(Section):
    window: PositiveInt
    context: Annotated[int, Field(ge=0)]
    block: PositiveInt


class Decoding(Section):
    beam: PositiveInt
    length_penalty: Annotated[float, Field(ge=0.0)]
    sentences: PositiveInt | None = None


class Task(Section):
    corpus: Corpus
    vocabulary: Annotated[int, Field(ge=16)]
    groups: Groups
    sizes: dict[str, Size]
    training: Training


class LanguageModel(Task):
    probe: Probe


class Translation(Task):
    alpha: Annotated[float, Field(ge=0.0)]
    extra_tests: list[str] = []
    decoding: Decoding


class Neighbours(Section):
    lm: list[str]
    nmt: list[str]


class RunLine(BaseModel):
    """One line of the run sheet. Further keys are options of its objective (OPTIONS in the objective's file)."""

    model_config = ConfigDict(frozen=True, extra="allow", strict=True)
    size: str
    objective: str
    knob: str
    seed: int | None = None


class Runs(Section):
    lm: dict[str, RunLine] = {}
    nmt: dict[str, RunLine] = {}


@dataclass(frozen=True)
class Run:
    """A run with everything resolved: what the train stage needs to know."""

    name: str
    task: str
    objective: str
    size: str
    seed: int
    options: dict[str, Any]


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
    nmt: Translation
    neighbours: Neighbours
    runs: Runs

    def task(self, name: str) -> LanguageModel | Translation:
        return {"lm": self.lm, "nmt": self.nmt}[name]

    def training(self, run: Run) -> Training:
        """Training settings of a run: those of its task, less what its size sets otherwise."""
        task = self.task(run.task)
        updates = task.sizes[run.size].updates or task.training.updates
        return task.training.model_copy(update={"updates": updates})

    def run(self, task: str, name: str) -> Run:
        """The resolved run; its knob's value becomes the option of that name (`nmt.alpha` sets alpha)."""
        lines = getattr(self.runs, task)
        if name not in lines:
            raise UserError(f"runs.{task}: no run named {name}; the run sheet has {', '.join(lines)}")
        line = lines[name]
        options = dict(line.model_extra or {})
        knob = line.knob.rsplit(".", 1)[-1]
        if knob != "seed":
            options.setdefault(knob, _at(self.model_dump(), line.knob))
        seed = self.seed if line.seed is None else line.seed
        return Run(name, task, line.objective, line.size, seed, options)


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
        raise UserError("\n".join(_line(path, item) for item in error.errors())) from None
    contradictions = [f"{path}: {line}" for line in _contradictions(parameters)]
    if contradictions:
        raise UserError("\n".join(contradictions))
    return parameters


def main(function: Callable[[], None]) -> None:
    """Run a stage; a user's mistake is printed as it is and exits 1."""
    try:
        function()
    except UserError as error:
        sys.exit(f"error: {error}")


def objectives() -> list[str]:
    """Names of the objectives: the files of their folder."""
    return sorted(file.stem for file in (CODE / "objectives").glob("*.py") if not file.stem.startswith("_"))


def corpora(task: str) -> list[str]:
    """Names of the corpora of a task, from what the files of their folder declare in SERVES."""
    declared = (_declared(file, "SERVES") or {} for file in (CODE / "corpora").glob("*.py"))
    return sorted(name for serves in declared for name in serves.get(task, ()))


def sources() -> list[str]:
    """Names of the sources that can be fetched."""
    return sorted(yaml.safe_load((CODE / "corpora" / "sources.yaml").read_text(encoding="utf-8")))


def declared_options(objective: str) -> dict[str, Any]:
    """OPTIONS of an objective's file: name -> default."""
    return _declared(CODE / "objectives" / f"{objective}.py", "OPTIONS") or {}


def _declared(file: Path, name: str) -> Any:
    """Value of a literal at the top of a Python file, read without importing it: importing would load torch."""
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if getattr(target, "id", "") == name:
            return ast.literal_eval(node.value)
    return None


def _at(tree: Any, key: str) -> Any:
    for part in key.split("."):
        tree = tree[part]
    return tree


def _nearest(word: str, words: list[str]) -> str:
    match = difflib.get_close_matches(word, words, n=1, cutoff=0.0)
    return f"the nearest is {match[0]}" if match else "none is known"


def _line(path: Path, item: dict) -> str:
    # A union reports each of its members; their names are not keys of the file.
    place = [str(part) for part in item["loc"]]
    key, value = ".".join(place), item["input"]
    if item["type"] == "extra_forbidden":
        section = _section_of(place[:-1])
        return f"{path}: {key}: unknown key (value {value!r}); {_nearest(place[-1], section)}"
    if item["type"] == "missing":
        return f"{path}: {key}: missing; it is required"
    return f"{path}: {key}: {value!r} is not allowed: {item['msg'].lower()}"


def _section_of(place: list[str]) -> list[str]:
    """Keys that the schema knows at a place of params.yaml."""
    model: Any = Parameters
    for part in place:
        model = model.model_fields[part].annotation if part in getattr(model, "model_fields", {}) else model.__args__[-1]
    return list(model.model_fields)


def _contradictions(parameters: Parameters) -> list[str]:
    unknown = [name for name in parameters.sources if name not in sources()]
    return [
        *(f"sources: {name!r} is not known; {_nearest(name, sources())}" for name in unknown),
        *(line for name in ("lm", "nmt") for line in _task_contradictions(name, parameters.task(name))),
        *_probe_contradictions(parameters.lm.probe),
        *(line for task in ("lm", "nmt") for line in _run_contradictions(parameters, task)),
    ]


def _task_contradictions(name: str, task: Task) -> list[str]:
    lines, groups, training = [], task.groups, task.training
    if (groups.fractions is None) == (groups.boundaries is None):
        lines.append(f"{name}.groups: declare either fractions or boundaries, and only one of them")
    elif groups.fractions is not None and abs(sum(groups.fractions) - 1.0) > 1e-6:
        lines.append(f"{name}.groups.fractions: {groups.fractions} add to {sum(groups.fractions):g}; they must add to 1")
    if task.corpus not in corpora(name):
        lines.append(f"{name}.corpus: {task.corpus!r} is not known; allowed: {', '.join(corpora(name))}")
    for size, shape in task.sizes.items():
        if shape.width % (2 * shape.heads):
            lines.append(f"{name}.sizes.{size}.heads: {shape.heads}; width {shape.width} must be a multiple of twice that")
    if training.warmup > training.updates:
        lines.append(f"{name}.training.warmup: {training.warmup} is more than the {training.updates} updates")
    if training.block > training.tokens_per_update:
        lines.append(f"{name}.training.block: {training.block} is more than tokens_per_update {training.tokens_per_update}")
    if training.validate_every != "epoch" and training.validate_every > training.updates:
        lines.append(f"{name}.training.validate_every: {training.validate_every} is more than the {training.updates} updates")
    return lines


def _probe_contradictions(probe: Probe) -> list[str]:
    if probe.context < probe.window:
        return []
    return [f"lm.probe.context: {probe.context} leaves nothing to score in a window of {probe.window}; it must be smaller"]


def _run_contradictions(parameters: Parameters, task: str) -> list[str]:
    lines, tree = [], parameters.model_dump()
    sizes = list(parameters.task(task).sizes)
    for name, run in getattr(parameters.runs, task).items():
        key = f"runs.{task}.{name}"
        if run.size not in sizes:
            lines.append(f"{key}.size: {run.size!r} is not one of {task}.sizes; {_nearest(run.size, sizes)}")
        try:
            _at(tree, run.knob)
        except (KeyError, TypeError):
            lines.append(f"{key}.knob: {run.knob!r} is no key of params.yaml; {_nearest(run.knob, list(tree))}")
        if run.objective not in objectives():
            lines.append(f"{key}.objective: {run.objective!r} has no file; {_nearest(run.objective, objectives())}")
        else:
            lines += _option_contradictions(key, run)
    return lines


def _option_contradictions(key: str, run: RunLine) -> list[str]:
    options, lines = declared_options(run.objective), []
    knob = run.knob.rsplit(".", 1)[-1]
    if knob != "seed" and knob not in options:
        lines.append(f"{key}.knob: {run.knob!r} is no option of {run.objective}; allowed: seed, {', '.join(options)}")
    for name, value in (run.model_extra or {}).items():
        if name not in options:
            allowed = ["size", "objective", "knob", "seed", *options]
            lines.append(f"{key}.{name}: unknown key (value {value!r}); {_nearest(name, allowed)}")
        elif not _like(value, options[name]):
            lines.append(f"{key}.{name}: {value!r} is not allowed: should be a {type(options[name]).__name__}")
    return lines


def _like(value: Any, default: Any) -> bool:
    if isinstance(default, bool) or isinstance(value, bool):
        return isinstance(default, bool) and isinstance(value, bool)
    if isinstance(default, float):
        return isinstance(value, int | float)
    return default is None or isinstance(value, type(default))
