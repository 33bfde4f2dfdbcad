"""What a run's training is told; all that can change its result, beside token files and code."""

from typing import Annotated, Literal

from pydantic import Field, PositiveFloat, PositiveInt

from raretokens.run import Run
from raretokens.sections import Section, Strict
from raretokens.subword.groups import Groups

Beta = Annotated[float, Field(ge=0.0, lt=1.0)]


class Training(Strict):
    """Recipe of a run."""

    updates: PositiveInt
    tokens_per_update: PositiveInt  # of all devices together
    block: PositiveInt  # tokens of a sequence; of translation the longest sentence
    peak_lr: PositiveFloat
    warmup: PositiveInt  # updates
    betas: Annotated[list[Beta], Field(min_length=2, max_length=2)] = [0.9, 0.98]  # of Adam
    weight_decay: Annotated[float, Field(ge=0.0)]
    label_smoothing: Annotated[float, Field(ge=0.0, lt=1.0)]
    validate_every: PositiveInt | Literal["epoch"]
    validation_tokens: PositiveInt | None = None  # from the start of the text; None: all
    keep: PositiveInt | Literal["best"]  # of the validated checkpoints: the mean of the last ones, or the best
    snapshot_every: PositiveInt  # updates between two copies of the table
    precision: Literal["float32", "bfloat16"] = "float32"


class Job(Section):
    run: Run
    training: Training
    groups: Groups
