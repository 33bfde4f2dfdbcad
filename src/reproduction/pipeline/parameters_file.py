"""Schema of params.yaml, which is read as one frozen object and validated before any work."""

from functools import cache
from pathlib import Path

from pydantic import create_model

from raretokens.errors import UserError
from raretokens.languages import two_letters
from raretokens.schema import Strict
from raretokens.yaml_files import checked, read_yaml
from reproduction import tasks
from reproduction.paths import PARAMETERS
from reproduction.pipeline.checks import mistakes
from reproduction.tasks.parameters import Line, Name, Parameters, PreparedCorpus, TaskSettings


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
