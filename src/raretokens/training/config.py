"""What a run's training is told; all that can change its result, beside token files and code.

How a machine carries a training out: what changes the speed and not the answer.
Which optimizer rules there are, read from their files without importing them.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, PositiveFloat

from raretokens.literals import literal
from raretokens.run import Run
from raretokens.schema import Count, Length, Section, Strict
from raretokens.tokenization.config import Groups

Beta = Annotated[float, Field(ge=0.0, lt=1.0)]


class RuleChoice(Strict):
    """How the weights move: a file of training/rules/. Further keys are its options (OPTIONS of that file)."""

    model_config = ConfigDict(extra="allow")

    name: str = "warmup_adam"

    @property
    def options(self) -> dict[str, Any]:
        return dict(self.model_extra or {})


class Training(Strict):
    """Recipe of a run."""

    steps: Count
    tokens_per_step: Count  # of all devices together
    block: Length  # tokens of a sequence; of translation the longest sentence
    peak_lr: PositiveFloat
    rule: RuleChoice = RuleChoice()
    warmup: Count = 1  # steps, of warmup_adam
    betas: Annotated[list[Beta], Field(min_length=2, max_length=2)] = [0.9, 0.98]  # of Adam
    weight_decay: Annotated[float, Field(ge=0.0)]
    label_smoothing: Annotated[float, Field(ge=0.0, lt=1.0)]
    validate_every: Count | Literal["epoch"]
    validation_tokens: Count | None = None  # from the start of the text; None: all
    stop_window: Count | None = None  # end when a validation is worse than the best of all but so many before it
    keep: Count | Literal["best"]  # of the validated checkpoints: the mean of the last ones, or the best
    snapshot_every: Count  # steps between two copies of the embedding matrix
    precision: Literal["float32", "bfloat16"] = "float32"


class TrainJob(Section):
    run: Run
    training: Training
    groups: Groups


@dataclass(frozen=True)
class Execution:
    micro_batch: int = 2048  # tokens of one forward and backward pass
    workers: int = 0  # processes that prepare updates ahead of the training; 0: it does so itself
    compile: bool = False  # torch.compile of the model
    save_seconds: float = 120.0  # between two saves of the resumable state
    save_updates: int = 0  # saves by number of updates instead, if positive


FOLDER = Path(__file__).with_name("rules")


def known_rules() -> dict[str, dict[str, Any]]:
    """Name -> option -> default."""
    files = sorted(FOLDER.glob("*.py"))
    return {path.stem: options for path in files if (options := literal(path, "OPTIONS")) is not None}
