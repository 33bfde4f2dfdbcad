"""A finished run, found by its name or folder: what it was told, what it read, and what it left."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from raretokens import paths
from raretokens.errors import UserError, nearest

MODEL = "model.safetensors"


@dataclass(frozen=True)
class Finished:
    """A trained run of a scale's folder."""

    scale: Path  # folder of params.yaml
    task: str
    name: str
    run: dict[str, Any]  # its line of the run sheet, resolved
    training: dict[str, Any]
    groups: dict[str, Any]  # frequency groups as declared

    @property
    def trained(self) -> Path:
        return self.scale / paths.trained(self.task, self.name)

    @property
    def model(self) -> Path:
        return self.trained / MODEL

    @property
    def tokens(self) -> Path:
        return self.scale / paths.tokens(self.run["tokens"])

    def score(self) -> dict[str, Any]:
        """Its score file. Raises UserError where it has none yet."""
        return read(self.scale / paths.SCORES / self.task / f"{self.name}.json", "score the run first")

    def told(self, stage: str, name: str | None = None) -> dict[str, Any]:
        """What a stage of it was told."""
        return read(self.scale / paths.job(stage, name or self.name), "dvc repro jobs makes it")["job"]


def named(name: str) -> Finished:
    """The run of a name (`mle`, `lm/mle`, seen from the folder of a scale) or of a folder (`data/runs/lm/mle`).

    Raises UserError where there is none, or several tasks have one.
    """
    scale, task, run = _parts(Path(name))
    found = [Path(path) for path in scale.glob(f"{paths.trained(task or '*', run)}/{MODEL}")]
    if not found:
        known = sorted("/".join(path.parts[-3:-1]) for path in scale.glob(f"{paths.trained('*', '*')}/{MODEL}"))
        raise UserError(f"{name}: no trained run of that name; {nearest(f'{task}/{run}' if task else run, known)}")
    if len(found) > 1:
        raise UserError(f"{name}: several tasks have it: {', '.join('/'.join(path.parts[-3:-1]) for path in found)}")
    task = found[0].parts[-3]
    told = read(scale / paths.job(f"train-{task}", run), "dvc repro jobs makes it")["job"]
    return Finished(scale, task, run, told["run"], told["training"], told["groups"])


def is_run(folder: Path) -> bool:
    """Whether a folder is what the training stage left."""
    return (folder / MODEL).is_file() and (folder / "training.json").is_file()


def read(path: Path, hint: str) -> dict[str, Any]:
    """A JSON file of the pipeline."""
    if not path.is_file():
        raise UserError(f"{path}: no such file; {hint}")
    return json.loads(path.read_text(encoding="utf-8"))


def _parts(name: Path) -> tuple[Path, str | None, str]:
    """Folder of the scale, task (None: any) and name."""
    if is_run(name):
        name = name.absolute()
        return name.parents[3], name.parent.name, name.name
    *task, run = name.parts[-2:] if len(name.parts) < 3 else (None, str(name))
    return Path(), (task[0] if task else None), run
