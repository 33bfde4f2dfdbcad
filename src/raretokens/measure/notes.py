"""Notes of a measurement: assumptions, and the reasons why optional parts were left out; and its progress on standard error."""

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from tqdm import tqdm

from raretokens.errors import UserError
from raretokens.metrics.score_files import Metrics

Report = Callable[[str], object]  # called with a line for standard error
BAR = "{desc}: {bar:20} {n_fmt} of {total_fmt} parts, {elapsed}: {postfix}"
ISOTROPY, UNIT_ISOTROPY = "isotropy", "isotropy_unit_rms"  # I(W), and I(W) at unit RMS row length
MAX_DIFFERENCE = 0.1  # largest difference between both versions of I(W) without a note
MIDDLE = 0.5  # of the range of I(W); there is also a note where both versions lie on different sides
GROUP_NAMES = {"total": "all", "freq": "frequent", "med": "medium", "rare": "rare"}


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


def length_note(metrics: Metrics) -> str | None:
    """Return a note with the groups whose I(W) depends on the length of their rows, and the numbers of the first group."""
    raw, at_unit, lengths = (metrics[name][0] if name in metrics else {} for name in (ISOTROPY, UNIT_ISOTROPY, "norm_rms"))
    found = [group for group in GROUP_NAMES if group in raw and group in at_unit and _depends(raw[group], at_unit[group])]
    if not found:
        return None
    first, groups = found[0], ", ".join(GROUP_NAMES[group] for group in found)
    return (
        f"I(W) of {groups} rows depends on their length: for {GROUP_NAMES[first]} rows it is "
        f"{raw[first]:.3g} at their RMS length of {lengths[first]:.3g}, and {at_unit[first]:.3g} at unit RMS length"
    )


def _depends(raw: float, at_unit: float) -> bool:
    return abs(raw - at_unit) > MAX_DIFFERENCE or (raw < MIDDLE) != (at_unit < MIDDLE)


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
