"""How a command ends that cannot go on: in one line, whoever it was."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from raretokens.errors import UserError
from raretokens.files import failure

STOPPED = 130  # as a shell says of a command that Ctrl-C stopped


@contextmanager
def one_line(missing: str = "") -> Iterator[None]:
    """Exit 1 with a line on the mistake or on what the system refused; missing: what a file that is not there hints at."""
    try:
        yield
    except UserError as error:
        sys.exit(f"error: {error}")
    except FileNotFoundError as error:
        sys.exit(f"error: {error.filename}: no such file" + (f"; {missing}" if missing else ""))
    except OSError as error:
        sys.exit(f"error: {failure(error)}")
    except KeyboardInterrupt:
        print("error: stopped", file=sys.stderr)
        sys.exit(STOPPED)
