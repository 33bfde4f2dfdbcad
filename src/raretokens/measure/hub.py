"""A model of the Hugging Face Hub as a model folder in the cache: small files, headers of weight files, and tensors on demand.

A weight file of the folder ends after its header, from which the tensors are known. A tensor is downloaded when it is read.
The cache is that of huggingface_hub for other libraries (HF_ASSETS_CACHE, else assets in HF_HOME).

    <owner>--<name>/revisions/<revision>   the commit hash that the revision last had
    <owner>--<name>/commits/<commit>/      the model folder
        sizes.json                         size of each weight file in bytes
        tensors/<tensor>/<file>            a safetensors file with this tensor alone

huggingface_hub gives the endpoint, the token, the session and the errors of the server.
"""

import fnmatch
import json
import math
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import NamedTuple
from urllib.parse import quote

import numpy as np
from tqdm import tqdm

from raretokens.errors import UserError
from raretokens.files import atomic_write, write_text
from raretokens.measure.formats import MAX_HEADER, PICKLED, read_json
from raretokens.measure.notes import first_line
from raretokens.measure.stored_matrix import DTYPES, StoredMatrix
from raretokens.measure.tokenizers import FILES
from raretokens.measure.transformers_models import IS_OFFLINE

# Files that are downloaded as a whole, in addition to those of a tokenizer.
SMALL = ("config.json", "model.safetensors.index.json", "adapter_config.json", "added_tokens.json", "special_tokens_map.json",
         "merges.txt", "target_vocab.json")  # fmt: skip
FIRST = 100_000  # bytes of the first request for a header; most headers are shorter
AT_ONCE = 8  # requests
# Types of a vector of row numbers (see model.py), which is read as a whole.
MAPPING = ("I64", "I32")
SCHEME = "hf://"
NAME = re.compile(SCHEME + r"(?P<repository>[\w.-]+(?:/[\w.-]+)?)(?:@(?P<revision>[^@\s]+))?")
RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+)")  # header Content-Range of an answer
COMMIT = re.compile(r"[0-9a-f]{40}")
CHUNK = 1 << 20  # bytes
TIMEOUT = 10  # seconds
LOGIN = "log in with `hf auth login`, or set HF_TOKEN"


class DownloadError(Exception):
    """A tensor could not be downloaded. No UserError, because of those of a tensor measure notes that it is left out."""


@dataclass(frozen=True)
class HubMatrix(StoredMatrix):
    """A matrix of a file on the Hub, in a local file of its own, which is downloaded when rows are first read."""

    download: Callable[[], None] = field(default=lambda: None, compare=False)

    def read(self, rows: np.ndarray) -> np.ndarray:
        self.download()
        return super().read(rows)

    def checked(self) -> StoredMatrix:
        if self.dtype in DTYPES and len(self.shape) == 2 and min(self.shape) > 0:  # others are refused
            self.download()
        return super().checked()


