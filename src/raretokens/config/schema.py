"""The whole of params.yaml: what all tasks share, and what each adds."""

from functools import cache

from pydantic import create_model

from raretokens import tasks
from raretokens.sections import Strict
from raretokens.tasks.parameters import Name, Parameters
from raretokens.tasks.settings import Line


@cache
def schema() -> type[Parameters]:
    """Parameters with a section and a run sheet for each task."""
    parts = {name: tasks.part(name, "settings") for name in tasks.names()}
    sheets = {name: (dict[Name, part.Line], {}) for name, part in parts.items()}
    continued = {name: (dict[Name, _continued(part.Line)], {}) for name, part in parts.items()}
    sections = {name: (part.Settings | None, None) for name, part in parts.items()}  # None: a scale without it
    further = create_model("Continued", __base__=Strict, **continued)
    return create_model(
        "Parameters",
        __base__=Parameters,
        runs=(create_model("Runs", __base__=Strict, **sheets), ...),
        continued=(further, further()),
        **sections,
    )


def _continued(line: type[Line]) -> type[Line]:
    """A line of a run that starts from the kept weights of another of its task."""
    return create_model("ContinuedLine", __base__=line, after=(str, ...))
