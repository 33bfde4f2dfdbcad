"""Configuration of a training run, and the observers of its progress.

`Training` contains all settings that can change the result, apart from token files and code. `Execution` contains settings of the
machine that change the speed but not the result. Observers cannot change the result either.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, PositiveFloat

from raretokens.schema import Count, Length, Section, Strict
from reproduction.corpora.tokenization.settings import Groups
from reproduction.run import Run

RULES = Path(__file__).with_name("rules")  # folder of the optimizer rules
Beta = Annotated[float, Field(ge=0.0, lt=1.0)]


class RuleChoice(Strict):
    """Optimizer rule, a file of training/rules/. Further keys are options of the rule (OPTIONS of that file)."""

    model_config = ConfigDict(extra="allow")

    name: str = "warmup_adam"

    @property
    def options(self) -> dict[str, Any]:
        return dict(self.model_extra or {})


class Training(Strict):
    """Training settings of a run."""

    steps: Count
    tokens_per_step: Count  # tokens of all devices together
    block: Length  # tokens per sequence; for translation, tokens of the longest sentence
    peak_lr: PositiveFloat
    rule: RuleChoice = RuleChoice()
    warmup: Count = 1  # warm-up steps of warmup_adam
    betas: Annotated[list[Beta], Field(min_length=2, max_length=2)] = [0.9, 0.98]  # betas of Adam
    weight_decay: Annotated[float, Field(ge=0.0)]
    label_smoothing: Annotated[float, Field(ge=0.0, lt=1.0)]
    validate_every: Count | Literal["epoch"]
    validation_tokens: Count | None = None  # first tokens of the validation text; None: all
    stop_window: Count | None = None  # stop if a validation is worse than the best one before the last `stop_window`
    keep: Count | Literal["best"]  # final weights: mean of the last `keep` validated checkpoints, or the best one
    snapshot_every: Count  # steps between two copies of the embedding matrix
    precision: Literal["float32", "bfloat16"] = "float32"


class TrainJob(Section):
    run: Run
    training: Training
    groups: Groups


@dataclass(frozen=True)
class Execution:
    micro_batch: int = 2048  # most tokens per forward and backward pass
    workers: int = 0  # processes that prepare batches; 0: the training process prepares them
    compile: bool | Literal["auto"] = False  # use torch.compile; auto: on a GPU, if the architecture compiles
    save_seconds: float = 120.0  # seconds between two saves of the resumable state
    save_updates: int = 0  # training steps between two saves, instead of seconds, if positive


class Observer:
    """Interface for the training events of one process; the methods do nothing by default."""

    def begins(self, done: int, steps: int) -> None:
        """Handle the start of training after `done` of `steps` training steps."""

    def remarked(self, text: str) -> None:
        """Handle a message for the user before training."""

    def after_step(self, row: dict, tokens: int) -> None:
        """Handle the end of a training step; row: its row of log.tsv; tokens: its target tokens of all processes."""


class Observers(Observer):
    """Observer that forwards every event to several observers."""

    def __init__(self, *observers: Observer) -> None:
        self.observers = observers

    def begins(self, done: int, steps: int) -> None:
        for observer in self.observers:
            observer.begins(done, steps)

    def remarked(self, text: str) -> None:
        for observer in self.observers:
            observer.remarked(text)

    def after_step(self, row: dict, tokens: int) -> None:
        for observer in self.observers:
            observer.after_step(row, tokens)
