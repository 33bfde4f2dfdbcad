"""The file that a stage is told its work by: data/jobs/<stage>/<name>.json, its parameters and the code that it runs."""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

from raretokens import paths
from raretokens.errors import UserError
from raretokens.sections import Section

Kind = TypeVar("Kind", bound=Section)


def text(job: Section, code: dict[str, str]) -> str:
    return json.dumps({"job": job.model_dump(mode="json"), "code": code}, indent=1, ensure_ascii=False) + "\n"


def mark(jobs: Iterable[Section]) -> str:
    """Short hash of parameters, so that what was made with others is known as such.

    Which points figures draw changes no score.
    """
    text = json.dumps([job.model_dump(mode="json", exclude={"clouds"}) for job in jobs], ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def content(stage: str, name: str) -> bytes:
    """The file as it is. Raises UserError where there is none: then nothing of that name is declared."""
    path = paths.job(stage, name)
    try:
        return path.read_bytes()
    except FileNotFoundError:
        known = sorted(other.stem for other in path.parent.glob("*.json"))
        asked = f"known: {', '.join(known)}" if known else "dvc repro jobs makes it"
        raise UserError(f"{path}: no such file; {asked}") from None


def job(kind: type[Kind], stage: str, name: str) -> Kind:
    """What a stage is told."""
    return read(kind, content(stage, name), paths.job(stage, name))


def read(kind: type[Kind], told: bytes, path: Path) -> Kind:
    try:
        return kind.model_validate_json(json.dumps(json.loads(told)["job"]))
    except ValueError as error:
        raise UserError(f"{path}: not made by this version ({type(error).__name__}); dvc repro jobs") from None
