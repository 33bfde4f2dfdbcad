"""Who is told how a training goes. Nothing that is told here can change what comes out."""


class Observer:
    """Hears of every event of one process's training; a subclass makes something of it."""

    def begins(self, done: int, updates: int) -> None:
        """Training goes on after `done` of its updates."""

    def remarked(self, text: str) -> None:
        """A line for a person, before training."""

    def updated(self, row: dict, tokens: int) -> None:
        """An update is done: its row of log.tsv, and the target tokens of all processes."""


class Observers(Observer):
    """Several of them."""

    def __init__(self, *observers: Observer) -> None:
        self.observers = observers

    def begins(self, done: int, updates: int) -> None:
        for observer in self.observers:
            observer.begins(done, updates)

    def remarked(self, text: str) -> None:
        for observer in self.observers:
            observer.remarked(text)

    def updated(self, row: dict, tokens: int) -> None:
        for observer in self.observers:
            observer.updated(row, tokens)
