"""CSV files as data frames of strings, so that every number keeps the digits in the file."""

import io
from collections.abc import Iterable
from pathlib import Path

import pandas as pd


def read_csv(file: Path) -> pd.DataFrame:
    return pd.read_csv(file, dtype=str, na_filter=False)


def parse_csv(text: str) -> pd.DataFrame:
    return pd.read_csv(io.StringIO(text), dtype=str, na_filter=False)


def to_csv(rows: Iterable, columns: list[str]) -> str:
    """Return CSV text. `rows` are dictionaries, tuples or data classes; without rows the text is the header alone."""
    return pd.DataFrame(list(rows), columns=columns).to_csv(index=False, lineterminator="\n")
