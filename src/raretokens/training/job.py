"""What a run's training is told; all that can change its result, beside token files and code."""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, PositiveFloat

from raretokens.run import Run
from raretokens.sections import Count, Length, Section, Strict
from raretokens.subword.groups import Groups

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

    updates: Count
    tokens_per_update: Count  # of all devices together
    block: Length  # tokens of a sequence; of translation the longest sentence
    peak_lr: PositiveFloat
    rule: RuleChoice = RuleChoice()
    warmup: Count = 1  # updates, of warmup_adam
    betas: Annotated[list[Beta], Field(min_length=2, max_length=2)] = [0.9, 0.98]  # of Adam
    weight_decay: Annotated[float, Field(ge=0.0)]
    label_smoothing: Annotated[float, Field(ge=0.0, lt=1.0)]
    validate_every: Count | Literal["epoch"]
    validation_tokens: Count | None = None  # from the start of the text; None: all
    stop_window: Count | None = None  # end when a validation is worse than the best of all but so many before it
    keep: Count | Literal["best"]  # of the validated checkpoints: the mean of the last ones, or the best
    snapshot_every: Count  # updates between two copies of the table
    precision: Literal["float32", "bfloat16"] = "float32"


class Job(Section):
    run: Run
    training: Training
    groups: Groups
