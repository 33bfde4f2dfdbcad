"""Where scoring reads and writes."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Places:
    """Folders; of a run, and of what all runs of its text share."""

    tokens: Path
    trained: Path
    output: Path  # of the model on the test text: probes or translations
    alignment: Path
    corpora: Path  # of all prepared text
    scores: Path  # of the score files of the task
    curves: Path
