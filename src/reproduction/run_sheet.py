"""Runs of the run sheet with all parameters resolved: as their job specifications contain them, and as the reports use them."""

from typing import Any

from raretokens.claims.scores import SheetLine
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


class Sheet(Section):
    """The run sheet of a scale, with the text of each task."""

    scale: str
    corpora: dict[str, str]  # task -> the text of this scale
    baselines: dict[str, dict[str, str]]  # task -> score file that needs no model -> its corpus
    runs: dict[str, dict[str, SheetLine]]  # task -> run -> line, in the order of the run sheet
