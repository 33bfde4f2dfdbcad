"""User errors, each one line with file or key, value and allowed values, and the exit of a command on an error."""

import difflib
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from raretokens.files import failure

STOPPED = 130  # exit code of a command that Ctrl-C stopped, as in a shell


class UserError(Exception):
    """An error that the user can correct. Commands print its message without a traceback."""


def nearest(word: str, words: Iterable[str]) -> str:
    spelt = {known.lower(): known for known in words}
    match = difflib.get_close_matches(word.lower(), list(spelt), n=1, cutoff=0.0)
    return f"the nearest is {spelt[match[0]]}" if match else "none is known"


@contextmanager
def exit_on_error(missing: str = "") -> Iterator[None]:
    """Print a UserError or OSError as one line and exit with code 1. Ctrl-C exits with code STOPPED.

    Args:
        missing: advice to print when a file does not exist.
    """
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
