"""Every path of the pipeline, below the folder of a scale; docs/artifacts.md says what lies there.

Only the command line and what plans a run ask for them: all other code is given its folders.
"""

from pathlib import Path

PARAMETERS = Path("params.yaml")
DATA, SCRATCH, REPORTS = Path("data"), Path("data/scratch"), Path("reports")
RAW, OWN = DATA / "raw", DATA / "raw/own"
JOBS, CORPORA, TOKENS, RUNS = (DATA / name for name in ("jobs", "corpus", "tokens", "runs"))
PRINTED = DATA / "paper"  # below the root of the code
MACHINE, TIMING, STATES, DOWNLOADS, TRACKED = (
    SCRATCH / name for name in ("machine.yaml", "timing", "runs", "downloads", "trackers")
)
SCORES, CURVES = REPORTS / "runs", REPORTS / "curves"


def job(stage: str, name: str) -> Path:
    """The job file of a stage."""
    return JOBS / stage / f"{name}.json"


def corpus(name: str) -> Path:
    return CORPORA / name


def tokens(name: str) -> Path:
    return TOKENS / name


def alignment(tokens: str) -> Path:
    return DATA / "alignment" / tokens


def trained(task: str, run: str) -> Path:
    return RUNS / task / run


def predictions(task: str, run: str) -> Path:
    """Predictions of a trained run for the test text."""
    return DATA / "predictions" / task / run
