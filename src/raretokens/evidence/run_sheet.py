"""What reports need of params.yaml: the run sheet, and the text of each task."""

from typing import Any

from raretokens.schema import Section


class SheetLine(Section):
    """A run with everything resolved: seed and options are those that it trains with."""

    model: str
    objective: str
    seed: int
    tokens: str  # folder of its token files
    reverse: bool = False
    init_from: str | None = None  # run that it starts from
    options: dict[str, Any] = {}  # of the objective
    parameters_hash: str = ""  # of the parameters of all its stages; its score has the same if it was made with them

    def same_model(self, other: "SheetLine") -> bool:
        """The same architecture on the same text in the same direction, whatever the objective."""
        return (self.model, self.tokens, self.reverse) == (other.model, other.tokens, other.reverse)

    def same_but_seed(self, other: "SheetLine") -> bool:
        return self.replaced(seed=other.seed, parameters_hash=other.parameters_hash) == other


class Sheet(Section):
    scale: str
    corpora: dict[str, str]  # task -> the text of this scale
    baselines: dict[str, dict[str, str]]  # task -> score file that needs no model -> its corpus
    runs: dict[str, dict[str, SheetLine]]  # task -> run -> line, in the order of the run sheet
