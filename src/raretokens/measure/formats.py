"""Files with embedding matrices: safetensors, NumPy arrays, word vectors and files of inference engines. Rows are read on demand.

The first bytes of a file determine its format, or else its suffix. Nothing is unpickled or executed. To add a format, add a
reader and its line in FORMATS. inference_models reads the files of inference engines.
"""

import gzip
import json
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from statistics import mode
from typing import Any, NamedTuple

import numpy as np

from raretokens.errors import UserError
from raretokens.measure import inference_models
from raretokens.measure.stored_matrix import BLOCK, DTYPES, FileContents, StoredMatrix, read_head, store

MAX_HEADER = 100 << 20  # bytes; the limit of safetensors
PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".h5", ".msgpack")  # suffixes of weights that are not read
VECTORS = (".npz", ".vec")  # suffixes of files that hold an embedding alone
# Exceptions of zipfile for files that are damaged, encrypted, or compressed in an unknown way.
DAMAGED = (zipfile.BadZipFile, OSError, EOFError, zlib.error, RuntimeError, ValueError)
FIRST_LINES = 1000  # lines that determine the width of word vectors
LOWEST = 9  # lowest byte that a text contains


def read_safetensors(path: Path) -> FileContents:
    size = path.stat().st_size
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if not 2 <= length <= min(MAX_HEADER, size - 8):
            raise UserError(f"{path}: not a safetensors file, or cut off")
        try:
            header = json.loads(file.read(length))
            return FileContents(
                {
                    name: StoredMatrix(path, 8 + length + entry["data_offsets"][0], tuple(entry["shape"]), entry["dtype"], name)
                    for name, entry in header.items()
                    if name != "__metadata__"
                }
            )
        except (ValueError, KeyError, TypeError, AttributeError, IndexError):
            raise UserError(f"{path}: not a safetensors file: its header does not describe tensors") from None


def read_npy(path: Path) -> FileContents:
    """Read a two-dimensional array of floats. Reject other arrays, in particular objects, which would be unpickled."""
    try:
        array = np.lib.format.open_memmap(path, mode="r")
    except (ValueError, EOFError, SyntaxError) as error:
        raise UserError(f"{path}: should be rows x width of float16, float32 or float64 ({error})") from None
    code = next((code for code, known in DTYPES.items() if known == array.dtype.newbyteorder("<") and code != "BF16"), None)
    if code is None or array.ndim != 2:
        raise UserError(f"{path}: {array.shape} of {array.dtype}: should be rows x width of float16, float32 or float64")
    notes = []
    if array.shape[0] < array.shape[1]:
        shape = "{} rows of width {}".format(*array.shape)
        notes.append(f"{path.name} has {shape}; transpose it if its columns are the tokens")
    if array.flags.c_contiguous and array.dtype == DTYPES[code]:
        return FileContents({"": StoredMatrix(path, array.offset, array.shape, code)}, notes=notes)
    # a matrix in column-major or big-endian order is copied, row by row
    matrix, folder = store((array[start : start + BLOCK] for start in range(0, len(array), BLOCK)), code)
    return FileContents({"": matrix}, None, folder, notes)


def is_npy(path: Path) -> bool:
    """Whether a file is a readable NumPy array, whatever its name."""
    try:
        return read_head(path).startswith(b"\x93NUMPY") and bool(read_npy(path).tensors)
    except (UserError, OSError):
        return False


def read_gzip(path: Path) -> FileContents:
    """Unpack a compressed file of any other format into a temporary folder, and read it."""
    folder = tempfile.TemporaryDirectory()
    inner = Path(folder.name) / path.stem
    try:
        with gzip.open(path) as packed, open(inner, "wb") as file:
            shutil.copyfileobj(packed, file, 1 << 20)
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"{path}: cannot be unpacked ({error})") from None
    found = read_file(inner)
    return found._replace(folder=(folder, found.folder))


