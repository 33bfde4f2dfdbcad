"""Vocabulary files: the token of each row, as text, JSON or Parquet; and the tokens of models of inference engines."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from raretokens.errors import UserError
from raretokens.measure.notes import Notes
from raretokens.measure.tokenizers import ModelTokenizer, load_engine_tokenizer, special_ids


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

VOCABULARIES = ("shared_vocabulary", "vocabulary", "source_vocabulary")  # of CTranslate2, .json or .txt
SPECIALS = {"eos_token": "</s>", "unk_token": "<unk>"}  # of Marian, and of CTranslate2 unless config.json names others


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
        tokenizer = load_engine_tokenizer(folder, names)
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
        "special_ids": [*special_ids(config, SPECIALS | dict(config), tokens).values()],
        "has_two_vocabularies": path is not None and path.stem == "source_vocabulary",
    }
