"""Reading of params.yaml as one frozen object, which its schema and further checks validate before any work.

Beyond the schema, names must exist, and values must not contradict each other. Each check yields one line per mistake with key,
value and allowed values.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import create_model

from raretokens.errors import UserError, nearest
from raretokens.languages import two_letters
from raretokens.literals import Option, literal, literals, option
from raretokens.objectives.registry import FOLDER as OBJECTIVES
from raretokens.objectives.registry import known as objectives
from raretokens.schema import Strict, unknown_key
from raretokens.vocabulary import SPECIALS
from raretokens.yaml_files import checked, read_yaml
from reproduction import tasks
from reproduction.corpora.registry import borrowable_tests, known_corpora
from reproduction.corpora.sources import known_sources
from reproduction.corpora.tokenization.settings import Groups, Subword
from reproduction.paths import PARAMETERS
from reproduction.tasks import describe
from reproduction.tasks.parameters import Line, Name, Parameters, PreparedCorpus, TaskSettings, value_at
from reproduction.training.models.shapes import shape_of
from reproduction.training.recipe import RULES, RuleChoice, Training

# Key of a training recipe -> key whose value it must not exceed.
LIMITS = {"warmup": "steps", "block": "tokens_per_step", "validate_every": "steps"}
LONGEST_NAME = 100  # letters; files of a run add up to 60, and a file system allows 255
SIMILARITY = "similarity"  # folder of data/corpus that the stage of that name writes
ROOT = re.compile(r"[\w./ +@,-]+")  # a path with nothing that a shell reads; stages of dvc.yaml contain it
LANGUAGE = re.compile(r"[A-Za-z]{2,3}([-_][A-Za-z0-9]+)*")
Lines = Iterator[str]


def load(path: Path = PARAMETERS) -> Parameters:
    """Read and check params.yaml.

    Raises:
        UserError: with one line per mistake. Mistakes are unknown keys, wrong types, contradictory values, and runs that name a
            missing objective, model config or corpus.
    """
    if not path.exists():
        raise UserError(f"{path}: no such file; run from the folder of a scale (the top level or scales/*)")
    parameters = checked(schema(), read_yaml(path), path)
    lines = [f"{path}: {line}" for line in dict.fromkeys(mistakes(parameters))]
    if lines:
        raise UserError("\n".join(lines))
    return parameters.replaced(corpora={name: _with_languages(corpus) for name, corpus in parameters.corpora.items()})


def _with_languages(corpus: PreparedCorpus) -> PreparedCorpus:
    """Return the corpus with its language codes in the one form that all stages compare."""
    return corpus.replaced(languages={side: two_letters(code) for side, code in corpus.languages.items()})


@cache
def schema() -> type[Parameters]:
    """Build the schema of params.yaml: Parameters with a section and a run sheet for each task."""
    files = {name: tasks.load(name) for name in tasks.names()}
    lines = {name: getattr(file, "Line", Line) for name, file in files.items()}
    sheets = {name: (dict[Name, line], {}) for name, line in lines.items()}
    # A continued run starts from the kept weights of another run of its task.
    continued_lines = {
        name: create_model("ContinuedLine", __base__=line, init_from=(str, ...)) for name, line in lines.items()
    }
    continued = {name: (dict[Name, line], {}) for name, line in continued_lines.items()}
    # A scale without the task has no section (None).
    sections = {name: (getattr(file, "Settings", TaskSettings) | None, None) for name, file in files.items()}
    continued_sheets = create_model("Continued", __base__=Strict, **continued)
    return create_model(
        "Parameters",
        __base__=Parameters,
        runs=(create_model("Runs", __base__=Strict, **sheets), ...),
        continued=(continued_sheets, continued_sheets()),
        **sections,
    )


# Checks beyond the schema


def mistakes(parameters: Parameters) -> Lines:
    if not ROOT.fullmatch(parameters.root):
        yield f"root: {parameters.root!r} is not allowed: should be a path of letters, digits and ./ _ + @ , - alone"
    yield from _long_names(parameters)
    for name, count in Counter(parameters.sources).items():
        yield from _missing("sources", name, known_sources(), "known")
        if count > 1:
            yield f"sources: {name} stands there twice"
    for name, file in parameters.own.items():
        yield from _own_file(f"own.{name}", file)
    for name, corpus in parameters.corpora.items():
        yield from _corpus(f"corpora.{name}", corpus, parameters)
    yield from _baselines(parameters)
    for name in parameters.tokens:
        yield from _tokens(f"tokens.{name}", name, parameters)
    for name in parameters.alignments:
        yield from _alignment(f"alignments.{name}", name, parameters)
    for task in tasks.names():
        if settings := parameters.task(task):
            yield from _task(task, settings)
            yield from _run_sheet(task, parameters)
        elif parameters.lines(task):
            yield f"{task}: missing; runs.{task} needs it"


def _missing(key: str, name: str, known: Collection[str], what: str) -> Lines:
    """Yield a line if a name is unknown."""
    if name not in known:
        yield f"{key}: {name!r} is not {what}; {nearest(name, known)}"


def _long_names(parameters: Parameters) -> Lines:
    """Yield a line for each name that is too long for the files that contain it."""
    sections = {"own": parameters.own, "corpora": parameters.corpora, "tokens": parameters.tokens}
    for task in tasks.names():
        settings = parameters.task(task)
        sections |= {f"{task}.models": settings.models} if settings else {}
        sections |= {f"{sheet}.{task}": getattr(getattr(parameters, sheet), task) for sheet in ("runs", "continued")}
    names = [(f"{section}.{name}", name) for section, entries in sections.items() for name in entries]
    names += [(f"corpora.{name}.baseline", corpus.baseline) for name, corpus in parameters.corpora.items()]
    names += [(f"corpora.{name}.extra_tests", test) for name, one in parameters.corpora.items() for test in one.extra_tests]
    for key, name in [("scale", parameters.scale), *names]:
        if len(name) > LONGEST_NAME:
            yield f"{key}: a name of {len(name)} letters; allowed: at most {LONGEST_NAME}"


# Corpora, tokens and alignments


def _baselines(parameters: Parameters) -> Lines:
    """Yield a line for each score file that two corpora, or a corpus and a run, would write."""
    owners: dict[tuple[str, str], str] = {}
    for name, corpus in parameters.corpora.items():
        if corpus.task not in tasks.names():
            continue
        key, scored = f"corpora.{name}.baseline", (corpus.task, corpus.baseline)
        if corpus.baseline in parameters.lines(corpus.task):
            yield f"{key}: {corpus.baseline!r} is a run of {corpus.task} too; it needs another name"
        if scored in owners:
            yield f"{key}: {corpus.baseline!r} is the baseline of corpora.{owners[scored]} too; it needs another name"
        owners.setdefault(scored, name)


def _own_file(key: str, file: str) -> Lines:
    """Yield a line if DVC, which hashes the file, would resolve the path differently from the stage that reads it."""
    if file.startswith("~"):
        yield f"{key}: {file!r} is not allowed: DVC does not expand ~; write {str(Path(file).expanduser())!r}"
    elif not file.strip() or "://" in file or "${" in file:
        yield f"{key}: {file!r} is not allowed: should be the path of a local file"
    elif Path(file).is_dir():
        yield f"{key}: {file!r} is a folder; allowed: a plain-text file"


def _corpus(key: str, corpus: PreparedCorpus, parameters: Parameters) -> Lines:
    if key == f"corpora.{SIMILARITY}":
        yield f"{key}: the word-similarity sets have the folder of that name; it needs another name"
    if corpus.task not in tasks.names():
        yield f"{key}.task: {corpus.task!r} is not known; allowed: {', '.join(tasks.names())}"
    elif parameters.task(corpus.task) is None:
        yield f"{corpus.task}: missing; {key} needs it"
    elif corpus.corpus not in (known := known_corpora(describe(corpus.task).kind)):
        yield f"{key}.corpus: {corpus.corpus!r} is not known; allowed for {corpus.task}: {', '.join(known)}"
    else:
        yield from _languages(f"{key}.languages", corpus, parameters)
        yield from _extra_tests(f"{key}.extra_tests", corpus, parameters)


def _languages(key: str, corpus: PreparedCorpus, parameters: Parameters) -> Lines:
    sides = ("text",) if describe(corpus.task).kind == "text" else ("source", "target")
    if corpus.languages and corpus.corpus != "own":
        yield f"{key}: {corpus.languages} is not allowed: the languages of {corpus.corpus} are known"
    elif corpus.languages and tuple(sorted(corpus.languages)) != sides:
        yield f"{key}: {corpus.languages} is not allowed: should have {' and '.join(sides)}"
    else:
        for side, language in corpus.languages.items():
            if not LANGUAGE.fullmatch(language):
                yield f"{key}.{side}: {language!r} is not allowed: should be a language code, such as de or zh-CN"
            elif side == "target" or side == "source" and _is_reversed(corpus, parameters):
                from reproduction.tasks.evaluation.bleu import language_tokenizer  # importing sacreBLEU is slow

                try:  # else BLEU could not be computed after training
                    language_tokenizer(language)
                except UserError as error:
                    yield f"{key}.{side}: {error}"


def _is_reversed(corpus: PreparedCorpus, parameters: Parameters) -> bool:
    """Return whether a run translates from the target of the corpus to its source."""
    reversed_lines = (line for line in parameters.lines(corpus.task).values() if getattr(line, "reverse", False))
    named = [parameters.tokens[line.tokens].corpus for line in reversed_lines if line.tokens in parameters.tokens]
    return any(parameters.corpora.get(name) is corpus for name in named)


def _extra_tests(key: str, corpus: PreparedCorpus, parameters: Parameters) -> Lines:
    own = {name.removeprefix("nmt-").removesuffix("-source") for name in parameters.own if name.endswith("-source")}
    known = [*borrowable_tests(), *sorted(own - {"train", "valid", "test"})]
    for test in corpus.extra_tests:
        if test not in known:
            yield f"{key}: {test!r} is not known; allowed: {', '.join(known)}"
    if corpus.extra_tests and describe(corpus.task).kind == "text":
        yield f"{key}: {corpus.extra_tests} are of pairs; not allowed in a text of one side"


def _tokens(key: str, name: str, parameters: Parameters) -> Lines:
    declared = parameters.tokens[name]
    yield from _missing(f"{key}.corpus", declared.corpus, parameters.corpora, "one of corpora")
    yield from _frequency_groups(f"{key}.groups", declared.groups)
    if isinstance(declared.vocabulary, Subword):
        yield from _subword(f"{key}.vocabulary", declared.vocabulary, parameters, name)


def _frequency_groups(key: str, groups: Groups) -> Lines:
    if (groups.fractions is None) == (groups.boundaries is None):
        yield f"{key}: declare either fractions or boundaries, and only one of them"
    elif groups.fractions is not None and abs(sum(groups.fractions) - 1.0) > 1e-6:
        yield f"{key}.fractions: {groups.fractions} add to {sum(groups.fractions):g}; they must add to 1"
    elif groups.boundaries is not None and not len(SPECIALS) <= groups.boundaries[0] < groups.boundaries[1]:
        yield f"{key}.boundaries: {groups.boundaries} must rise, from {len(SPECIALS)} at least"


def _subword(key: str, subword: Subword, parameters: Parameters, tokens: str) -> Lines:
    if (subword.merges is None) == (subword.model == "bpe"):
        needed = "is needed by" if subword.model == "bpe" else "is not allowed with"
        yield f"{key}.merges: {subword.merges} {needed} model {subword.model}"
    if subword.model == "gpt2" and "gpt2-bpe" not in parameters.sources:
        yield f"{key}.model: gpt2 needs the source gpt2-bpe; name it under sources"
    if _sides(parameters, tokens) == 1 and (subword.longest or subword.ratio):
        yield f"{key}: longest and ratio are of pairs; not allowed in a text of one side"


def _alignment(key: str, tokens: str, parameters: Parameters) -> Lines:
    if tokens not in parameters.tokens:
        yield f"{key}: not one of tokens; {nearest(tokens, parameters.tokens)}"
    elif _sides(parameters, tokens) == 1:
        yield f"{key}: a text of one side has no links; allowed: tokens of pairs"


def _sides(parameters: Parameters, tokens: str) -> int | None:
    """Return the number of sides of tokenized text: 2 for sentence pairs. None if its corpus is invalid."""
    corpus = parameters.corpora.get(parameters.tokens[tokens].corpus)
    return len(describe(corpus.task).sides) if corpus and corpus.task in tasks.names() else None


# Settings of a task


def _task(task: str, settings: TaskSettings) -> Lines:
    key, recipe = f"{task}.training", settings.training
    of_task = [*_recipe(key, recipe)]
    for name, size in settings.models.items():
        model_key = f"{task}.models.{name}"
        yield from _shape(model_key, size.architecture, size.shape)
        if size.rule:
            yield from _rule(f"{model_key}.rule", size.rule)
        yield from (f"{model_key}: {line}" for line in _recipe(key, size.training(recipe)) if line not in of_task)
        every = size.snapshot_every
        if every and settings.projection_steps and all(step % every for step in settings.projection_steps):
            allowed = f"one of {task}.projection_steps {settings.projection_steps} must be a multiple of it"
            yield f"{model_key}.snapshot_every: {every} is not allowed: {allowed}"
    yield from _rule(f"{key}.rule", recipe.rule)
    yield from of_task
    # The embedding matrix can be projected only at steps with a snapshot.
    if wrong := [step for step in settings.projection_steps if step % recipe.snapshot_every]:
        yield f"{task}.projection_steps: {wrong} are no multiples of {key}.snapshot_every ({recipe.snapshot_every})"
    context, window = (getattr(getattr(settings, "evaluation", None), name, None) for name in ("context", "window"))
    if context is not None and window is not None and context >= window:
        allowed = f"leaves nothing to score in a window of {window}; it must be smaller"
        yield f"{task}.evaluation.context: {context} {allowed}"
    for query, words in getattr(settings, "neighbour_ranks", {}).items():
        if query in words:
            yield f"{task}.neighbour_ranks.{query}: {query!r} is not its own neighbour; allowed: other words"


def _recipe(key: str, training: Training) -> Lines:
    for name, limit in LIMITS.items():
        value, most = getattr(training, name), getattr(training, limit)
        if value != "epoch" and value > most:
            yield f"{key}.{name}: {value} is more than {limit} ({most})"


def _shape(key: str, architecture: str, values: dict[str, Any]) -> Lines:
    try:
        shape = shape_of(architecture, values, key)
    except UserError as error:
        yield from str(error).split("\n")
        return
    if "heads" in shape and shape["width"] % (2 * shape["heads"]):
        yield f"{key}.heads: {shape['heads']}; width {shape['width']} must be a multiple of twice that"


def _rule(key: str, rule: RuleChoice) -> Lines:
    rules = literals(RULES, "OPTIONS")
    if rule.name in rules:
        declared = {name: option(value) for name, value in rules[rule.name].items()}
        yield from _options(key, rule.options, declared, ["name"])
    else:
        yield f"{key}.name: {rule.name!r} has no file; {nearest(rule.name, rules)}"


# Run sheets


def _run_sheet(task: str, parameters: Parameters) -> Lines:
    runs, continued = (getattr(sheet, task) for sheet in (parameters.runs, parameters.continued))
    for name, line in parameters.lines(task).items():
        yield from _line(f"{'continued' if name in continued else 'runs'}.{task}.{name}", parameters, task, line)
    for name, line in continued.items():
        key, first = f"continued.{task}.{name}", runs.get(line.init_from)
        if name in runs:
            yield f"{key}: runs.{task} has a run of that name; it needs another"
        yield from _missing(f"{key}.init_from", line.init_from, runs, f"one of runs.{task}")
        if first and first.tokens != line.tokens:
            yield f"{key}.tokens: {line.tokens!r}; {line.init_from} reads {first.tokens!r}, and so must this run"


def _line(key: str, parameters: Parameters, task: str, line: Line) -> Lines:
    yield from _missing(f"{key}.model", line.model, parameters.task(task).models, f"one of {task}.models")
    yield from _missing(f"{key}.tokens", line.tokens, parameters.tokens, "one of tokens")
    if line.tokens in parameters.tokens:
        yield from _text(f"{key}.tokens", parameters, task, line.tokens)
    if line.objective not in objectives():
        yield f"{key}.objective: {line.objective!r} has no file; {nearest(line.objective, objectives())}"
        return
    module = objectives()[line.objective].module
    if task not in (allowed := literal(OBJECTIVES / f"{module}.py", "TASKS") or tasks.names()):
        yield f"{key}.objective: {line.objective!r} is not for {task}; allowed: runs of {', '.join(allowed)}"
    declared = objectives()[line.objective].options
    yield from _options(key, line.options, declared, [*type(line).model_fields])
    if line.option_from:
        yield from _option_from(f"{key}.option_from", parameters, line, declared)


def _text(key: str, parameters: Parameters, task: str, tokens: str) -> Lines:
    corpus = parameters.corpora.get(parameters.tokens[tokens].corpus)
    if corpus and corpus.task in tasks.names() and describe(corpus.task).kind != describe(task).kind:
        yield f"{key}: {tokens!r} is text of {corpus.task}; a run of {task} needs another"
    elif len(describe(task).sides) == 2 and tokens not in parameters.alignments:
        yield f"{key}: {tokens!r} is not aligned; name it under alignments"


def _options(key: str, given: dict[str, Any], declared: dict[str, Option], keys: list[str]) -> Lines:
    """Yield a line for each unknown option or invalid value. `keys` are the other allowed keys of the section."""
    for name, value in given.items():
        if name not in declared:
            yield unknown_key(key, name, value, [*keys, *declared])
        elif not declared[name].accepts(value):
            yield f"{key}.{name}: {value!r} is not allowed: should be {declared[name].allowed}"


def _option_from(key: str, parameters: Parameters, line: Line, declared: dict[str, Option]) -> Lines:
    tree = parameters.model_dump()
    wanted = declared.get(line.option_from.rsplit(".", 1)[-1])
    if wanted is None:
        yield f"{key}: {line.option_from!r} is no option of {line.objective}; allowed: {', '.join(declared) or 'none'}"
    try:
        value = value_at(tree, line.option_from)
    except (KeyError, TypeError):
        yield f"{key}: {line.option_from!r} is no key of params.yaml; {nearest(line.option_from, tree)}"
        return
    if wanted is not None and not wanted.accepts(value):
        yield f"{line.option_from}: {value!r} is not allowed: should be {wanted.allowed}"  # the caller removes duplicates
