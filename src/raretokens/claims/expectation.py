"""What a claim expects: an effect of a metric between two systems, and its side of a threshold or margin."""

from abc import abstractmethod
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from raretokens.schema import Section

Moment = Literal["first", "last", "lowest", "highest", "until"]
EffectKind = Literal["ratio", "difference", "value"]
NEUTRAL: dict[EffectKind, float] = {"ratio": 1.0, "difference": 0.0, "value": 0.0}  # the effect of no change


class Side(Section):
    """One of the two numbers of a comparison."""

    runs: list[str] = Field(min_length=1, description="run names; the first name on the run sheet counts")
    metric: str = Field(
        description="path in the score file; with `at`, series.group (or series) of the points of the run"
    )
    at: Annotated[float, Field(ge=0, le=1)] | Moment | None = Field(
        None, description="position on the curve at which the value is read"
    )
    data: bool = Field(False, description="whether the run needs no model")


class Expectation(Section):
    """An expected effect of a metric: what every claim has, whoever makes it."""

    paper: str = Field("", description="name of the paper in reports; default: the file name")
    statement: str = Field(description="the conclusion as a sentence, without the full stop")
    effect: EffectKind = Field(description="ratio: left divided by right; difference: left minus right; value: left")
    expect: Literal["lower", "higher", "same"] = Field(
        description="expected position of the effect: lower or higher than `than`, or the same"
    )
    than: float | None = Field(
        None, allow_inf_nan=False, description="threshold of the effect; default: 1 for a ratio, otherwise 0"
    )
    margin: float | None = Field(
        None, gt=0, allow_inf_nan=False, description="largest deviation that counts as the same; for a ratio, a factor minus 1"
    )

    @property
    @abstractmethod
    def sides(self) -> dict[str, Side]:
        """The two sides of the comparison, or the left side alone; keys: left, right."""

    @property
    def all_sides(self) -> dict[str, Side]:
        """The sides of the claim, then those of its control, whose names begin with `control.`."""
        return self.sides

    @property
    def lacks_control(self) -> bool:
        """Whether the claim has a control whose effect is not reported."""
        return False

    @property
    def has_comparable_size(self) -> bool:
        """Whether the effect can be compared with the reported one in size. A claim of no change has no size."""
        return self.margin is None and not self.lacks_control

    @property
    def threshold(self) -> float:
        return self.than if self.than is not None else self.neutral

    @property
    def margins(self) -> tuple[float, float]:
        """Lowest and highest effect that count as no change. The margin of a ratio is a factor minus 1."""
        reach = self.margin or 0.0
        if self.effect == "ratio":
            return self.threshold / (1 + reach), self.threshold * (1 + reach)
        return self.threshold - reach, self.threshold + reach

    @property
    def neutral(self) -> float:
        """The effect of no change."""
        return NEUTRAL[self.effect]

    @model_validator(mode="after")
    def _expected(self) -> Self:
        if (self.margin is None) == (self.expect == "same"):
            raise ValueError("`margin` is required with `expect: same`, and not allowed otherwise")
        if ("right" not in self.sides) != (self.effect == "value"):
            raise ValueError("`effect: value` allows only `left`; ratio and difference need `left` and `right`")
        return self
