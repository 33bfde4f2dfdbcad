"""Runs of the run sheet with all parameters resolved: as their job specifications contain them, and as the reports use them."""

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


class SheetLine(Section):
    """A run with its resolved seed and options, as they are used in training."""

    model: str
    objective: str
    seed: int
    tokens: str  # folder of its token files
    reverse: bool = False
    init_from: str | None = None  # run whose weights the run starts from
    options: dict[str, Any] = {}  # options of the objective
    parameters_hash: str = ""  # hash of the parameters of all stages of the run; a current score file contains the same hash

    def same_model(self, other: "SheetLine") -> bool:
        """Whether both runs have the same architecture, text and direction, whatever their objectives."""
        return (self.model, self.tokens, self.reverse) == (other.model, other.tokens, other.reverse)

    def same_but_seed(self, other: "SheetLine") -> bool:
        return self.replaced(seed=other.seed, parameters_hash=other.parameters_hash) == other


class Sheet(Section):
    """The run sheet of a scale, with the text of each task."""

    scale: str
    corpora: dict[str, str]  # task -> the text of this scale
    baselines: dict[str, dict[str, str]]  # task -> score file that needs no model -> its corpus
    runs: dict[str, dict[str, SheetLine]]  # task -> run -> line, in the order of the run sheet
