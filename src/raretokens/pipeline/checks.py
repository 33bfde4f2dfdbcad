"""What no schema can say of params.yaml: names that must exist, and values that contradict each other.

Each mistake is one line: key, value, what is allowed.
"""

from collections.abc import Iterator
from typing import Any

from raretokens import tasks
from raretokens.corpora.names import corpora, lenders, sources
from raretokens.errors import UserError, nearest
from raretokens.literals import Option, option
from raretokens.models.shapes import shape_of
from raretokens.objectives.registry import known
from raretokens.schema import unknown_key
from raretokens.tasks import describe
from raretokens.tasks.parameters import Line, Parameters, PreparedCorpus, TaskSettings, value_at
from raretokens.tokenization.config import Groups, Subword
from raretokens.tokenization.vocabulary import SPECIALS
from raretokens.training.config import RuleChoice, Training, known_rules

SPLITS = ("train", "valid", "test")


def mistakes(parameters: Parameters) -> Iterator[str]:
    for name in parameters.sources:
        if name not in sources():
            yield f"sources: {name!r} is not known; {nearest(name, sources())}"
    if twice := sorted({name for name in parameters.sources if parameters.sources.count(name) > 1}):
        yield f"sources: {', '.join(twice)} stands there twice"
    yield from _corpora(parameters)
    yield from _tokens(parameters)
    for task in tasks.names():
        settings, lines = parameters.task(task), parameters.lines(task)
        if settings:
            yield from _task(task, settings)
        elif lines:
            yield f"{task}: missing; runs.{task} needs it"
            continue
        continued = getattr(parameters.continued, task)
        for name, line in lines.items():
            sheet = "continued" if name in continued else "runs"
            yield from _line(f"{sheet}.{task}.{name}", parameters, task, line)
        yield from _continued(task, getattr(parameters.runs, task), continued)


def _corpora(parameters: Parameters) -> Iterator[str]:
    for name, declared in parameters.corpora.items():
        key = f"corpora.{name}"
        if declared.task not in tasks.names():
            yield f"{key}.task: {declared.task!r} is not known; allowed: {', '.join(tasks.names())}"
        elif parameters.task(declared.task) is None:
            yield f"{declared.task}: missing; {key} needs it"
        elif declared.corpus not in (known_corpora := corpora(describe(declared.task).kind)):
            allowed = ", ".join(known_corpora)
            yield f"{key}.corpus: {declared.corpus!r} is not known; allowed for {declared.task}: {allowed}"
        else:
            yield from _languages(f"{key}.languages", declared)
            yield from _tests(f"{key}.extra_tests", declared, parameters)


def _tests(key: str, declared: PreparedCorpus, parameters: Parameters) -> Iterator[str]:
    own = {name.removeprefix("nmt-").removesuffix("-source") for name in parameters.own if name.endswith("-source")}
    known = [*lenders(), *sorted(own - {*SPLITS})]
    for test in declared.extra_tests:
        if test not in known:
            yield f"{key}: {test!r} is not known; allowed: {', '.join(known)}"
    if declared.extra_tests and describe(declared.task).kind == "text":
        yield f"{key}: {declared.extra_tests} are of pairs; not allowed in a text of one side"


def _languages(key: str, declared: PreparedCorpus) -> Iterator[str]:
    sides = ("text",) if describe(declared.task).kind == "text" else ("source", "target")
    if declared.languages and declared.corpus != "own":
        yield f"{key}: {declared.languages} is not allowed: the languages of {declared.corpus} are known"
    elif declared.languages and tuple(sorted(declared.languages)) != sides:
        yield f"{key}: {declared.languages} is not allowed: should have {' and '.join(sides)}"


