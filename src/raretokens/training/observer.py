"""Observers of the training progress, which cannot change the result."""


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
