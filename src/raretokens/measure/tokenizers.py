"""Tokens of a model: the tokenizer of its folder, or a vocabulary file that names its rows.

A tokenizer is read by transformers or tokenizers, or else SentencePiece. No code of the folder is run.
"""

import json
import re
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import tokenizers

from raretokens.errors import UserError
from raretokens.measure.embeddings import setting
from raretokens.measure.formats import read_json
from raretokens.measure.notes import Notes, first_line
from raretokens.measure.transformers_models import LOCAL, import_transformers

SPECIAL_NAMES = ("bos", "pad", "eos", "unk")  # in the order of vocabulary.SPECIALS
# Files of a tokenizer. A tokenizer of bytes or characters needs only its configuration.
FILES = ("tokenizer.json", "vocab.json", "vocab.txt", "*.model", "*.spm", "tekken.json", "*.tiktoken", "bpe.codes",
         "vocab-src.json", "vocab.bpe", "dict.txt", "tokenizer_config.json")  # fmt: skip
VOCABULARIES = ("shared_vocabulary", "vocabulary", "source_vocabulary")  # of CTranslate2, .json or .txt
ENGINE_SPECIALS = {"eos_token": "</s>", "unk_token": "<unk>"}  # of Marian, and of CTranslate2 unless config.json names others


class ModelTokenizer(ABC):
    """A tokenizer that adds no special tokens around a text."""

    def __init__(self, tokens: Mapping[int, str]) -> None:
        self.tokens = tokens  # by id
        self.size = max(tokens, default=-1) + 1  # greater than every id; not all smaller ids need to be in use

    @abstractmethod
    def encode(self, texts: list[str]) -> list[list[int]]: ...

    @abstractmethod
    def text(self, id: int) -> str:
        """Return the text of a token, which is empty for ids without a token."""

    @property
    def unknown_id(self) -> int | None:
        """Return the id that unknown text has, or None if the tokenizer names none."""
        return None


class FastTokenizer(ModelTokenizer):
    """A tokenizer of the library tokenizers."""

    def __init__(self, model: "tokenizers.Tokenizer") -> None:
        ids = range(max(model.get_vocab().values(), default=-1) + 1)  # get_vocab() has only the last of duplicate tokens
        super().__init__({id: token for id in ids if (token := model.id_to_token(id)) is not None})
        self.model = model

    def encode(self, texts: list[str]) -> list[list[int]]:
        return [encoding.ids for encoding in self.model.encode_batch_fast(texts, add_special_tokens=False)]

    @property
    def unknown_id(self) -> int | None:
        token = getattr(self.model.model, "unk_token", None)
        return None if token is None else self.model.token_to_id(token)

    def text(self, id: int) -> str:
        token, prefix = self.tokens.get(id, ""), getattr(self.model.model, "continuing_subword_prefix", None)
        if prefix and token.startswith(prefix):  # WordPiece: the library would give the prefix as text
            return token.removeprefix(prefix)
        return self.model.decode([id], skip_special_tokens=False)


def read_fast(folder: Path) -> FastTokenizer:
    """Load tokenizer.json, with the tokens that other files of the folder add."""
    model = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    known = model.get_vocab()
    for token, id in sorted(added_tokens(folder).items(), key=lambda pair: pair[1]):
        if token not in known and model.get_vocab_size() == id:  # the library numbers added tokens itself
            model.add_special_tokens([tokenizers.AddedToken(token, normalized=False)])
        if model.token_to_id(token) != id:
            raise UserError(f"tokenizer.json does not give {token!r} the id {id} that other files of the folder do")
    model.no_truncation()
    model.no_padding()
    return FastTokenizer(model)


class TransformersTokenizer(ModelTokenizer):
    """The tokenizer that transformers loads from a folder."""

    def __init__(self, folder: Path) -> None:
        transformers = import_transformers()
        with warnings.catch_warnings(action="ignore"):
            self.model = transformers.AutoTokenizer.from_pretrained(folder, **LOCAL)
        super().__init__({id: token for token, id in self.model.get_vocab().items()})
        if len(self.tokens) <= len({*self.model.all_special_ids}):
            raise UserError(f"{type(self.model).__name__} of transformers finds no tokens in it")

    def encode(self, texts: list[str]) -> list[list[int]]:
        settings = dict.fromkeys(("add_special_tokens", "return_attention_mask", "return_token_type_ids", "verbose"), False)
        return self.model(texts, **settings)["input_ids"]

    def text(self, id: int) -> str:
        return self.model.decode([id], skip_special_tokens=False, clean_up_tokenization_spaces=False)