def _tokens(parameters: Parameters) -> Iterator[str]:
    for name, declared in parameters.tokens.items():
        if declared.corpus not in parameters.corpora:
            yield (f"tokens.{name}.corpus: {declared.corpus!r} is not one of corpora; "
                   f"{nearest(declared.corpus, parameters.corpora)}")  # fmt: skip
            continue
        yield from _groups(f"tokens.{name}.groups", declared.groups)
        if isinstance(declared.vocabulary, Subword):
            yield from _subword(f"tokens.{name}.vocabulary", declared.vocabulary, parameters, name)
    for name in parameters.alignments:
        if name not in parameters.tokens:
            yield f"alignments.{name}: not one of tokens; {nearest(name, parameters.tokens)}"
        elif _sides(parameters, name) == 1:
            yield f"alignments.{name}: a text of one side has no links; allowed: tokens of pairs"


def _groups(key: str, groups: Groups) -> Iterator[str]:
    if (groups.fractions is None) == (groups.boundaries is None):
        yield f"{key}: declare either fractions or boundaries, and only one of them"
    elif groups.fractions is not None and abs(sum(groups.fractions) - 1.0) > 1e-6:
        yield f"{key}.fractions: {groups.fractions} add to {sum(groups.fractions):g}; they must add to 1"
    elif groups.boundaries is not None and not len(SPECIALS) <= groups.boundaries[0] < groups.boundaries[1]:
        yield f"{key}.boundaries: {groups.boundaries} must rise, from {len(SPECIALS)} at least"


def _subword(key: str, declared: Subword, parameters: Parameters, tokens: str) -> Iterator[str]:
    if (declared.merges is None) == (declared.model == "bpe"):
        needed = "is needed by" if declared.model == "bpe" else "is not allowed with"
        yield f"{key}.merges: {declared.merges} {needed} model {declared.model}"
    if declared.model == "gpt2" and "gpt2-bpe" not in parameters.sources:
        yield f"{key}.model: gpt2 needs the source gpt2-bpe; name it under sources"
    if _sides(parameters, tokens) == 1 and (declared.longest or declared.ratio):
        yield f"{key}: longest and ratio are of pairs; not allowed in a text of one side"


def _sides(parameters: Parameters, tokens: str) -> int | None:
    """Of a text that is cut into tokens; None where its corpus is wrong itself."""
    corpus = parameters.corpora.get(parameters.tokens[tokens].corpus)
    return len(describe(corpus.task).sides) if corpus and corpus.task in tasks.names() else None


def _task(name: str, task: TaskSettings) -> Iterator[str]:
    for size, declared in task.sizes.items():
        yield from _size(f"{name}.sizes.{size}", declared.architecture, declared.shape)
        if declared.rule:
            yield from _rule(f"{name}.sizes.{size}.rule", declared.rule)
        mistakes = _recipe(f"{name}.training", declared.training(task.training))
        yield from (
            f"{name}.sizes.{size}: {line}"
            for line in mistakes
            if line not in _recipe(f"{name}.training", task.training)
        )
        every = declared.snapshot_every
        if every and task.curves and all(update % every for update in task.curves):
            allowed = f"one of {name}.curves {task.curves} must be a multiple of it"
            yield f"{name}.sizes.{size}.snapshot_every: {every} is not allowed: {allowed}"
    yield from _rule(f"{name}.training.rule", task.training.rule)
    yield from _recipe(f"{name}.training", task.training)
    every = task.training.snapshot_every  # the table can be projected only at updates at which it was kept
    if wrong := [update for update in task.curves if update % every]:
        yield f"{name}.curves: {wrong} are no multiples of {name}.training.snapshot_every ({every})"
    probe = getattr(task, "probe", None)
    if probe and probe.context >= probe.window:
        yield (f"{name}.probe.context: {probe.context} leaves nothing to score in a window of {probe.window}; "
               "it must be smaller")  # fmt: skip


def _recipe(key: str, training: Training) -> Iterator[str]:
    if training.warmup > training.updates:
        yield f"{key}.warmup: {training.warmup} is more than the {training.updates} updates"
    if training.block > training.tokens_per_update:
        yield f"{key}.block: {training.block} is more than tokens_per_update {training.tokens_per_update}"
    if training.validate_every != "epoch" and training.validate_every > training.updates:
        yield f"{key}.validate_every: {training.validate_every} is more than the {training.updates} updates"


