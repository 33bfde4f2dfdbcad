"""Download files over HTTP to a resumable `.part` file, and verify their size and digest."""

import hashlib
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import requests
import urllib3
from tqdm import tqdm

CHUNK = 1 << 18
ATTEMPTS = 3  # maximum requests to one address; another request is made only if the previous one brought new bytes
TIMEOUT = (20, 60)  # seconds to connect, and seconds between bytes
QUIET = 10.0  # seconds between progress lines where the output is not a terminal


class Refused(Exception):
    """An address or archive did not provide the file, for the reason in the message. The caller tries the next address."""


def download_file(url: str, part: Path, size: int, digest: str, session: requests.Session | None = None) -> None:
    """Download `url` to `part`.

    Bytes already in `part` are kept, and the rest is requested with a Range header. An incomplete file is kept for the next
    call. A file with a wrong digest is deleted. If an earlier call had started this file, it is downloaded again once.

    Args:
        size: Expected number of bytes.
        digest: Expected sha256 or md5, in hexadecimal.
    Raises:
        Refused: The address does not provide a file of this size and digest.
    """
    resumed = part.exists()
    _fill(url, part, size, session or requests.Session())
    try:
        verify(part, size, digest)
    except Refused:
        part.unlink(missing_ok=True)
        if not resumed:
            raise
        download_file(url, part, size, digest, session)


def digest_name(digest: str) -> str:
    """Return the hash function of a hexadecimal digest by its length: sha256 or md5."""
    return {64: "sha256", 32: "md5"}[len(digest)]


def verify(path: Path, size: int | None, digest: str | None, lines: int | None = None) -> None:
    """Raise Refused unless the file has the given size in bytes, digest and number of line feeds; None disables a check."""
    found = path.stat().st_size
    if size is not None and found != size:
        raise Refused(f"{found} bytes instead of {size}")
    if digest is not None:
        name = digest_name(digest)
        with path.open("rb") as stream:
            of_file = hashlib.file_digest(stream, name).hexdigest()
        if of_file != digest:
            raise Refused(f"wrong content, its {name} is {of_file}")
    if lines is not None:
        with path.open("rb") as stream:
            feeds = sum(chunk.count(b"\n") for chunk in iter(lambda: stream.read(CHUNK), b""))
        if feeds != lines:
            raise Refused(f"{feeds:,} lines instead of {lines:,}")


def strip_credentials(url: str) -> str:
    """Return an address without user name, password and query, for messages."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "an address that is none"
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def _fill(url: str, part: Path, size: int, session: requests.Session) -> None:
    for _ in range(ATTEMPTS):
        before = _size(part)
        if before == size:
            return
        reason = _append(url, part, size, session)
        if _size(part) == size:
            return
        if _size(part) <= before:
            break
    kept = f"; {_size(part)} of {size} bytes are here, the next call goes on from there" if part.exists() else ""
    raise Refused(reason + kept)


def _append(url: str, part: Path, size: int, session: requests.Session) -> str:
    """Make one request and append its bytes to `part`. Return the reason why the request ended."""
    have = _size(part)
    if have > size:
        part.unlink()
        have = 0
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
    try:
        with session.get(url, headers=headers, stream=True, timeout=TIMEOUT) as response:
            begun = response.status_code == 206 and _start(response) == have
            if have and response.status_code in (206, 416) and not begun:
                part.unlink()  # the server cannot continue this file: start again without a Range header
                return _append(url, part, size, session)
            if response.status_code != 200 and not begun:
                raise Refused(f"HTTP status {response.status_code} {response.reason}")
            # Do not decode: a server may label a .gz file as content encoding, but the file must stay compressed.
            _write(response.raw.stream(CHUNK, decode_content=False), part, "ab" if begun else "wb", size)
            return "the connection ended early"
    except (
        requests.RequestException,
        urllib3.exceptions.HTTPError,
        ConnectionError,
        TimeoutError,
        ValueError,
    ) as error:
        return f"unreachable or broken off ({type(error).__name__})"


def _write(chunks: Iterator[bytes], part: Path, mode: str, size: int) -> None:
    seconds = 0.1 if sys.stderr.isatty() else QUIET
    with part.open(mode) as stream:
        bar = tqdm(desc=part.stem, total=size, initial=stream.tell(), unit="B", unit_scale=True, mininterval=seconds)
        with bar:
            for chunk in chunks:
                bar.update(len(chunk))
                if bar.n > size:  # not the expected file: do not fill the disk
                    stream.close()
                    part.unlink()
                    raise Refused(f"more than the {size} bytes expected")
                stream.write(chunk)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _start(response: requests.Response) -> int:
    """Return the first byte position of a partial response, or -1 (RFC 9110, Content-Range: bytes 5-9/10)."""
    first = response.headers.get("Content-Range", "").removeprefix("bytes ").split("-")[0]
    return int(first) if first.isdigit() else -1
