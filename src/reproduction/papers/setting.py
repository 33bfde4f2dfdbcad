"""The tasks of the reports, and the schema of the settings in which their claims, tables and figures are judged.

A setting is a model config with its text, in data/paper/settings.yaml. The declarations name the runs of one setting. The same
runs of another setting have the same names with another prefix.
"""

from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from raretokens.errors import nearest
from raretokens.schema import Section
from reproduction.tasks import describe, names

TASKS = {name: describe(name) for name in names()}
USUAL = "lm"  # the task of a table that declares none
TOKENS = [folder for task in TASKS.values() for folder in task.tokens]


def _is_task(name: str) -> str:
    if name not in TASKS:
        raise ValueError(f"no such task; {nearest(name, TASKS)}")
    return name


def _is_tokens(name: str) -> str:
    if name not in TOKENS:
        raise ValueError(f"no task has such tokens; {nearest(name, TOKENS)}")
    return name


TaskName = Annotated[str, AfterValidator(_is_task)]
TokensName = Annotated[str, AfterValidator(_is_tokens)]


class Properties(Section):
    """What decides how near a setting is to the paper's, in this order. All of it is known before any method is trained."""

    tokenizer: str = Field(description="how the text is split")
    text: str = Field(description="training text")
    rare_targets: float | None = Field(None, description="rare types among the target tokens of the test text, in percent")
    per_rare_type: float | None = Field(None, description="mean occurrences of a rare type in the training text")
    isotropy: float | None = Field(None, description="I(W) of maximum likelihood")
    mean_cosine: float | None = Field(None, description="mean cosine of the rows with maximum likelihood")
    epochs: float | None = Field(None, description="epochs of training")


class Setting(Section):
    """A setting of a task. Those of a file are in the order of nearness to the paper's, the nearest first."""

    task: TaskName = Field(description="task of its runs")
    models: list[str] = Field(min_length=1, description="model configs of its runs")
    title: str = Field(description="name for readers")
    replaces: str = Field("", description="prefix of the declared names of runs")
    own: str = Field("", description="prefix of its own runs, which takes the place of the declared one")
    data: dict[str, str] = Field({}, description="declared score file that needs no model -> that of this setting")
    tokens: str | None = Field(None, description="tokens of its runs, if not those that a table of the task names")
    is_like_the_paper: bool = Field(True, description="whether what the paper explains happens in it")
    reason: str = Field("", description="why it is not like the paper's; its claims are then not testable")
    properties: Properties = Field(description="what decides how near it is to the paper's")

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.is_like_the_paper == bool(self.reason):
            raise ValueError("declare `reason` where `is_like_the_paper` is false, and only there")
        return self

    def run(self, declared: str) -> str:
        """Return the name that a declared run has in this setting. Its own runs and those with another prefix keep theirs."""
        if declared in self.data:
            return self.data[declared]
        if declared.startswith(self.own) or not declared.startswith(self.replaces):
            return declared
        return self.own + declared.removeprefix(self.replaces)

    def declared(self, run: str) -> str:
        """Return the declared name of a run of this setting, for which `run` returns the same run."""
        return self.replaces + run.removeprefix(self.own) if run.startswith(self.own) else run


class SettingsFile(Section):
    """The file settings.yaml."""

    scale: str = Field(description="the scale whose settings they are; another scale may have other models of the same names")
    reported: dict[TaskName, Properties] = Field(description="task -> the paper's setting")
    settings: dict[str, Setting] = Field(description="settings by name; of each task the nearest first")
