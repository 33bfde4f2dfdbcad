"""Job specifications: data/jobs/<stage>/<name>.json, which gives a stage its parameters and the version of its code."""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

from raretokens.errors import UserError
from raretokens.schema import Section
from reproduction import paths

Kind = TypeVar("Kind", bound=Section)


def job_text(job: Section, code: dict[str, str]) -> str:
    return json.dumps({"job": job.model_dump(mode="json"), "code": code}, indent=1, ensure_ascii=False) + "\n"


def params_hash(jobs: Iterable[Section]) -> str:
    """Short hash of the parameters of jobs, which identifies scores that were computed with other parameters.

    `clouds`, the points that figures show, affects no score and is excluded.
    """
    text = json.dumps([job.model_dump(mode="json", exclude={"clouds"}) for job in jobs], ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def read_job_file(stage: str, name: str) -> bytes:
    """Read the bytes of a job file. Raises UserError if params.yaml declares no job of that name."""
    path = paths.job(stage, name)
    try:
        return path.read_bytes()
    except FileNotFoundError:
        known = sorted(other.stem for other in path.parent.glob("*.json"))
        hint = f"known: {', '.join(known)}" if known else "dvc repro jobs makes it"
        raise UserError(f"{path}: no such file; {hint}") from None


def load_job(kind: type[Kind], stage: str, name: str) -> Kind:
    """Load the job of a stage. Raises UserError if its file is missing or from another version."""
    return parse_job(kind, read_job_file(stage, name), paths.job(stage, name))


def parse_job(kind: type[Kind], content: bytes, path: Path) -> Kind:
    """Parse the bytes of a job file. Raises UserError if another version wrote it."""
    try:
        return kind.model_validate_json(json.dumps(json.loads(content)["job"]))
    except ValueError as error:
        raise UserError(f"{path}: not made by this version ({type(error).__name__}); dvc repro jobs") from None
