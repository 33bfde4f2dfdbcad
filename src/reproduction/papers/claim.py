"""Schema of a claim, which is a conclusion of a paper as a comparison of runs: data/paper/claims/<paper>.yaml.

The preconditions of claims are declared in data/paper/preconditions.yaml.
"""

import re
from collections.abc import Hashable
from typing import Literal, Self

from pydantic import Field, model_validator

from raretokens.claims.expectation import Expectation, Side
from raretokens.schema import Section
from reproduction.papers.setting import TaskName

GROUP = re.compile(r"\.(total|freq|med|rare)$")  # end of a metric of one frequency group
OWN = {"interpretation": "our interpretation", "control": "our control", "experiment": "our experiment"}


class ClaimSide(Side):
    """One of the two numbers of a claim, and the number that the paper reports."""

    reported: tuple[str, str, str, str] | None = Field(
        None, description="file, row, column and group of the reported number; group * is the mean of all groups"
    )


class Control(Section):
    """The same effect in runs without the cause. It is subtracted from the claim's effect, or divides a ratio."""

    left: ClaimSide = Field(description="replaces the left side of the claim")
    right: ClaimSide | None = Field(None, description="replaces the right side of the claim")


class Reference(Section):
    """The metric of another run, which a precondition uses as a bound."""

    run: list[str] = Field(min_length=1, description="run names; the first name on the run sheet counts")
    metric: str = Field(description="path in the score file of the run")


class Precondition(Section):
    """A condition on the runs of a claim. The claim is not testable on runs that do not meet it."""

    metric: str = Field(description="path in the score file of the run")
    of: Literal["left", "right", "both"] | None = Field(
        None, description="side of the claim whose run must meet the precondition"
    )
    run: list[str] = Field(
        [], description="names of another run that must meet the precondition; the first on the run sheet counts"
    )
    least: float | None = Field(None, description="lower bound of the number")
    most: float | None = Field(None, description="upper bound of the number")
    above: Reference | None = Field(None, description="run and metric that the number must exceed")
    below: Reference | None = Field(None, description="run and metric that the number must be below")
    reason: str = Field(description="reason why the claim cannot be tested otherwise; the verdict shows it")

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if (self.of is None) == (not self.run):
            raise ValueError("declare either `of` or `run`")
        if all(bound is None for bound in (self.least, self.most, self.above, self.below)):
            raise ValueError("declare `least`, `most`, `above` or `below`")
        return self


class Claim(Expectation):
    """A conclusion of a paper as a comparison of runs, or our own interpretation, control or experiment."""

    file: str = Field("", description="file name without .yaml; set by the reader, never declared")
    kind: Literal["conclusion", "interpretation", "control", "experiment"] = Field(
        "conclusion",
        description="a conclusion of the paper, our interpretation of its numbers, our control or our experiment",
    )
    tables: list[int] = Field([], description="numbers in the paper")
    figures: list[int] = Field([], description="numbers in the paper")
    section: str = Field("", description="section of the paper")
    task: TaskName = Field(description="task of the runs")
    left: ClaimSide = Field(description="number that the statement describes")
    right: ClaimSide | None = Field(None, description="number to compare with; without it, left itself is the effect")
    control: Control | None = Field(None, description="the same effect in runs without the cause")
    needs: list[str] = Field([], description="names of preconditions")
    by_construction: str | None = Field(
        None, description="reason why a number of the claim has its value by construction; it is then not testable"
    )
    hardly_fails: str | None = Field(
        None, description="reason why the claim can hardly fail, such as the construction of the metric; no count has it then"
    )
    main: str | None = Field(None, description="name in headline.json, for main claims, such as `AGG: BLEU`")
    why: str = Field(
        "", description="explanation where the claim is not reproduced; {claim} inserts the effect of another claim"
    )
    but: str = Field("", description="caveat where the claim is reproduced; {claim} as in `why`")
    unreported: str | None = Field(None, description="reason why the paper reports no such effect")

    @property
    def sides(self) -> dict[str, ClaimSide]:
        return _sides(self)

    @property
    def all_sides(self) -> dict[str, ClaimSide]:
        """The sides of the claim, then those of its control, whose names begin with `control.`."""
        control = _sides(self.control) if self.control else {}
        return {**self.sides, **{f"control.{name}": side for name, side in control.items()}}

    @property
    def trained_runs(self) -> list[list[str]]:
        """The names of the run of each side that is trained, in the order in which they are tried."""
        return [side.runs for side in self.all_sides.values() if not side.data]

    @property
    def lacks_control(self) -> bool:
        return self.control is not None and any(side.reported is None for side in self.all_sides.values())

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
    def effect_key(self) -> Hashable:
        """A key of the effect. It is equal for claims that differ in frequency group, threshold or scale of the effect alone.

        Such claims have the same table (or figures, or section), runs, metric up to the group and expected direction.
        """
        place = next((kind, str(where)) for kind in ("tables", "figures", "section") if (where := getattr(self, kind)))
        sides = [(name, *side.runs, GROUP.sub("", side.metric), side.at) for name, side in self.all_sides.items()]
        return self.paper, place, self.task, self.expect, *sides

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if not (self.tables or self.figures or self.section):
            raise ValueError("declare its tables, figures or section")
        if self.control and (self.control.right is None) != (self.right is None):
            raise ValueError("a control needs the same sides as its claim")
        if (self.unreported is None) != all(side.reported for side in self.sides.values()):
            raise ValueError("declare `reported` for each side, or the reason in `unreported`")
        return self


def _sides(of: Claim | Control) -> dict[str, ClaimSide]:
    return {"left": of.left, **({"right": of.right} if of.right else {})}