class HubFolder:
    """A model folder in the cache, and how its missing parts are downloaded.

    Raises:
        UserError: if the server or the cache has no such model, with the reason.
    """

    def __init__(self, given: str) -> None:
        self.name = parse_name(given)
        self.title = given.removeprefix(SCHEME)
        self.notes: list[str] = []
        self.bytes_read = 0
        self.files: list[str] = []  # weight files of the model
        self.path = self._open()

    def _open(self) -> Path:
        """Return the folder of the commit. Download its small files and headers if the cache lacks it."""
        repository, revision = self.name
        cache = import_hub(self.name).cached_assets_path("raretokens", repository, "commits")
        known, files = cache.parent / "revisions" / quote(revision, safe=""), None
        commit = revision
        if not (COMMIT.fullmatch(revision) and (cache / revision).is_dir()):
            try:
                commit, files = find_commit(self.name)
            except Unreachable as error:
                commit = known.read_text().strip() if known.is_file() else ""
                if not (commit and (cache / commit).is_dir()):
                    raise
                self.notes.append(f"the Hub was not reached, so the cached commit is measured ({error})")
        if commit != revision:
            self.notes.append(f"revision {revision} is commit {commit}")
        folder = cache / commit
        if not folder.is_dir():
            assert files is not None
            check_has_safetensors(self.name, files)
            self._create(folder, commit, [file for file in files if Path(file).name == file])
        if files is not None:
            write_text(known, commit)
        return folder

    def _create(self, folder: Path, commit: str, files: list[str]) -> None:
        """Download small files and headers into a folder of another name, and rename it."""
        part = folder.with_name(f"{commit}.part")
        with _lock(folder):
            if folder.is_dir():  # of a process that had the lock before
                return
            shutil.rmtree(part, ignore_errors=True)
            small = [file for file in files if any(fnmatch.fnmatch(file, pattern) for pattern in (*SMALL, *FILES))]
            weights = [file for file in files if file.endswith(".safetensors")]
            part.mkdir()
            with requests(self.name), ThreadPoolExecutor(AT_ONCE) as pool:
                headers = pool.map(lambda file: self._header(commit, file), weights)
                copies = pool.map(lambda file: download(self.name, commit, file, part / file), small)
                sizes = {}
                for file, (header, size, read) in zip(weights, headers, strict=True):
                    (part / file).write_bytes(header)
                    sizes[file] = size
                    self.bytes_read += read
                self.bytes_read += sum(copies)
            write_text(part / "sizes.json", json.dumps(sizes))
            part.rename(folder)

    def _header(self, commit: str, file: str) -> tuple[bytes, int, int]:
        """Return a safetensors file up to the end of its header, the size of the file, and how many bytes were read."""
        start, size = read_bytes(self.name, commit, file, 0, FIRST)
        length = 8 + int.from_bytes(start[:8], "little")
        if len(start) < length <= min(8 + MAX_HEADER, size):
            start += read_bytes(self.name, commit, file, len(start), length - len(start))[0]
        return start[:length], size, len(start)  # what is no header is refused by read_safetensors()

    def with_downloads(self, tensors: Mapping[str, StoredMatrix]) -> dict[str, StoredMatrix]:
        """Return the tensors of the folder's headers as matrices that are downloaded when they are read."""
        self.files = sorted({tensor.path.name for tensor in tensors.values()})
        found = {name: self._remote(tensor) for name, tensor in tensors.items()}
        if "mapping" in found and found["mapping"].dtype in MAPPING:
            found["mapping"].download()
        return dict(found)

    def _remote(self, tensor: StoredMatrix) -> HubMatrix:
        count = math.prod(tensor.shape) * int(re.sub(r"\D", "", tensor.dtype) or 8) // 8  # BF16 has 16 bits per number
        entry = {"dtype": tensor.dtype, "shape": tensor.shape, "data_offsets": (0, count)}
        header = json.dumps({tensor.name: entry}).encode()
        header += b" " * (-len(header) % 8)  # safetensors aligns the numbers
        head = len(header).to_bytes(8, "little") + header
        path = self.path / "tensors" / quote(tensor.name, safe="") / tensor.path.name

        def download() -> None:
            if not path.is_file():
                with _lock(self.path):
                    self._download(tensor.start, count, path, head)

        return HubMatrix(path, len(head), tensor.shape, tensor.dtype, tensor.name, download=download)

    def _download(self, start: int, count: int, path: Path, head: bytes) -> None:
        if path.is_file():  # of a process that had the lock before
            return
        try:
            with requests(self.name):
                self.bytes_read += download(self.name, self.path.name, path.name, path, (start, count), head)
        except UserError as error:
            raise DownloadError(str(error)) from None

    @property
    def traffic(self) -> str:
        """How many bytes were read of how many, in one line."""
        sizes = read_json(self.path / "sizes.json")
        total = sum(sizes.get(file, 0) for file in self.files)
        read = f"read {tqdm.format_sizeof(self.bytes_read, 'B')}" if self.bytes_read else "read nothing"
        return f"{self.title}: {read} of {tqdm.format_sizeof(total, 'B')}; the cache is {self.path}"


def _lock(folder: Path) -> AbstractContextManager[object]:
    """Keep other processes from writing to the folder of a commit."""
    from huggingface_hub.utils import WeakFileLock

    return WeakFileLock(folder.with_name(f"{folder.name}.lock"))


