"""A trained run of the pipeline, found by name or folder, with its job specs, tokens, model and scores."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from raretokens.errors import UserError, nearest
from reproduction import paths

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
    folder = Path(name).absolute()
    scale, wanted = (folder.parents[3], "/".join(folder.parts[-2:])) if _is_run(folder) else (Path(), Path(name).as_posix())
    known = sorted("/".join(path.parts[-3:-1]) for path in scale.glob(f"{paths.trained('*', '*')}/{MODEL}"))
    found = [one for one in known if wanted in (one, one.partition("/")[2])]
    if not found:
        raise UserError(f"{name}: no such trained run; of the trained runs, {nearest(wanted, known)}")
    if len(found) > 1:
        raise UserError(f"{name}: several tasks have this run: {', '.join(found)}")
    task, run = found[0].split("/")
    job = _read_json(scale / paths.job(f"train-{task}", run), JOBS_HINT)["job"]
    return TrainedRun(scale, task, run, job["run"], job["training"], job["groups"])


def _is_run(folder: Path) -> bool:
    """Whether the folder was written by the training stage."""
    return (folder / MODEL).is_file() and (folder / "training.json").is_file()


def _read_json(path: Path, hint: str) -> dict[str, Any]:
    if not path.is_file():
        raise UserError(f"{path}: no such file; {hint}")
    return json.loads(path.read_text(encoding="utf-8"))
