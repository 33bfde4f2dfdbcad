"""Reading params.yaml, checked as a whole before any work."""

from pathlib import Path

from raretokens.config.contradictions import contradictions
from raretokens.config.schema import schema
from raretokens.errors import UserError
from raretokens.paths import PARAMETERS
from raretokens.tasks.parameters import Parameters
from raretokens.yaml_files import checked, read_yaml


def load(path: Path = PARAMETERS) -> Parameters:
    """Read and check params.yaml.

    Raises UserError with one line per mistake: unknown keys, wrong types, runs that name a missing objective, size or
    corpus, contradictory values.
    """
    if not path.exists():
        raise UserError(f"{path}: no such file; run from the folder of a scale (the top level or scales/*)")
    parameters = checked(schema(), read_yaml(path), path)
    mistakes = [f"{path}: {line}" for line in contradictions(parameters)]
    if mistakes:
        raise UserError("\n".join(mistakes))
    return parameters
