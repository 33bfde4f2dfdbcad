"""All paths of the pipeline, relative to the folder of a scale; docs/artifacts.md describes the files.

Only the command line and the planning of runs use these paths. All other code receives its folders as arguments.
"""

from pathlib import Path

PARAMETERS, LOCK = Path("params.yaml"), Path("dvc.lock")
DATA, SCRATCH, REPORTS = Path("data"), Path("data/scratch"), Path("reports")
RAW, OWN = DATA / "raw", DATA / "raw/own"
JOBS, CORPORA, TOKENS, RUNS = (DATA / name for name in ("jobs", "corpus", "tokens", "runs"))
PAPERS = DATA / "paper"  # declarations and reported numbers of the papers; relative to the repository root, not to a scale
MACHINE, TIMING, STATES, DOWNLOADS, TRACKED = (
    SCRATCH / name for name in ("machine.yaml", "timing", "runs", "downloads", "trackers")
)
EXPECTED = Path("expected")  # CSV files of the reports that the reports are compared with, where git ignores them
SCORES, CURVES = REPORTS / "runs", REPORTS / "curves"


def job(stage: str, name: str) -> Path:
    """Return the path of the job file of a stage."""
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
    """Return the folder of a run's predictions for the test text."""
    return DATA / "predictions" / task / run