def _size(key: str, architecture: str, values: dict[str, Any]) -> Iterator[str]:
    try:
        shape = shape_of(architecture, values, key)
    except UserError as error:
        yield from str(error).split("\n")
        return
    if "heads" in shape and shape["width"] % (2 * shape["heads"]):
        yield f"{key}.heads: {shape['heads']}; width {shape['width']} must be a multiple of twice that"


def _rule(key: str, rule: RuleChoice) -> Iterator[str]:
    if rule.name in known_rules():
        declared = {name: option(value) for name, value in known_rules()[rule.name].items()}
        yield from _options(key, rule.options, declared, ["name"])
    else:
        yield f"{key}.name: {rule.name!r} has no file; {nearest(rule.name, known_rules())}"


def _line(key: str, parameters: Parameters, task: str, line: Line) -> Iterator[str]:
    sizes = parameters.task(task).sizes
    if line.size not in sizes:
        yield f"{key}.size: {line.size!r} is not one of {task}.sizes; {nearest(line.size, sizes)}"
    if line.tokens not in parameters.tokens:
        yield f"{key}.tokens: {line.tokens!r} is not one of tokens; {nearest(line.tokens, parameters.tokens)}"
    else:
        yield from _text(f"{key}.tokens", parameters, task, line.tokens)
    if line.objective not in known():
        yield f"{key}.objective: {line.objective!r} has no file; {nearest(line.objective, known())}"
        return
    yield from _options(key, line.options, known()[line.objective].options, [*type(line).model_fields])
    if line.knob:
        yield from _knob(f"{key}.knob", parameters, line, known()[line.objective].options)


def _continued(task: str, runs: dict[str, Line], continued: dict[str, Line]) -> Iterator[str]:
    """Runs that start from others, which must be there and read the same tokens."""
    for name, line in continued.items():
        key, first = f"continued.{task}.{name}", runs.get(line.after)
        if name in runs:
            yield f"{key}: runs.{task} has a run of that name; it needs another"
        if first is None:
            yield f"{key}.after: {line.after!r} is not one of runs.{task}; {nearest(line.after, runs)}"
        elif first.tokens != line.tokens:
            yield f"{key}.tokens: {line.tokens!r}; {line.after} reads {first.tokens!r}, and so must this run"


def _text(key: str, parameters: Parameters, task: str, tokens: str) -> Iterator[str]:
    corpus = parameters.corpora.get(parameters.tokens[tokens].corpus)
    if corpus and corpus.task in tasks.names() and describe(corpus.task).kind != describe(task).kind:
        yield f"{key}: {tokens!r} is text of {corpus.task}; a run of {task} needs another"
    elif len(describe(task).sides) == 2 and tokens not in parameters.alignments:
        yield f"{key}: {tokens!r} is not aligned; name it under alignments"


def _options(key: str, given: dict[str, Any], declared: dict[str, Option], keys: list[str]) -> Iterator[str]:
    """keys: what may stand there that is no option."""
    for name, value in given.items():
        if name not in declared:
            yield unknown_key(key, name, value, [*keys, *declared])
        elif not declared[name].accepts(value):
            yield f"{key}.{name}: {value!r} is not allowed: should be {declared[name].allowed}"


def _knob(key: str, parameters: Parameters, line: Line, declared: dict[str, Option]) -> Iterator[str]:
    tree = parameters.model_dump()
    wanted = declared.get(line.knob.rsplit(".", 1)[-1])
    if wanted is None:
        yield f"{key}: {line.knob!r} is no option of {line.objective}; allowed: {', '.join(declared) or 'none'}"
    try:
        value = value_at(tree, line.knob)
    except (KeyError, TypeError):
        yield f"{key}: {line.knob!r} is no key of params.yaml; {nearest(line.knob, tree)}"
        return
    if wanted is not None and not wanted.accepts(value):
        yield f"{key}: {line.knob} is {value!r}; should be {wanted.allowed}"
