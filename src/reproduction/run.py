"""A run with all parameters resolved, as its job specifications contain it."""

from typing import Any

from raretokens.schema import Section


class Run(Section):
    """One training run."""

    name: str
    task: str  # module in tasks/
    tokens: str  # name of the folder of its token files
    objective: str
    model: str  # name of its model config
    architecture: str  # module in models/
    shape: dict[str, Any]  # parameters that the architecture declares in SHAPE -> value
    seed: int
    options: dict[str, Any]  # options of the objective that differ from their defaults
    reverse: bool = False  # translate from target to source
    init_from: str | None = None  # run of the same task whose kept weights initialise this one
