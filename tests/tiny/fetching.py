"""A source of one small file, and fetching it."""

import hashlib
import io
import random
import tarfile
import zipfile
from pathlib import Path

import yaml

from reproduction.corpora.download import fetch

DATA = random.Random(1).randbytes(400_000)


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def table(data: bytes = DATA, name: str = "data.bin", limit: int = 10**6, **more) -> Path:
    row = {"name": name, "bytes": len(data), "sha256": digest(data)} | more
    folder = Path("table")
    folder.mkdir(exist_ok=True)
    (folder / "tiny.yaml").write_text(yaml.safe_dump({"licence": "none", "note": "-", "limit": limit, "files": [row]}))
    return folder


def get(path: Path, mirror: Path | None = None) -> Path:
    into = Path("data/raw/tiny")
    fetch("tiny", into, mirror, table=path)
    return into


def from_mirror(data: bytes, name: str = "data.bin", **more) -> Path:
    """Fetch a source of one file that only a mirror has."""
    Path("mirror/tiny").mkdir(parents=True, exist_ok=True)
    Path("mirror/tiny", name).write_bytes(data)
    return get(table(data, name, **more), Path("mirror"))


def zipped(*members: tuple[str, bytes, int]) -> bytes:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as out:
        for name, content, mode in members:
            info = zipfile.ZipInfo(name)
            info.external_attr, info.compress_type = mode << 16, zipfile.ZIP_DEFLATED
            out.writestr(info, content)
    return archive.getvalue()


def tarred(*members: tuple[str, bytes, bytes]) -> bytes:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as out:
        for name, content, kind in members:
            info = tarfile.TarInfo(name)
            info.type, info.linkname, info.size = kind, "/etc/passwd", len(content)
            out.addfile(info, io.BytesIO(content))
    return archive.getvalue()
