"""A trained run of the pipeline, found by name or folder, with its job specs, tokens, model and scores."""

import difflib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from raretokens import paths
from raretokens.errors import UserError
from raretokens.tokenization.vocabulary import VOCABULARY, Vocabulary

MODEL = "model.safetensors"
JOBS_HINT = "dvc repro jobs makes it"


@dataclass(frozen=True)
class TrainedRun:
    """A trained run in the folder of a scale."""

    scale: Path  # folder of params.yaml
    task: str
    name: str
    run: dict[str, Any]  # line of the run sheet, resolved
    training: dict[str, Any]
    groups: dict[str, Any]  # frequency groups as declared in params.yaml

    @property
    def folder(self) -> Path:
        return self.scale / paths.trained(self.task, self.name)

    @property
    def model(self) -> Path:
        return self.folder / MODEL

    @property
    def tokens(self) -> Path:
        return self.scale / paths.tokens(self.run["tokens"])

    def vocabulary(self) -> Vocabulary:
        """Return the vocabulary of the run's tokens, in the direction of the run."""
        return Vocabulary.read(self.tokens / VOCABULARY, self.run.get("reverse", False))

    def score(self) -> dict[str, Any]:
        """Return the score file of the run. Raise UserError if there is none."""
        return _read_json(self.scale / paths.SCORES / self.task / f"{self.name}.json", "score the run first")

    def job(self, stage: str, name: str | None = None) -> dict[str, Any]:
        """Return the parameters of a stage of the run."""
        return _read_json(self.scale / paths.job(stage, name or self.name), JOBS_HINT)["job"]


def find(name: str) -> TrainedRun:
    """Find a run by name (`mle` or `lm/mle`, in the folder of a scale) or by folder (`data/runs/lm/mle`).

    Raises:
        UserError: if there is no such run, or several tasks have one.
    """
    scale, task, run = _split(Path(name))
    found = matches(name)
    if not found:
        near = nearest_run(name)
        raise UserError(f"{name}: no trained run of that name; {f'the nearest is {near}' if near else 'none is known'}")
    if len(found) > 1:
        raise UserError(f"{name}: several tasks have this run: {', '.join('/'.join(path.parts[-3:-1]) for path in found)}")
    task = found[0].parts[-3]
    job = _read_json(scale / paths.job(f"train-{task}", run), JOBS_HINT)["job"]
    return TrainedRun(scale, task, run, job["run"], job["training"], job["groups"])


def matches(name: str) -> list[Path]:
    """Return the model file of each run of that name."""
    scale, task, run = _split(Path(name))
    return [Path(path) for path in scale.glob(f"{paths.trained(task or '*', run)}/{MODEL}")]


def nearest_run(name: str) -> str | None:
    """Return the name of the trained run with the most similar name, or None if there is no run."""
    scale, task, run = _split(Path(name))
    known = sorted("/".join(path.parts[-3:-1]) for path in scale.glob(f"{paths.trained('*', '*')}/{MODEL}"))
    return next(iter(difflib.get_close_matches(f"{task}/{run}" if task else run, known, n=1, cutoff=0.0)), None)


def is_run(folder: Path) -> bool:
    """Whether the folder was written by the training stage."""
    return (folder / MODEL).is_file() and (folder / "training.json").is_file()


def _split(name: Path) -> tuple[Path, str | None, str]:
    """Split a path into the folder of the scale, the task (None: any) and the name of the run."""
    if is_run(name):
        name = name.absolute()
        return name.parents[3], name.parent.name, name.name
    *task, run = name.parts[-2:] if len(name.parts) < 3 else (None, str(name))
    return Path(), (task[0] if task else None), run


def _read_json(path: Path, hint: str) -> dict[str, Any]:
    if not path.is_file():
        raise UserError(f"{path}: no such file; {hint}")
    return json.loads(path.read_text(encoding="utf-8"))
