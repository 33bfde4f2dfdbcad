"""Tokenizers of model folders, without code of the folder (tokenizers, GPT-2, Marian, SentencePiece); texts as their ids."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from raretokens.errors import UserError
from raretokens.tokenization.token_files import read_blocks
from raretokens.tools.measure.embeddings import setting
from raretokens.tools.measure.formats import read_json

CONTEXTS = ("", " ", "a", "«", "\n")  # before the text of a token, to see whether the tokenizer gives the token
REPLACEMENT = "\ufffd"
SPECIAL_NAMES = ("bos", "pad", "eos", "unk")  # in the order of vocabulary.SPECIALS


class Tokenizer(Protocol):
    """A tokenizer without special tokens around a text."""

    size: int  # ids are below it, though not all of them need to be in use

    def encode(self, lines: list[str]) -> list[list[int]]: ...

    def token(self, id: int) -> str | None: ...

    def text(self, id: int) -> str: ...


class FastTokenizer:
    """tokenizer.json, or GPT-2's vocab.json and merges.txt, by the library tokenizers."""

    def __init__(self, folder: Path) -> None:
        from tokenizers import Tokenizer, decoders, models, pre_tokenizers

        if (folder / "tokenizer.json").is_file():
            self.model = Tokenizer.from_file(str(folder / "tokenizer.json"))
        else:
            self.model = Tokenizer(models.BPE.from_file(str(folder / "vocab.json"), str(folder / "merges.txt")))
            self.model.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
            self.model.decoder = decoders.ByteLevel()
        self.model.no_truncation()
        self.model.no_padding()
        self.size = max(self.model.get_vocab().values(), default=-1) + 1

    def encode(self, lines: list[str]) -> list[list[int]]:
        return [encoding.ids for encoding in self.model.encode_batch_fast(lines, add_special_tokens=False)]

    def token(self, id: int) -> str | None:
        return self.model.id_to_token(id)

    def text(self, id: int) -> str:
        return self.model.decode([id], skip_special_tokens=False)


class SentencePieceTokenizer:
    """A SentencePiece model whose tokens may have other ids, as in Marian and the pipeline; tokens without one are unknown."""

    def __init__(self, path: Path, ids: dict[str, int] | None = None) -> None:
        from sentencepiece import SentencePieceProcessor

        self.model = SentencePieceProcessor(model_file=str(path))
        self.ids = ids or {self.model.id_to_piece(id): id for id in range(self.model.get_piece_size())}
        self.tokens = {id: token for token, id in self.ids.items()}
        self.size, self.unknown = max(self.tokens) + 1, self.ids.get("<unk>", 0)

    def encode(self, lines: list[str]) -> list[list[int]]:
        return [[self.ids.get(token, self.unknown) for token in row] for row in self.model.encode(lines, out_type=str)]

    def token(self, id: int) -> str | None:
        return self.tokens.get(id)

    def text(self, id: int) -> str:
        return self.model.decode_pieces([self.tokens[id]])


def load_tokenizer(folder: Path) -> Tokenizer | None:
    """Return the tokenizer of a folder; None if it has none of the known files."""
    files = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    try:
        if "tokenizer.json" in files or {"vocab.json", "merges.txt"} <= files:
            return FastTokenizer(folder)
        if "source.spm" in files:  # Marian's
            return SentencePieceTokenizer(folder / "source.spm", read_json(folder / "vocab.json"))
        if "tokenizer.model" in files:
            return SentencePieceTokenizer(folder / "tokenizer.model")
    except ImportError as error:
        raise UserError(f"{folder}: its tokenizer needs {error.name}: pip install {error.name}") from None
    except Exception as error:  # the library's own, of files that it cannot read
        raise UserError(f"{folder}: its tokenizer cannot be read: {error}") from None
    return None


def special_ids(
    config: dict[str, Any], settings: dict[str, Any], tokenizer: Tokenizer | None
) -> dict[str, int | None]:
    """Ids of the special tokens; an id that several have belongs to the first of eos, bos, unk and pad.

    config, settings: config.json and tokenizer_config.json.
    """
    ids = {tokenizer.token(id): id for id in range(tokenizer.size)} if tokenizer else {}
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


def can_reach(tokenizer: Tokenizer, ids: Sequence[int], occurring: Sequence[bool]) -> list[bool | None]:
    """Whether some text has each token: the counted text, or the token's own text alone or after other text.

    None of a token whose text is no complete UTF-8, which no text of its own can show.
    """
    texts = [tokenizer.text(id) for id in ids]
    encoded = [tokenizer.encode([before + text for text in texts]) for before in CONTEXTS]
    reached = [any(id in rows[place] for rows in encoded) for place, id in enumerate(ids)]
    return [
        True if is_reached or occurs else None if REPLACEMENT in text else False
        for is_reached, occurs, text in zip(reached, occurring, texts, strict=True)
    ]


class Texts(NamedTuple):
    """The text whose tokens are counted, and the text that a causal model reads."""

    counted: Path
    read: Path


def find_texts(text: Path, test: Path | None) -> Texts:
    """One file for both, or a prepared corpus of the pipeline: its training text is counted, its test text read."""
    if text.is_dir():
        text, test = text / "train.txt", test or text / "test.txt"
    for path in (text, test or text):
        if not path.is_file():
            raise UserError(f"{path}: no such text")
    return Texts(text, test or text)


def encode_text(tokenizer: Tokenizer, path: Path, line_end: int | None) -> Iterator[np.ndarray]:
    """Ids of a text, a block of lines at a time; line_end stands after each line (None: its line feed is encoded)."""
    for lines in read_blocks(path):
        if line_end is None:
            rows = tokenizer.encode([f"{line}\n" for line in lines])
        else:
            rows = [[*row, line_end] for row in tokenizer.encode(lines)]
        yield np.concatenate([np.array(row, np.int64) for row in rows])


def count_tokens(tokenizer: Tokenizer, path: Path, line_end: int | None) -> np.ndarray:
    """Count each id of the tokenizer in a text."""
    counts = np.zeros(tokenizer.size, np.int64)
    for ids in encode_text(tokenizer, path, line_end):
        counts += np.bincount(ids, minlength=tokenizer.size)
    return counts


def read_ids(tokenizer: Tokenizer, path: Path, line_end: int | None, limit: int | None) -> np.ndarray:
    """The first ids of a text, at most `limit`."""
    parts, length = [], 0
    for part in encode_text(tokenizer, path, line_end):
        parts.append(part)
        length += len(part)
        if limit is not None and length >= limit:
            break
    if not length:
        raise UserError(f"{path}: is empty")
    return np.concatenate(parts)[:limit]
