"""The table of sources: sources.yaml as frozen, checked objects."""

from pathlib import Path
from typing import Annotated

import yaml
from pydantic import BaseModel, ConfigDict, Field, PositiveInt

from raretokens.config import UserError

TABLE = Path(__file__).with_name("sources.yaml")

# A plain file name: nothing that we write can leave its folder.
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class Row(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Package(Row):
    """A file of a project on the Python package index; the name of the file is that of the `File`."""

    project: str
    version: str


class TestSet(Row):
    """A side (src or ref) of a test set that sacreBLEU knows how to download."""

    set: str
    pair: str
    side: str


class Member(Row):
    """A wanted member of an archive."""

    to: Name | None = None
    bytes: PositiveInt | None = None
    sha256: Digest | None = None


class File(Row):
    name: Name
    bytes: PositiveInt
    sha256: Digest
    mirror: str | None = None
    urls: tuple[str, ...] = ()
    package: Package | None = None
    sacrebleu: TestSet | None = None
    lines: PositiveInt | None = None
    unpack: dict[str, Member] = {}


class Source(Row):
    licence: str
    note: str
    urls: tuple[str, ...] = ()
    limit: PositiveInt = 2 << 30  # bytes unpacked, all members together: an archive cannot fill the disk
    files: tuple[File, ...]


def source(name: str, table: Path = TABLE) -> Source:
    """The source of that name; UserError names the known ones."""
    rows = yaml.safe_load(table.read_text(encoding="utf-8"))
    if name not in rows:
        raise UserError(f"sources: {name!r} is not known; known sources: {', '.join(sorted(rows))}")
    return Source.model_validate(rows[name])
