"""What the sections of all tasks have."""

from typing import Annotated, Any

from pydantic import ConfigDict, Field, PositiveFloat

from raretokens.schema import Count, Length, Name, Seed, Strict
from raretokens.training.config import Beta, RuleChoice, Training

Update = Annotated[int, Field(ge=0)]
# What a size may set otherwise than the task.
INSTEAD = (
    "updates",
    "tokens_per_update",
    "block",
    "peak_lr",
    "warmup",
    "rule",
    "betas",
    "weight_decay",
    "snapshot_every",
    "stop_window",
)


class Size(Strict):
    """A model's architecture; further keys are its shape (SHAPE of the architecture's file)."""

    model_config = ConfigDict(extra="allow")

    architecture: str
    updates: Count | None = None
    tokens_per_update: Count | None = None
    block: Length | None = None
    peak_lr: PositiveFloat | None = None
    warmup: Count | None = None
    rule: RuleChoice | None = None
    betas: Annotated[list[Beta], Field(min_length=2, max_length=2)] | None = None
    weight_decay: Annotated[float, Field(ge=0.0)] | None = None
    snapshot_every: Count | None = None
    stop_window: Count | None = None

    @property
    def shape(self) -> dict[str, Any]:
        return dict(self.model_extra or {})

    def training(self, training: Training) -> Training:
        """The task's recipe, less what this size sets otherwise."""
        own = {name: getattr(self, name) for name in INSTEAD}
        return training.replaced(**{name: value for name, value in own.items() if value is not None})


class TaskSettings(Strict):
    """Section of params.yaml that is called like the task."""

    sizes: dict[Name, Size]
    training: Training
    curves: list[Update] = []  # updates at which the table is projected
    neighbours: list[str] = []  # queries of the nearest-neighbour tables and similarity curves


class Line(Strict):
    """One line of the run sheet. Further keys are options of its objective (OPTIONS in the objective's file)."""

    model_config = ConfigDict(extra="allow")

    tokens: str  # a key of `tokens`
    size: str
    objective: str
    knob: str | None = None  # a key of params.yaml whose value is the option of that name
    seed: Seed | None = None

    @property
    def options(self) -> dict[str, Any]:
        return dict(self.model_extra or {})
