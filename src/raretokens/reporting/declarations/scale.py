"""What a reader should know about the reports of a scale: data/paper/scales.yaml."""

from pydantic import Field

from raretokens.reporting.tasks import TaskName
from raretokens.sections import Section


class Scale(Section):
    corpora: dict[TaskName, str] = Field(description="task -> text; with other texts nothing is said")
    printed: bool = Field(
        False, description="its sizes and texts are the papers', so that a number may match the printed one"
    )
    text: str = Field(description="what the texts are")
    shows: str = Field(description="what the reports of this scale can show")
    hides: str = Field(description="what they cannot")
