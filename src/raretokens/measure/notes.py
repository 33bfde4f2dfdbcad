"""Notes of a measurement: assumptions, and the reasons why optional parts were left out; and its progress on standard error."""

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from tqdm import tqdm

from raretokens.errors import UserError

Report = Callable[[str], object]  # called with a line for standard error
BAR = "{desc}: {bar:20} {n_fmt} of {total_fmt} parts, {elapsed}: {postfix}"


def first_line(error: BaseException) -> str:
    """Return the message of an error in one line."""
    if "trust_remote_code" in str(error):  # transformers' message has several lines, which suggest to run the code
        return "it needs code of its own folder, which is not run"
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if lines and lines[0].endswith(":"):
        return " ".join(lines[:2])
    return lines[0] if lines else type(error).__name__


class Notes(list[str]):
    """A list of notes. `report` is called with each part that begins, and with each note that is appended."""

    def __init__(self, notes: Iterable[str] = (), report: Report = lambda line: None) -> None:
        super().__init__(notes)
        self.report = report

    def append(self, note: str) -> None:
        super().append(note)
        self.report(f"note: {note}")

    @contextmanager
    def optional(self, part: str) -> Iterator[None]:
        """Note why a part of the measurement failed, and continue without it."""
        try:
            yield
        except UserError as error:
            self.append(f"{part} left out: {first_line(error)}")
        except ModuleNotFoundError as error:
            self.append(f"{part} left out: {error.name} is not installed (pip install {error.name})")
        except Exception as error:  # any other exception, because the remaining parts are still valid
            self.append(f"{part} left out: {type(error).__name__}: {first_line(error)}")


@contextmanager
def progress(name: str, parts: int) -> Iterator[Report]:
    """Give a function that shows a part which begins, or a note: a bar of at most `parts` on a terminal, lines elsewhere."""
    if not sys.stderr.isatty():
        yield lambda line: print(f"{name}: {line}", file=sys.stderr, flush=True)
        return
    with tqdm(total=parts, desc=name, bar_format=BAR, leave=False, dynamic_ncols=True) as bar:

        def show(line: str) -> None:
            if line.startswith("note: "):
                bar.write(f"{name}: {line}", file=sys.stderr)
            else:
                bar.set_postfix_str(line, refresh=False)
                bar.update()

        yield show