def read_zip(path: Path) -> FileContents:
    """Read NumPy arrays (.npz), of which one may contain the words. Reject other zip files."""
    arrays: dict[str, np.ndarray] = {}
    try:
        with np.load(path, allow_pickle=False) as packed:
            names = packed.zip.namelist()
            if any(name.endswith(".pkl") for name in names):  # a checkpoint of torch
                refuse(path)
            if not all(name.endswith(".npy") for name in names):
                raise UserError(f"{path}: a zip file of {', '.join(names[:4])}; unpack it, and measure one of its files")
            for name in packed.files:
                with suppress(ValueError):  # an array of objects
                    arrays[name] = packed[name]
    except DAMAGED as error:
        raise UserError(f"{path}: cannot be unpacked ({error})") from None
    codes = {dtype.str: code for code, dtype in DTYPES.items() if dtype.kind == "f"}
    found = {
        name: store([array], codes[array.dtype.newbyteorder("<").str], name)
        for name, array in arrays.items()
        if array.ndim == 2 and array.dtype.newbyteorder("<").str in codes
    }
    if not found:
        raise UserError(f"{path}: no array of rows x width of float16, float32 or float64 among {', '.join(names[:8])}")
    tensors = {name: matrix for name, (matrix, _) in found.items()}
    rows = {matrix.shape[0] for matrix in tensors.values()}
    words = (array.tolist() for array in arrays.values() if array.ndim == 1 and array.dtype.kind == "U" and {len(array)} == rows)
    return FileContents(tensors, next(words, None), [folder for _, folder in found.values()])


def unpack_folder(path: Path) -> tuple[Path, tempfile.TemporaryDirectory] | None:
    """Unpack a zipped model folder. Return the model folder and the temporary folder, or None for other zip files.

    The model folder contains config.json. The one nearest to the root of the archive counts.
    """
    if not zipfile.is_zipfile(path):
        return None
    try:
        with zipfile.ZipFile(path) as packed:
            configs = [Path(name) for name in packed.namelist() if Path(name).name == "config.json"]
            if not configs:
                return None
            folder = tempfile.TemporaryDirectory()
            packed.extractall(folder.name)  # writes below this folder, whatever the names in the archive are
    except DAMAGED as error:
        raise UserError(f"{path}: cannot be unpacked ({error})") from None
    return folder.name / min(configs, key=lambda one: len(one.parts)).parent, folder


# Word vectors as text (GloVe, fastText, gensim), and in word2vec's binary form, which gensim reads. The numbers are written to a
# temporary file, and the words stay in memory. If a word occurs twice, its first row counts, as in gensim.


def _declared_shape(line: bytes) -> tuple[int, int] | None:
    """Return rows and width if the line consists of these two numbers, else None."""
    fields = line.split()
    return (int(fields[0]), int(fields[1])) if len(fields) == 2 and all(field.isdigit() for field in fields) else None


def read_words(path: Path) -> FileContents:
    """Read word vectors in text or binary form."""
    with open(path, "rb") as file:
        is_binary = _declared_shape(file.readline(100)) is not None and min(file.read(1000), default=LOWEST) < LOWEST
    return _read_binary_words(path) if is_binary else _read_text_words(path)


def _read_binary_words(path: Path) -> FileContents:
    try:
        from gensim.models import KeyedVectors
    except ModuleNotFoundError:
        raise UserError(f"{path}: the binary form of word2vec needs gensim: pip install gensim") from None
    try:
        found = KeyedVectors.load_word2vec_format(str(path), binary=True, unicode_errors="replace")
    except (ValueError, EOFError, MemoryError) as error:
        raise UserError(f"{path}: gensim cannot read it: {error}") from None
    matrix, folder = store(found.vectors[start : start + BLOCK] for start in range(0, len(found), BLOCK))
    return FileContents({"": matrix}, found.index_to_key, folder)


def _read_text_words(path: Path) -> FileContents:
    """Read a word and its numbers from each line that is not empty. The first line may contain rows and width."""
    with open(path, "rb") as file:
        lines = [line for line in islice(file, FIRST_LINES) if line.strip()]
        file.seek(0)
        declared, width = _declared_shape(lines[0]) if lines else None, mode(len(line.split()) - 1 for line in lines or [b"word"])
        if declared is not None:
            file.readline()
            width = declared[1]
        if width < 1:
            raise UserError(f"{path}: contains no word vectors: line 1 should be a word and its numbers")
        words: dict[str, None] = {}
        twice: list[str] = []
        matrix, folder = store(_word_rows(path, file, 1 + (declared is not None), width, words, twice))
    found, notes = len(words) + len(twice), []
    if declared is not None and declared[0] != found:
        notes.append(f"the first line of {path.name} declares {declared[0]} rows, but {found} follow: these are measured")
    if twice:
        notes.append(f"{len(twice)} rows of words that stand twice are left out: the first row counts")
    return FileContents({"": matrix}, list(words), folder, notes)


