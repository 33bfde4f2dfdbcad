"""Unpack selected members of zip, tar, gz and xz archives.

Only regular files that the table of sources names are read. Each is written under a plain name in one folder, so absolute
paths, parent paths, links and devices in an archive have no effect. The number of bytes written is limited.
"""

import gzip
import lzma
import re
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO

from reproduction.corpora.sources import Member
from reproduction.corpora.transfer import CHUNK, Refused, verify

BROKEN = (zipfile.BadZipFile, tarfile.TarError, lzma.LZMAError, zlib.error, EOFError, gzip.BadGzipFile, RuntimeError)
PLAIN = re.compile(r"[A-Za-z0-9_][^/\\\0]*")
SINGLE = {".gz": gzip.open, ".xz": lzma.open}


def unpack(archive: Path, members: dict[str, Member], into: Path, limit: int) -> int:
    """Write the requested members to the folder `into`.

    Returns:
        Number of bytes written, at most `limit`.
    Raises:
        Refused: The archive is broken, a member is missing, duplicated or not a regular file, `limit` is exceeded, or a
            size, sha256 or number of lines is wrong.
    """
    left, missing = limit, set(members)
    try:
        for name, stream in _contents(archive, set(members)):
            if name not in missing:
                raise Refused(f"{archive.name}: {name} is in it twice")
            member = members[name]
            target = into / target_name(name, member)
            if target.exists():
                raise Refused(f"{archive.name}: {name}: there is another {target.name}; name it by `to`")
            left -= copy(stream, target, min(left, member.bytes or left), f"{archive.name}: {name}")
            try:
                verify(target, member.bytes, member.sha256, member.lines)
            except Refused as reason:
                raise Refused(f"{archive.name}: {name}: {reason}") from None
            missing.discard(name)
            if not missing:
                return limit - left
    except BROKEN as error:
        raise Refused(f"{archive.name}: not a readable archive ({type(error).__name__})") from None
    raise Refused(f"{archive.name}: it lacks {', '.join(sorted(missing))}")


def target_name(path: str, member: Member) -> str:
    """Return the plain file name of a member. Raises Refused where the path does not end in a valid name."""
    name = member.to or PurePosixPath(path).name
    if not PLAIN.fullmatch(name):
        raise Refused(f"{path}: no name for a file; name it by `to`")
    return name


def decompressed(path: Path) -> IO[bytes]:
    """Open a file for reading, and decompress it if its suffix is .gz or .xz."""
    return SINGLE.get(path.suffix, open)(path, "rb")


def copy(stream: IO[bytes], target: Path, most: int, what: str) -> int:
    """Copy a stream to a file and return the number of bytes.

    Raises:
        Refused: The stream has more than `most` bytes, as a decompression bomb has.
    """
    done = 0
    with target.open("wb") as out:
        while chunk := stream.read(CHUNK):
            done += len(chunk)
            if done > most:
                raise Refused(f"{what}: unpacks to more than the {most} bytes allowed")
            out.write(chunk)
    return done


def _contents(archive: Path, wanted: set[str]) -> Iterator[tuple[str, IO[bytes]]]:
    if archive.suffix in (".zip", ".whl"):
        yield from _zip(archive, wanted)
    elif archive.suffixes[-2:-1] == [".tar"] or archive.suffix in (".tgz", ".tar"):
        yield from _tar(archive, wanted)
    elif archive.suffix in SINGLE:
        with decompressed(archive) as stream:
            yield next(iter(wanted)), stream
    else:
        raise Refused(f"{archive.name}: not a kind of archive we read (.zip, .whl, .tar, .tar.*, .tgz, .gz, .xz)")


def _zip(archive: Path, wanted: set[str]) -> Iterator[tuple[str, IO[bytes]]]:
    with zipfile.ZipFile(archive) as opened:
        for info in opened.infolist():
            if info.filename not in wanted:
                continue
            kind = (info.external_attr >> 16) & 0o170000  # Unix file type, or 0 where the archive has none
            if info.is_dir() or kind not in (0, 0o100000):
                raise Refused(f"{archive.name}: {info.filename} is no regular file")
            with opened.open(info) as stream:
                yield info.filename, stream


def _tar(archive: Path, wanted: set[str]) -> Iterator[tuple[str, IO[bytes]]]:
    with tarfile.open(archive, "r|*") as opened:  # stream, because training archives are larger than memory
        for info in opened:
            name = info.name.removeprefix("./")
            if name not in wanted:
                continue
            if not info.isreg():
                raise Refused(f"{archive.name}: {name} is no regular file")
            with opened.extractfile(info) as stream:
                yield name, stream