# Requests to the Hub: the files of a model at one commit, and ranges of bytes in them.


class Unreachable(UserError):
    """No request was possible, so only the cache can answer."""


class HubName(NamedTuple):
    """The name of a model on the Hub."""

    repository: str  # such as openai-community/gpt2
    revision: str  # a branch, a tag or a commit

    def __str__(self) -> str:
        return f"{SCHEME}{self.repository}" + ("" if self.revision == "main" else f"@{self.revision}")


def is_hub_name(name: str) -> bool:
    return name.startswith(SCHEME)


def parse_name(name: str) -> HubName:
    """Return repository and revision of hf://owner/name or hf://owner/name@revision. The default revision is main."""
    match = NAME.fullmatch(name)
    if match is None:
        raise UserError(
            f"{name}: should be hf://owner/name or hf://owner/name@revision, for a model of the Hugging Face Hub"
        )
    return HubName(match["repository"], match["revision"] or "main")


def import_hub(name: HubName) -> ModuleType:
    """Import huggingface_hub. Raise UserError if it is missing or too old."""
    try:
        import huggingface_hub
        from huggingface_hub.utils import http_stream_backoff  # noqa: F401  (since 1.0)
    except ImportError:
        raise UserError(f"{name}: needs huggingface_hub 1.0 or later: pip install -U huggingface_hub") from None
    return huggingface_hub


@contextmanager
def requests(name: HubName) -> Iterator[None]:
    """Allow requests inside the block unless the user forbids them. Elsewhere import_transformers() forbids all requests.

    Raises:
        Unreachable: if requests are forbidden, or there is no connection.
        UserError: if the server refuses, with one line that says what to do.
    """
    constants = import_hub(name).constants
    from huggingface_hub import errors

    before, constants.HF_HUB_OFFLINE = constants.HF_HUB_OFFLINE, IS_OFFLINE
    page = f"{constants.ENDPOINT}/{name.repository}"
    try:
        yield
    except errors.OfflineModeIsEnabled:
        reason = "HF_HUB_OFFLINE is set, and the cache lacks what is needed; unset HF_HUB_OFFLINE to download it"
        raise Unreachable(f"{name}: {reason}") from None
    except errors.GatedRepoError:
        raise UserError(f"{name}: access is restricted; accept the conditions on {page}, then {LOGIN}") from None
    except errors.RepositoryNotFoundError:
        raise UserError(
            f"{name}: no such model on {constants.ENDPOINT}, or it is private; check the name, or {LOGIN}"
        ) from None
    except errors.RevisionNotFoundError:
        raise UserError(
            f"{name}: the model has no revision {name.revision}; {page}/tree/main lists branches and tags"
        ) from None
    except errors.HfHubHTTPError as error:
        status = error.response.status_code
        advice = f"no access; {LOGIN}" if status in (401, 403) else "try again later, or another server in HF_ENDPOINT"
        raise UserError(f"{name}: {constants.ENDPOINT} answers {status}: {advice}") from None
    except errors.HFValidationError as error:
        raise UserError(f"{name}: {first_line(error)}") from None
    except errors.HTTPError as error:  # of the connection
        reason = f"{constants.ENDPOINT} cannot be reached ({first_line(error)}); check the network, or HF_ENDPOINT"
        raise Unreachable(f"{name}: {reason}") from None
    finally:
        constants.HF_HUB_OFFLINE = before


def find_commit(name: HubName) -> tuple[str, list[str]]:
    """Return the commit hash of a revision, and the names of the repository's files."""
    hub = import_hub(name)
    try:
        with requests(name):
            info = hub.HfApi(library_name="raretokens").model_info(
                name.repository, revision=name.revision, timeout=TIMEOUT
            )
    except (ValueError, TypeError):  # such as the page of a proxy
        info = None
    if info is None or not COMMIT.fullmatch(info.sha or ""):
        raise UserError(f"{name}: {hub.constants.ENDPOINT} does not describe a model; check HF_ENDPOINT")
    return info.sha, [file.rfilename for file in info.siblings or []]


