"""Mistakes that a user can correct, each as one line: file or key, value, what is allowed."""

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """A mistake that the user can correct; shown as its message alone, without a traceback."""


def nearest(word: str, words: Iterable[str]) -> str:
    match = difflib.get_close_matches(word, list(words), n=1, cutoff=0.0)
    return f"the nearest is {match[0]}" if match else "none is known"
