"""What reports need of params.yaml: the run sheet, and the text of each task."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from raretokens.config import Parameters


@dataclass(frozen=True)
class SheetLine:
    """A run with everything resolved: seed and options are those that it trains with."""

    size: str
    objective: str
    seed: int
    tokens: str  # folder of data/tokens
    reverse: bool = False
    options: tuple[tuple[str, Any], ...] = ()  # of the objective, sorted by name

    def same_but_seed(self, other: "SheetLine") -> bool:
        return replace(self, seed=other.seed) == other


@dataclass(frozen=True)
class Sheet:
    scale: str
    corpora: dict[str, str]  # task -> the text of this scale
    runs: dict[str, dict[str, SheetLine]]  # task -> run -> line, in the order of the run sheet

    @classmethod
    def of(cls, parameters: "Parameters") -> "Sheet":
        tasks = type(parameters.runs).model_fields
        return cls(
            parameters.scale,
            {task: parameters.task(task).corpus for task in tasks},
            {task: {name: _line(parameters, task, name) for name in getattr(parameters.runs, task)} for task in tasks},
        )


def _line(parameters: "Parameters", task: str, name: str) -> SheetLine:
    run = parameters.run(task, name)
    options = tuple(sorted(run.options.items()))
    return SheetLine(run.size, run.objective, run.seed, run.tokens, run.reverse, options)
