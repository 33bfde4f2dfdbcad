"""Requests to the Hugging Face Hub: the files of a model at one commit, and ranges of bytes in them.

huggingface_hub gives the endpoint, the token, the session and the errors of the server.
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from tqdm import tqdm

from raretokens.errors import UserError
from raretokens.files import atomic_write
from raretokens.measure.formats import PICKLED
from raretokens.measure.notes import first_line
from raretokens.measure.transformers_models import IS_OFFLINE

SCHEME = "hf://"
NAME = re.compile(SCHEME + r"(?P<repository>[\w.-]+(?:/[\w.-]+)?)(?:@(?P<revision>[^@\s]+))?")
RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+)")  # header Content-Range of an answer
COMMIT = re.compile(r"[0-9a-f]{40}")
CHUNK = 1 << 20  # bytes
TIMEOUT = 10  # seconds
LOGIN = "log in with `hf auth login`, or set HF_TOKEN"


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
