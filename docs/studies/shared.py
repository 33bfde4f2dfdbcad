"""What the studies share: vocabularies with their frequency groups, and tables that are printed and written as CSV."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from raretokens import csv_files
from raretokens.files import write_text
from raretokens.vocabulary import VOCABULARY, Vocabulary
from reproduction import paths
from reproduction.tasks.parameters import Parameters

FOLDER = Path(__file__).parent


def read_vocabulary(tokens: str, parameters: Parameters) -> tuple[Vocabulary, np.ndarray]:
    """Return the vocabulary of data/tokens/<tokens>, and the frequency group of each id."""
    vocabulary = Vocabulary.read(paths.tokens(tokens) / VOCABULARY)
    return vocabulary, vocabulary.frequency_groups(parameters.tokens[tokens].groups)


def write_table(name: str, columns: list[str], rows: Iterable) -> None:
    """Write a table to docs/studies/<name>.csv. The rows are sequences, or dictionaries with these columns as keys."""
    write_text(FOLDER / f"{name}.csv", csv_files.to_csv(rows, columns))


def print_table(columns: list[str], rows: Iterable[Sequence], width: int) -> None:
    """Print a table with cells of this width."""
    for row in (columns, *rows):
        print(*(f"{cell:>{width}}" for cell in row))
