"""A line of the run sheet with everything resolved, as it stands in the jobs of the run."""

from typing import Any

from raretokens.schema import Section


class Run(Section):
    """One training run."""

    name: str
    task: str  # a folder of tasks/
    tokens: str  # folder of its token files
    objective: str
    size: str  # name of its shape
    architecture: str  # a file of models/
    shape: dict[str, Any]  # SHAPE of that file -> value
    seed: int
    options: dict[str, Any]  # of the objective, where they are not its defaults
    reverse: bool = False  # translation from target to source
    after: str | None = None  # run of the same task whose kept weights it starts from
