"""Counts of the outcomes of fault-injection trials."""

import traceback
from collections import Counter
from collections.abc import Callable

from raretokens.errors import UserError

# Outcomes of a trial: the right answer or one clear line; lost work; a wrong answer without a message; a program's error.
CORRECT, LOST, SILENT, TRACEBACK = KINDS = ("correct", "lost", "silent", "tracebacks")


class Tally:
    """Outcomes of the trials of one test. Each trial that is not correct is printed at once."""

    def __init__(self, test: str) -> None:
        self.test, self.counts = test, Counter[str]()

    def add(self, kind: str, what: str = "") -> None:
        self.counts[kind] += 1
        if kind != CORRECT:
            print(f"{self.test}: {kind}: {what}", flush=True)


def expect_refusal(tally: Tally, what: str, start: str, trial: Callable[[], str | None]) -> None:
    """Count a trial that must be refused in short lines with this start, or return None.

    Args:
        what: description of the trial.
        trial: returns what is wrong, or None.
    """
    try:
        wrong = trial()
    except UserError as error:
        is_short = all(line.startswith(start) and len(line) < 2000 for line in str(error).split("\n"))
        wrong = None if is_short else f"no line of its own: {error}"
    except Exception:
        return tally.add(TRACEBACK, f"{what}: {traceback.format_exc(limit=-2)[:800]}")
    return tally.add(SILENT if wrong else CORRECT, f"{what}: {wrong}")
