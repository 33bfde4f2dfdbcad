"""What a paper concludes, as a comparison that a machine can check: data/paper/claims/<paper>.yaml."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from raretokens.reporting.tasks import TaskName
from raretokens.sections import Section

Moment = Literal["first", "last", "lowest", "highest", "until"]


class Side(Section):
    """One of the two numbers."""

    runs: list[str] = Field(min_length=1, description="names that are tried in order")
    metric: str = Field(description="path in the score file; with `at`, series.group (or series) of the run's points")
    at: Annotated[float, Field(ge=0, le=1)] | Moment | None = Field(None, description="where the curve is read off")
    data: bool = Field(False, description="a run that needs no model")
    printed: tuple[str, str, str, str] | None = Field(
        None, description="file, row, column and group of the printed number; group *: the mean of all"
    )


class Claim(Section):
    paper: str = Field("", description="the file's name")
    place: str = Field(description="in the paper; `table 3` and `figure 2` become links")
    statement: str = Field(description="the conclusion, as a sentence without its full stop")
    task: TaskName = Field(description="of the runs")
    left: Side = Field(description="the number that the statement is about")
    right: Side | None = Field(None, description="what it is compared with; absent: left itself is the effect")
    effect: Literal["ratio", "difference", "value"] = Field(description="left over right, left less right, or left")
    expect: Literal["lower", "higher"] = Field(description="on which side of `than` the effect should lie")
    than: float | None = Field(None, description="of the effect; absent: 1 for a ratio, else 0")
    unprinted: str | None = Field(None, description="why the paper prints no such effect")

    @property
    def sides(self) -> dict[str, Side]:
        return {"left": self.left, **({"right": self.right} if self.right else {})}

    @property
    def threshold(self) -> float:
        return self.than if self.than is not None else {"ratio": 1.0}.get(self.effect, 0.0)

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if (self.right is None) != (self.effect == "value"):
            raise ValueError("a value stands alone; a ratio and a difference need left and right")
        if (self.unprinted is None) != all(side.printed for side in self.sides.values()):
            raise ValueError("declare what is printed for each side, or in `unprinted` why it is not")
        return self