class SentencePieceTokenizer(ModelTokenizer):
    """A SentencePiece model whose tokens may have other ids, as in Marian and the pipeline. Tokens without an id are unknown.

    Args:
        path: the SentencePiece model.
        ids: id of each token. None: the ids of the model.
        added: ids of further tokens, which are found in a text before it is encoded.
    """

    def __init__(self, path: Path, ids: Mapping[str, int] | None = None, added: Mapping[str, int] | None = None) -> None:
        from sentencepiece import SentencePieceProcessor

        self.model = SentencePieceProcessor(model_file=str(path))
        self.ids = dict(ids or {self.model.id_to_piece(id): id for id in range(self.model.get_piece_size())})
        self.added = {token: id for token, id in (added or {}).items() if token not in self.ids}
        super().__init__({id: token for token, id in {**self.ids, **self.added}.items()})
        self.unknown = self.ids.get("<unk>", 0)
        longest_first = sorted(self.added, key=len, reverse=True)
        self.pattern = re.compile("(" + "|".join(map(re.escape, longest_first)) + ")") if self.added else None

    def encode(self, texts: list[str]) -> list[list[int]]:
        if self.pattern is None:
            return [self._ids(row) for row in self.model.encode(texts, out_type=str)]
        return [[id for part in self.pattern.split(text) if part for id in self._encode_part(part)] for text in texts]

    def _encode_part(self, part: str) -> list[int]:
        return [self.added[part]] if part in self.added else self._ids(self.model.encode(part, out_type=str))

    def _ids(self, tokens: list[str]) -> list[int]:
        return [self.ids.get(token, self.unknown) for token in tokens]

    def text(self, id: int) -> str:
        token = self.tokens.get(id, "")
        return token if token in self.added else self.model.decode_pieces([token])


def library_tokenizer(tokenizer: ModelTokenizer | None) -> "tokenizers.Tokenizer | None":
    """Return the tokenizer of the library tokenizers behind a tokenizer, or None if there is none."""
    if isinstance(tokenizer, FastTokenizer):
        return tokenizer.model
    if isinstance(tokenizer, TransformersTokenizer):
        return getattr(tokenizer.model, "backend_tokenizer", None)
    return None


# Tokenizers of model folders of transformers.


def load_tokenizer(folder: Path, config: Mapping[str, Any], notes: list[str]) -> ModelTokenizer | None:
    """Return the tokenizer of a model folder, or None if it has no tokenizer file. Note assumptions.

    Raises:
        UserError: if the folder has a tokenizer that cannot be read.
    """
    files = {path.name for pattern in FILES for path in folder.glob(pattern) if path.is_file()}
    if not files:
        return None
    if "tokenizer.json" in files:
        return _read(read_fast, folder)
    if config.get("raretokens") and (folder / "source.spm").is_file():  # an exported run
        return _read(SentencePieceTokenizer, folder / "source.spm", read_json(folder / "vocab.json"))
    try:
        return TransformersTokenizer(folder)
    except ModuleNotFoundError as error:
        reason = f"{error.name} is not installed"
    except Exception as error:  # a tokenizer's own code may raise any exception
        reason = f"transformers cannot read it: {first_line(error)}"
    if "tokenizer.model" in files:
        notes.append(f"tokenizer: tokenizer.model is read by SentencePiece, since {reason}")
        return _read(SentencePieceTokenizer, folder / "tokenizer.model", None, added_tokens(folder))
    if files == {"tokenizer_config.json"}:
        return None
    raise UserError(f"the tokenizer cannot be read: {reason}")


def _read(reader: Callable[..., ModelTokenizer], *arguments: Any) -> ModelTokenizer:
    try:
        return reader(*arguments)
    except ImportError as error:
        raise UserError(f"the tokenizer needs {error.name}: pip install {error.name}") from None
    except Exception as error:  # exceptions of the library for files that it cannot read
        raise UserError(f"the tokenizer cannot be read: {first_line(error)}") from None


def added_tokens(folder: Path) -> dict[str, int]:
    """Return the ids of the tokens in added_tokens.json and tokenizer_config.json."""
    found: dict[str, int] = {}
    settings, given = (dict(_entries(read_json(folder / name))) for name in ("tokenizer_config.json", "added_tokens.json"))
    for id, token in _entries(settings.get("added_tokens_decoder")):
        if isinstance(token, dict) and isinstance(token.get("content"), str) and id.isdigit():
            found[token["content"]] = int(id)
    return found | {token: id for token, id in given.items() if isinstance(id, int)}


def _entries(value: Any) -> Any:
    return value.items() if isinstance(value, dict) else ()


def special_ids(
    config: Mapping[str, Any], settings: Mapping[str, Any], tokens: Mapping[int, str]
) -> dict[str, int | None]:
    """Return the ids of the special tokens. A shared id belongs to the first of eos, bos, unk and pad.

    The arguments are the contents of config.json and tokenizer_config.json, and the tokens by id.
    """
    ids = {token: id for id, token in tokens.items()}
    found: dict[str, int | None] = dict.fromkeys(SPECIAL_NAMES)
    for name in ("eos", "bos", "unk", "pad"):
        id = setting(config, f"{name}_token_id")
        id = id[0] if isinstance(id, list) and id else id
        if id is None:
            token = settings.get(f"{name}_token")
            token = token.get("content") if isinstance(token, dict) else token
            id = ids.get(token) if isinstance(token, str) else None
        if isinstance(id, int) and id >= 0 and id not in found.values():
            found[name] = id
    return found


# Vocabulary files: the token of each row, as text, JSON or Parquet.


