"""What no schema can say of params.yaml: names that must exist, and values that contradict each other."""

import ast
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raretokens.errors import nearest

if TYPE_CHECKING:
    from raretokens.config import Groups, Parameters, Probe, RunLine, Task

CODE = Path(__file__).parent


def contradictions(parameters: "Parameters") -> list[str]:
    """One line for each mistake: key, value, what is allowed."""
    unknown = [name for name in parameters.sources if name not in sources()]
    return [
        *(f"sources: {name!r} is not known; {nearest(name, sources())}" for name in unknown),
        *(line for name in ("lm", "nmt") for line in _task_contradictions(name, parameters.task(name))),
        *(line for name in ("lm", "nmt") for line in _vocabulary_contradictions(parameters, name)),
        *_group_contradictions("words", parameters.words.groups),
        *_probe_contradictions(parameters.lm.probe),
        *(line for name in ("lm", "nmt") for line in _curve_contradictions(parameters, name)),
        *(line for task in ("lm", "nmt") for line in _run_contradictions(parameters, task)),
    ]


def _group_contradictions(name: str, groups: "Groups") -> list[str]:
    if (groups.fractions is None) == (groups.boundaries is None):
        return [f"{name}.groups: declare either fractions or boundaries, and only one of them"]
    if groups.fractions is not None and abs(sum(groups.fractions) - 1.0) > 1e-6:
        return [f"{name}.groups.fractions: {groups.fractions} add to {sum(groups.fractions):g}; they must add to 1"]
    return []


def _task_contradictions(name: str, task: "Task") -> list[str]:
    lines, training = _group_contradictions(name, task.groups), task.training
    if task.corpus not in corpora(name):
        lines.append(f"{name}.corpus: {task.corpus!r} is not known; allowed: {', '.join(corpora(name))}")
    for size, shape in task.sizes.items():
        if shape.width % (2 * shape.heads):
            lines.append(
                f"{name}.sizes.{size}.heads: {shape.heads}; width {shape.width} must be a multiple of twice that"
            )
    if training.warmup > training.updates:
        lines.append(f"{name}.training.warmup: {training.warmup} is more than the {training.updates} updates")
    if training.block > training.tokens_per_update:
        lines.append(
            f"{name}.training.block: {training.block} is more than tokens_per_update {training.tokens_per_update}"
        )
    if training.validate_every != "epoch" and training.validate_every > training.updates:
        lines.append(
            f"{name}.training.validate_every: {training.validate_every} is more than the {training.updates} updates"
        )
    return lines


def _vocabulary_contradictions(parameters: "Parameters", name: str) -> list[str]:
    key, declared = f"{name}.vocabulary", parameters.task(name).vocabulary
    if isinstance(declared, int):
        return []
    lines = []
    if (declared.merges is None) == (declared.model == "bpe"):
        needed = "is needed by" if declared.model == "bpe" else "is not allowed with"
        lines.append(f"{key}.merges: {declared.merges} {needed} model {declared.model}")
    if declared.model == "gpt2" and "gpt2-bpe" not in parameters.sources:
        lines.append(f"{key}.model: gpt2 needs the source gpt2-bpe; name it under sources")
    if name == "lm" and (declared.longest or declared.ratio):
        lines.append(f"{key}: longest and ratio are of pairs; allowed in nmt.vocabulary alone")
    return lines


def _probe_contradictions(probe: "Probe") -> list[str]:
    if probe.context < probe.window:
        return []
    return [
        f"lm.probe.context: {probe.context} leaves nothing to score in a window of {probe.window}; it must be smaller"
    ]


def _curve_contradictions(parameters: "Parameters", task: str) -> list[str]:
    """The table can be projected only at updates at which it was kept."""
    every = parameters.task(task).training.snapshot_every
    wrong = [update for update in getattr(parameters.curves, task) if update % every]
    return [f"curves.{task}: {wrong} are no multiples of {task}.training.snapshot_every ({every})"] if wrong else []


def _run_contradictions(parameters: "Parameters", task: str) -> list[str]:
    lines, tree = [], parameters.model_dump()
    sizes = list(parameters.task(task).sizes)
    for name, run in getattr(parameters.runs, task).items():
        key = f"runs.{task}.{name}"
        if run.size not in sizes:
            lines.append(f"{key}.size: {run.size!r} is not one of {task}.sizes; {nearest(run.size, sizes)}")
        try:
            value_at(tree, run.knob)
        except (KeyError, TypeError):
            lines.append(f"{key}.knob: {run.knob!r} is no key of params.yaml; {nearest(run.knob, list(tree))}")
        if run.objective not in objectives():
            lines.append(f"{key}.objective: {run.objective!r} has no file; {nearest(run.objective, objectives())}")
        else:
            lines += _option_contradictions(key, run)
    return lines


def _option_contradictions(key: str, run: "RunLine") -> list[str]:
    options, lines = declared_options(run.objective), []
    knob = run.knob.rsplit(".", 1)[-1]
    if knob != "seed" and knob not in options:
        lines.append(f"{key}.knob: {run.knob!r} is no option of {run.objective}; allowed: seed, {', '.join(options)}")
    for name, value in (run.model_extra or {}).items():
        if name not in options:
            allowed = [*type(run).model_fields, *options]
            lines.append(f"{key}.{name}: unknown key (value {value!r}); {nearest(name, allowed)}")
        elif not _like(value, options[name]):
            lines.append(f"{key}.{name}: {value!r} is not allowed: should be a {type(options[name]).__name__}")
    return lines


def _like(value: Any, default: Any) -> bool:
    if isinstance(default, bool) or isinstance(value, bool):
        return isinstance(default, bool) and isinstance(value, bool)
    if isinstance(default, float):
        return isinstance(value, int | float)
    return default is None or isinstance(value, type(default))


def objectives() -> list[str]:
    """Names of the objectives: the files of their folder."""
    return sorted(file.stem for file in (CODE / "objectives").glob("*.py") if not file.stem.startswith("_"))


def corpora(task: str) -> list[str]:
    """Names of the corpora of a task, from what the files of their folder declare in SERVES."""
    declared = (_declared(file, "SERVES") or {} for file in (CODE / "corpora").glob("*.py"))
    return sorted(name for serves in declared for name in serves.get(task, ()))


def sources() -> list[str]:
    """Names of the sources that can be fetched."""
    return sorted(path.stem for path in (CODE / "corpora" / "table").glob("*.yaml"))


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


def value_at(tree: Any, key: str) -> Any:
    for part in key.split("."):
        tree = tree[part]
    return tree
