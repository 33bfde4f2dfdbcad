"""Progress of a measurement on standard error: a bar on a terminal, a line for each part elsewhere."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tqdm import tqdm

from raretokens.tools.measure.notes import Report

BAR = "{desc}: {bar:20} {n_fmt} of {total_fmt} parts, {elapsed}: {postfix}"


@contextmanager
def progress(name: str, parts: int) -> Iterator[Report]:
    """Give a function that shows a part which begins, or a note.

    Args:
        name: name of the model.
        parts: number of parts at most.
    """
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
