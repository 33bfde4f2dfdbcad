"""Schema of a claim, which is a conclusion of a paper as a comparison of runs: data/paper/claims/<paper>.yaml.

The preconditions of claims are declared in data/paper/preconditions.yaml.
"""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from raretokens.papers.task_names import TaskName
from raretokens.schema import Section

Moment = Literal["first", "last", "lowest", "highest", "until"]
EffectKind = Literal["ratio", "difference", "value"]
OWN = {"interpretation": "our interpretation", "control": "our control", "experiment": "our experiment"}


class Side(Section):
    """One of the two numbers of a comparison."""

    runs: list[str] = Field(min_length=1, description="names that are tried in order")
    metric: str = Field(description="path in the score file; with `at`, series.group (or series) of the run's points")
    at: Annotated[float, Field(ge=0, le=1)] | Moment | None = Field(None, description="where the curve is read off")
    data: bool = Field(False, description="a run that needs no model")
    reported: tuple[str, str, str, str] | None = Field(
        None, description="file, row, column and group of the reported number; group *: the mean of all"
    )


class Control(Section):
    """The same effect in runs without the cause. It is subtracted from the claim's effect, or divides a ratio."""

    left: Side = Field(description="in the place of the claim's left side")
    right: Side | None = Field(None, description="in the place of its right side")


class Reference(Section):
    """The metric of another run, which a precondition uses as a bound."""

    run: list[str] = Field(min_length=1, description="names that are tried in order")
    metric: str = Field(description="path in its score file")


class Precondition(Section):
    """A condition on the runs of a claim. The claim is not testable on runs that do not meet it."""

    metric: str = Field(description="path in the score file of the run that is asked")
    of: Literal["left", "right", "both"] | None = Field(None, description="the side whose run is asked")
    run: list[str] = Field([], description="another run instead, names that are tried in order")
    least: float | None = Field(None, description="the number must be at least this")
    most: float | None = Field(None, description="the number must be at most this")
    above: Reference | None = Field(None, description="the number must be above that of this run")
    below: Reference | None = Field(None, description="the number must be below that of this run")
    reason: str = Field(description="why the claim cannot be tested otherwise; shown with the verdict")

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if (self.of is None) == (not self.run):
            raise ValueError("declare either of or run")
        if all(bound is None for bound in (self.least, self.most, self.above, self.below)):
            raise ValueError("declare least, most, above or below")
        return self


class Claim(Section):
    """A conclusion of a paper as a comparison of runs, or our own interpretation, control or experiment."""

    file: str = Field("", description="its name without .yaml; never written")
    paper: str = Field("", description="as reports call it; absent: the file's name")
    kind: Literal["conclusion", "interpretation", "control", "experiment"] = Field(
        "conclusion", description="a conclusion of the paper, our interpretation of its numbers, our control or our experiment"
    )
    tables: list[int] = Field([], description="of the paper, by number")
    figures: list[int] = Field([], description="of the paper, by number")
    section: str = Field("", description="of the paper")
    statement: str = Field(description="the conclusion, as a sentence without its full stop")
    task: TaskName = Field(description="of the runs")
    left: Side = Field(description="the number that the statement is about")
    right: Side | None = Field(None, description="what it is compared with; absent: left itself is the effect")
    effect: EffectKind = Field(description="left divided by right, left minus right, or left")
    expect: Literal["lower", "higher", "same"] = Field(
        description="where the effect should lie: lower or higher than `than`, or the same"
    )
    than: float | None = Field(None, description="of the effect; absent: 1 for a ratio, else 0")
    margin: float | None = Field(
        None, gt=0, description="of `same`: what counts as no change; of a ratio a factor less 1"
    )
    control: Control | None = Field(None, description="the same effect where the cause is absent")
    needs: list[str] = Field([], description="preconditions, by name")
    main: str | None = Field(
        None, description="of the few that the papers stand or fall with: its name in headline.json"
    )
    why: str = Field("", description="what evidence says about why it fails; {claim} stands for that claim's effect")
    but: str = Field("", description="a caveat where it is reproduced; {claim} as in why")
    unreported: str | None = Field(None, description="why the paper prints no such effect")

    @property
    def sides(self) -> dict[str, Side]:
        return _sides(self)

    @property
    def all_sides(self) -> dict[str, Side]:
        """The sides of the claim, then those of its control, whose names begin with `control.`."""
        control = _sides(self.control) if self.control else {}
        return {**self.sides, **{f"control.{name}": side for name, side in control.items()}}

    @property
    def is_ours(self) -> bool:
        """Whether the claim is our interpretation, control or experiment instead of a conclusion of the paper."""
        return self.kind != "conclusion"

    @property
    def place(self) -> str:
        """The claim's place in the paper, followed by its kind unless the kind is a conclusion."""
        lists = (("table", self.tables), ("figure", self.figures))
        named = [
            f"{name}{'s' if numbers[1:] else ''} {', '.join(map(str, numbers))}" for name, numbers in lists if numbers
        ]
        further = [self.section, OWN.get(self.kind, "")]
        first, *rest = filter(None, (*named, *further))
        return " ".join([first, *(f"({part})" for part in rest)])

    @property
    def comparison_key(self) -> str:
        """A key of the comparison. It is equal for two papers that conclude the same about one metric."""
        measured = {"task", "left", "right", "effect", "expect", "than", "margin", "control"}
        sides = ("left", "right")
        return self.model_dump_json(include=measured, exclude={side: {"reported"} for side in sides})

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
        return {"ratio": 1.0}.get(self.effect, 0.0)

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if not (self.tables or self.figures or self.section):
            raise ValueError("declare its tables, figures or section")
        if (self.margin is None) == (self.expect == "same"):
            raise ValueError("a claim that expects the same needs a margin, and no other has one")
        if self.control and (self.control.right is None) != (self.right is None):
            raise ValueError("a control has the sides of its claim")
        if (self.right is None) != (self.effect == "value"):
            raise ValueError("a value stands alone; a ratio and a difference need left and right")
        if (self.unreported is None) != all(side.reported for side in self.sides.values()):
            raise ValueError("declare what is reported for each side, or in `unreported` why it is not")
        return self


def _sides(of: Claim | Control) -> dict[str, Side]:
    return {"left": of.left, **({"right": of.right} if of.right else {})}