def _word_rows(
    path: Path, file: Iterable[bytes], first: int, width: int, words: dict[str, None], twice: list[str]
) -> Iterator[np.ndarray]:
    """Yield blocks of rows. Add their words to `words`, or to `twice` if they are known already.

    The last `width` fields of a line are the row, so a word may contain blanks. Blanks and tabs separate fields.
    """
    lines = ((number, line) for number, line in enumerate(file, first) if line.strip())
    form = f"should be a word and {width} numbers, separated by spaces or tabs"
    while block := list(islice(lines, BLOCK)):
        texts = []
        for number, line in block:
            word, *fields = line.rsplit(None, width)
            if len(fields) < width:
                raise UserError(f"{path}: line {number}: {form}")
            name = word.decode("utf-8", "replace")
            if name in words:
                twice.append(name)
            else:
                words[name] = None
                texts.append(b" ".join(fields).decode("utf-8", "replace"))
        try:
            if texts:
                yield np.loadtxt(texts, np.float32, comments=None, ndmin=2)
        except ValueError as error:
            raise UserError(f"{path}: of the lines {block[0][0]} to {block[-1][0]}, each {form}: {error}") from None


# The formats, and how the format of a file is found.


def refuse(path: Path) -> FileContents:
    raise UserError(
        f"{path}: not read: such a file is a program that runs when it is opened; save the model as safetensors "
        "(save_pretrained(folder, safe_serialization=True)), and vectors of gensim by save_word2vec_format()"
    )


def name_way_out(path: Path) -> FileContents:
    head = read_head(path)
    raise UserError(f"{path}: " + next(line for begin, line in OTHERS.items() if head.startswith(begin)))


OTHERS = {  # first bytes of formats that are not read -> their name and the alternative
    b"\x08": "an ONNX file; measure the safetensors folder that it was exported from",
    b"\xba\x16\x4f\x2f": "a model of fastText; measure its .vec file, or save its vectors by gensim's save_word2vec_format()",
    b"version https://git-lfs": "only a pointer to the file in Git LFS; git lfs pull downloads it",
    b"BZh": "compressed by bzip2; unpack it first",
    b"\xfd7zXZ": "compressed by xz; unpack it first",
}


class Format(NamedTuple):
    """A file format, recognised by the first bytes of a file or else by its suffix."""

    suffixes: tuple[str, ...]
    has_signature: Callable[[bytes], bool]
    read: Callable[[Path], FileContents]


FORMATS = (
    Format(
        (".safetensors",),
        lambda head: head[8:9] == b"{" and int.from_bytes(head[:8], "little") <= MAX_HEADER,
        read_safetensors,
    ),
    Format((), lambda head: head.startswith(tuple(OTHERS)), name_way_out),
    Format((".npy",), lambda head: head.startswith(b"\x93NUMPY"), read_npy),
    Format((".gz",), lambda head: head.startswith(b"\x1f\x8b"), read_gzip),
    Format((".npz", ".zip"), lambda head: head.startswith(b"PK\x03\x04"), read_zip),  # includes checkpoints of torch
    Format((), lambda head: head.startswith((b"\x80", b"\x89HDF")), refuse),  # pickle, HDF5
    Format((".gguf",), lambda head: head.startswith(b"GGUF"), inference_models.read_gguf),
    Format((), inference_models.is_ctranslate2, inference_models.read_ctranslate2),
    Format((), inference_models.is_marian, inference_models.read_marian),
    Format((), lambda head: _declared_shape(head.partition(b"\n")[0]) is not None, read_words),
    Format((*PICKLED, ".model", ".kv", ".wordvectors"), lambda head: False, refuse),
    Format((".txt", ".vec"), lambda head: True, read_words),
)
SUFFIXES = {suffix: known for known in reversed(FORMATS) for suffix in known.suffixes}


def read_file(path: Path) -> FileContents:
    """Find the matrices of a file. Raise UserError if its format is not supported or the file is malformed."""
    head = read_head(path)
    if not head:
        raise UserError(f"{path}: is empty")
    known = next(known for known in FORMATS if known.has_signature(head))
    if known is FORMATS[-1]:
        known = SUFFIXES.get(path.suffix, known)
    return known.read(path)


def is_engine_file(path: Path) -> bool:
    """Whether a file is a model of CTranslate2, Marian or llama.cpp."""
    head = read_head(path) if path.is_file() else b""
    return head.startswith(b"GGUF") or inference_models.is_ctranslate2(head) or inference_models.is_marian(head)


def read_json(path: Path) -> dict[str, Any]:
    """Return the contents of a JSON file, or an empty dictionary if there is no file."""
    try:
        return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    except ValueError as error:
        raise UserError(f"{path}: not JSON ({error})") from None
