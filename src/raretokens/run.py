"""A line of the run sheet with all its parameters resolved, as the jobs of the run have it."""

from typing import Any

from raretokens.schema import Section


class Run(Section):
    """One training run."""

    name: str
    task: str  # a file of tasks/
    tokens: str  # folder of its token files
    objective: str
    model: str  # name of its model config
    architecture: str  # a file of models/
    shape: dict[str, Any]  # SHAPE of that file -> value
    seed: int
    options: dict[str, Any]  # of the objective, where they are not its defaults
    reverse: bool = False  # translation from target to source
    init_from: str | None = None  # run of the same task whose kept weights it starts from