def read_vocabulary(path: Path, rows: int) -> list[str]:
    """Read the token of each row of a matrix.

    The file has a token per line; or it is JSON, either a list or ids by token; or Parquet, whose first column of strings counts.

    Raises:
        UserError: if the file is malformed, or has another number of tokens than the matrix has rows.
    """
    try:
        if path.suffix == ".parquet":
            tokens = _read_parquet(path)
        else:
            text = path.read_text(encoding="utf-8")
            tokens = _parse_json(text) if path.suffix == ".json" else text.removesuffix("\n").split("\n")
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except (OSError, ValueError) as error:  # includes errors of UTF-8, JSON and pyarrow
        raise UserError(f"{path}: not a vocabulary ({str(error).splitlines()[0]})") from None
    if len(tokens) != rows:
        raise UserError(f"{path}: {len(tokens)} tokens, but the matrix has {rows} rows")
    return tokens


def name_rows(
    names: list[str] | None, tokenizer: ModelTokenizer | None, vocabulary: Path | None, rows: int, notes: Notes
) -> list[str] | None:
    """Return the tokens of the file `vocabulary` if the model has none for its rows, else `names`, with a note.

    Args:
        names: tokens of the rows that the model's own files name.
        tokenizer: the model's tokenizer, which has tokens for the rows as well.
        vocabulary: a file for read_vocabulary(), if one is given.
    """
    if vocabulary is None:
        return names
    if names is None and tokenizer is None:
        return read_vocabulary(vocabulary, rows)
    notes.append(f"--vocabulary {vocabulary} is ignored: the rows have tokens already, from the model's own files")
    return names


def _parse_json(text: str) -> list[str]:
    found = json.loads(text)
    if isinstance(found, dict) and sorted(map(str, found.values())) == sorted(map(str, range(len(found)))):
        found = sorted(found, key=lambda token: int(found[token]))
    if not isinstance(found, list) or not all(isinstance(token, str) for token in found):
        raise ValueError("should be a list of tokens, or their ids from 0")
    return found


def _read_parquet(path: Path) -> list[str]:
    try:
        from pyarrow import parquet
    except ModuleNotFoundError:
        raise UserError(f"{path}: Parquet needs pyarrow: pip install pyarrow") from None
    with parquet.ParquetFile(path) as file:
        name = next((field.name for field in file.schema_arrow if str(field.type) in ("string", "large_string")), None)
        if name is None:
            raise ValueError("no column of strings")
        return file.read([name]).column(0).to_pylist()


# Models of CTranslate2 and Marian: their vocabularies and tokenizers lie beside the weights.


def find_tokens(
    folder: Path, rows: int, names: list[str] | None, config: Mapping[str, Any], vocabulary: Path | None, notes: Notes
) -> dict[str, Any]:
    """Return the fields of Model that tell the tokens of an engine's embedding with `rows` rows. Note what cannot be read.

    Args:
        names: the tokens in the file of the weights, if it has them.
        vocabulary: a file that names the rows if no file of the folder does.
    """
    tokenizer: ModelTokenizer | None = None
    paths = [folder / f"{name}{suffix}" for name in VOCABULARIES for suffix in (".json", ".txt")]
    path = next((path for path in paths if path.is_file()), None) if names is None else None
    if path:
        with notes.optional(f"tokens of {path.name}"):
            names = read_vocabulary(path, rows)
    with notes.optional("tokenizer"):
        tokenizer = _load_engine_tokenizer(folder, names)
    names = name_rows(names, tokenizer, vocabulary, rows, notes)
    if names is None and tokenizer is None:
        notes.append("no vocabulary beside the weights is known: rows have no tokens (--vocabulary names them)")
    if path and names and tokenizer and any(tokenizer.tokens.get(row, name) != name for row, name in enumerate(names)):
        notes.append(f"tokenizer left out: its ids are not those of {path.name}")
        tokenizer = None
    tokens = dict(enumerate(names)) if names else tokenizer.tokens if tokenizer else {}
    return {
        "tokenizer": tokenizer,
        "row_names": names,
        "special_ids": [*special_ids(config, ENGINE_SPECIALS | dict(config), tokens).values()],
        "has_two_vocabularies": path is not None and path.stem == "source_vocabulary",
    }


def _load_engine_tokenizer(folder: Path, names: Sequence[str] | None) -> ModelTokenizer | None:
    """Return the tokenizer beside weights of CTranslate2 or Marian, or None if there is none.

    If a vocabulary file gives the name of each row, the tokens of a SentencePiece model have the ids of these rows.

    Raises:
        UserError: if the tokenizer cannot be read, or several files could be the tokenizer.
    """
    if (folder / "tokenizer.json").is_file():
        return _read(read_fast, folder)
    models = sorted(path for pattern in ("*.spm", "*.model") for path in folder.glob(pattern))
    if len(models) > 1:
        raise UserError(f"which of {', '.join(path.name for path in models)} is that of the rows?")
    ids = None if names is None else {name: row for row, name in enumerate(names)}
    return _read(SentencePieceTokenizer, models[0], ids) if models else None
