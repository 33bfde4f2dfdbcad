"""A model of the Hugging Face Hub as a model folder in the cache: small files, headers of weight files, and tensors on demand.

A weight file of the folder ends after its header, from which the tensors are known. A tensor is downloaded when it is read.
The cache is that of huggingface_hub for other libraries (HF_ASSETS_CACHE, else assets in HF_HOME).

    <owner>--<name>/revisions/<revision>   the commit hash that the revision last had
    <owner>--<name>/commits/<commit>/      the model folder
        sizes.json                         size of each weight file in bytes
        tensors/<tensor>/<file>            a safetensors file with this tensor alone
"""

import fnmatch
import json
import math
import re
import shutil
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

import numpy as np
from tqdm import tqdm

from raretokens.errors import UserError
from raretokens.files import write_text
from raretokens.measure import hub
from raretokens.measure.formats import MAX_HEADER, read_json
from raretokens.measure.hub import COMMIT, Unreachable
from raretokens.measure.stored_matrix import DTYPES, StoredMatrix
from raretokens.measure.tokenizers import FILES

# Files that are downloaded as a whole, in addition to those of a tokenizer.
SMALL = ("config.json", "model.safetensors.index.json", "adapter_config.json", "added_tokens.json", "special_tokens_map.json",
         "merges.txt", "target_vocab.json")  # fmt: skip
FIRST = 100_000  # bytes of the first request for a header; most headers are shorter
AT_ONCE = 8  # requests
# Types of a vector of row numbers (see model.py), which is read as a whole.
MAPPING = ("I64", "I32")


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
        self.name = hub.parse_name(given)
        self.title = given.removeprefix(hub.SCHEME)
        self.notes: list[str] = []
        self.bytes_read = 0
        self.files: list[str] = []  # weight files of the model
        self.path = self._open()

    def _open(self) -> Path:
        """Return the folder of the commit. Download its small files and headers if the cache lacks it."""
        repository, revision = self.name
        cache = hub.import_hub(self.name).cached_assets_path("raretokens", repository, "commits")
        known, files = cache.parent / "revisions" / quote(revision, safe=""), None
        commit = revision
        if not (COMMIT.fullmatch(revision) and (cache / revision).is_dir()):
            try:
                commit, files = hub.find_commit(self.name)
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
            hub.check_has_safetensors(self.name, files)
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
            with hub.requests(self.name), ThreadPoolExecutor(AT_ONCE) as pool:
                headers = pool.map(lambda file: self._header(commit, file), weights)
                copies = pool.map(lambda file: hub.download(self.name, commit, file, part / file), small)
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
        start, size = hub.read_bytes(self.name, commit, file, 0, FIRST)
        length = 8 + int.from_bytes(start[:8], "little")
        if len(start) < length <= min(8 + MAX_HEADER, size):
            start += hub.read_bytes(self.name, commit, file, len(start), length - len(start))[0]
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
            with hub.requests(self.name):
                self.bytes_read += hub.download(self.name, self.path.name, path.name, path, (start, count), head)
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
