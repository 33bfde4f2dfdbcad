"""Notes of a measurement: assumptions, and the reasons why optional parts were left out."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from raretokens.errors import UserError

Report = Callable[[str], object]  # called with a line for standard error


def first_line(error: BaseException) -> str:
    """Return the message of an error in one line."""
    if "trust_remote_code" in str(error):  # transformers' message has several lines, which suggest to run the code
        return "it needs code of its own folder, which is not run"
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if lines and lines[0].endswith(":"):
        return " ".join(lines[:2])
    return lines[0] if lines else type(error).__name__


@contextmanager
def optional(part: str, notes: list[str], report: Report = lambda note: None) -> Iterator[None]:
    """Note why a part of the measurement failed, and continue without it."""
    try:
        yield
    except UserError as error:
        reason = first_line(error)
    except ModuleNotFoundError as error:
        reason = f"{error.name} is not installed (pip install 'raretokens[transformers]')"
    except Exception as error:  # any other exception, because the remaining parts are still valid
        reason = f"{type(error).__name__}: {first_line(error)}"
    else:
        return
    add_note(f"{part} left out: {reason}", notes, report)


def add_note(note: str, notes: list[str], report: Report) -> None:
    notes.append(note)
    report(f"note: {note}")