def check_has_safetensors(name: HubName, files: Iterable[str]) -> None:
    """Raise UserError, with the alternative, if no file at the root of the repository is a .safetensors file."""
    files = sorted(files)
    if any(file.endswith(".safetensors") and "/" not in file for file in files):
        return
    command = f"hf download {name.repository} --revision {name.revision} --local-dir FOLDER"
    of_engine = [file for file in files if file.endswith(".gguf")]
    inner = [file for file in files if file.endswith(".safetensors")]
    pickled = [file for file in files if file.endswith(PICKLED)]
    if of_engine:
        advice = f", but {of_engine[0]}; download it (`{command} {of_engine[0]}`), and measure the file"
    elif inner:
        advice = f" at its root, but {inner[0]}; download the model (`{command}`), and measure its folder"
    elif pickled:
        advice = (
            f", but {pickled[0]}, a program that runs when it is opened; a pull request may have one (@refs/pr/NUMBER)"
        )
    else:
        advice = ", so it has no weights that are read"
    raise UserError(f"{name}: has no .safetensors file{advice}")


def read_bytes(name: HubName, commit: str, file: str, first: int, count: int) -> tuple[bytes, int]:
    """Return at most `count` bytes of a file from byte `first` on, and the size of the file in bytes."""
    with _stream(name, commit, file, (first, count)) as (blocks, size):
        content = b"".join(blocks)
    if len(content) != min(count, size - first):
        raise UserError(f"{name}: {file} ends after {first + len(content)} of {size} bytes; repeat the command")
    return content, size


def download(
    name: HubName, commit: str, file: str, path: Path, part: tuple[int, int] | None = None, head: bytes = b""
) -> int:
    """Write a file, or the part (first byte, count) of it, to a path. The path exists only when all bytes are there.

    `head` are bytes to write before. Return the number of bytes read from the server.
    """
    with (
        atomic_write(path) as unfinished,
        open(unfinished, "wb") as output,
        _stream(name, commit, file, part) as (blocks, _),
        tqdm(total=part and part[1], unit="B", unit_scale=True, desc=file, leave=False, disable=None, delay=1) as bar,
    ):
        output.write(head)
        for block in blocks:
            output.write(block)
            bar.update(len(block))
        read = output.tell() - len(head)
        if part and read != part[1]:
            raise UserError(f"{name}: {file} ends after {read} of {part[1]} bytes of a tensor")
    return read


@contextmanager
def _stream(
    name: HubName, commit: str, file: str, part: tuple[int, int] | None
) -> Iterator[tuple[Iterator[bytes], int]]:
    """Open a file of the Hub. Yield its bytes in blocks, and its size (0: unknown)."""
    from huggingface_hub import constants, hf_hub_url
    from huggingface_hub.utils import build_hf_headers, hf_raise_for_status, http_stream_backoff

    url = hf_hub_url(name.repository, file, revision=commit)
    headers = build_hf_headers(library_name="raretokens") | {"Accept-Encoding": "identity"}
    if part:
        headers["Range"] = f"bytes={part[0]}-{part[0] + part[1] - 1}"
    with http_stream_backoff("GET", url, headers=headers, timeout=constants.HF_HUB_DOWNLOAD_TIMEOUT) as response:
        hf_raise_for_status(response)
        size = 0
        if part:  # before the body is read, which may be the whole file
            match = RANGE.fullmatch(response.headers.get("Content-Range", ""))
            if response.status_code != 206 or match is None or int(match[1]) != part[0]:
                answer = f"{constants.ENDPOINT} ignores range requests (status {response.status_code} for {file})"
                command = f"hf download {name.repository} --revision {name.revision} --local-dir FOLDER"
                raise UserError(f"{name}: {answer}; `{command}` downloads the whole model")
            size = int(match[3])
        yield _blocks(name, file, response), size


def _blocks(name: HubName, file: str, response: object) -> Iterator[bytes]:
    """Yield the body of a response. A connection that breaks is a UserError, since http_stream_backoff() cannot repeat it."""
    from huggingface_hub.errors import HTTPError

    try:
        yield from response.iter_bytes(CHUNK)  # type: ignore[attr-defined]
    except HTTPError as error:
        raise UserError(
            f"{name}: the connection broke within {file} ({first_line(error)}); repeat the command"
        ) from None
