"""Tokenizers of model folders, without running code of the folder: by transformers or tokenizers, or else SentencePiece."""

import re
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from raretokens.errors import UserError
from raretokens.tools.measure.embeddings import setting
from raretokens.tools.measure.formats import read_json
from raretokens.tools.measure.notes import first_line
from raretokens.tools.measure.transformers_models import LOCAL, import_transformers

CONTEXTS = ("", " ", "a", "«", "\n", "qz")  # prefixes of a token's text, to test whether the tokenizer can produce the token
REPLACEMENT = "\ufffd"
SPECIAL_NAMES = ("bos", "pad", "eos", "unk")  # in the order of vocabulary.SPECIALS
BYTE_LEVEL = ("gpt2", "gpt_neo", "roberta", "opt", "bart", "phi")  # model types whose vocab.json and merges.txt are GPT-2's
# Files of a tokenizer. A tokenizer of bytes or characters needs only its configuration.
FILES = ("tokenizer.json", "vocab.json", "vocab.txt", "*.model", "*.spm", "tekken.json", "*.tiktoken", "bpe.codes",
         "vocab-src.json", "vocab.bpe", "dict.txt", "tokenizer_config.json")  # fmt: skip


class Tokenizer(Protocol):
    """A tokenizer that adds no special tokens around a text."""

    size: int  # greater than every id; not all smaller ids need to be in use

    def encode(self, texts: list[str]) -> list[list[int]]: ...

    def token(self, id: int) -> str | None: ...

    def text(self, id: int) -> str: ...


class FastTokenizer:
    """tokenizer.json, loaded by the library tokenizers, with the tokens that other files of the folder add."""

    def __init__(self, folder: Path) -> None:
        from tokenizers import AddedToken, Tokenizer

        self.model = Tokenizer.from_file(str(folder / "tokenizer.json"))
        known = self.model.get_vocab()
        for token, id in sorted(added_tokens(folder).items(), key=lambda pair: pair[1]):
            if token not in known and self.model.get_vocab_size() == id:  # the library numbers added tokens itself
                self.model.add_special_tokens([AddedToken(token, normalized=False)])
            if self.model.token_to_id(token) != id:
                raise UserError(f"tokenizer.json does not give {token!r} the id {id} that other files of the folder do")
        self.model.no_truncation()
        self.model.no_padding()
        self.size = max(self.model.get_vocab().values(), default=-1) + 1

    def encode(self, texts: list[str]) -> list[list[int]]:
        return [encoding.ids for encoding in self.model.encode_batch_fast(texts, add_special_tokens=False)]

    def token(self, id: int) -> str | None:
        return self.model.id_to_token(id)

    def text(self, id: int) -> str:
        token, prefix = self.model.id_to_token(id), getattr(self.model.model, "continuing_subword_prefix", None)
        if prefix and token.startswith(prefix):  # WordPiece: the library would give the prefix as text
            return token.removeprefix(prefix)
        return self.model.decode([id], skip_special_tokens=False)


class ByteLevelTokenizer(FastTokenizer):
    """GPT-2's vocab.json and merges.txt, loaded by the library tokenizers."""

    def __init__(self, folder: Path) -> None:
        from tokenizers import Tokenizer, decoders, models, pre_tokenizers

        self.model = Tokenizer(models.BPE.from_file(str(folder / "vocab.json"), str(folder / "merges.txt")))
        self.model.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        self.model.decoder = decoders.ByteLevel()
        self.size = max(self.model.get_vocab().values(), default=-1) + 1


class TransformersTokenizer:
    """The tokenizer that transformers loads from a folder."""

    def __init__(self, folder: Path) -> None:
        transformers = import_transformers()
        with warnings.catch_warnings(action="ignore"):
            self.model = transformers.AutoTokenizer.from_pretrained(folder, **LOCAL)
        vocabulary = self.model.get_vocab()
        self.tokens = {id: token for token, id in vocabulary.items()}
        if len(self.tokens) <= len({*self.model.all_special_ids}):
            raise UserError(f"{type(self.model).__name__} of transformers finds no tokens in it")
        self.size = max(self.tokens) + 1

    def encode(self, texts: list[str]) -> list[list[int]]:
        return self.model(
            texts, add_special_tokens=False, return_attention_mask=False, return_token_type_ids=False, verbose=False
        )["input_ids"]

    def token(self, id: int) -> str | None:
        return self.tokens.get(id)

    def text(self, id: int) -> str:
        return self.model.decode([id], skip_special_tokens=False, clean_up_tokenization_spaces=False)


class SentencePieceTokenizer:
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
        self.tokens = {id: token for token, id in {**self.ids, **self.added}.items()}
        self.size, self.unknown = max(self.tokens) + 1, self.ids.get("<unk>", 0)
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

    def token(self, id: int) -> str | None:
        return self.tokens.get(id)

    def text(self, id: int) -> str:
        token = self.tokens[id]
        return token if token in self.added else self.model.decode_pieces([token])


def load_tokenizer(folder: Path, config: Mapping[str, Any], notes: list[str]) -> Tokenizer | None:
    """Return the tokenizer of a folder, or None if it has no tokenizer file.

    Args:
        folder: the model folder.
        config: contents of config.json.
        notes: list that receives the assumptions.

    Raises:
        UserError: if the folder has a tokenizer that cannot be read.
    """
    if not any(path.is_file() for pattern in FILES for path in folder.glob(pattern)):
        return None
    if (folder / "tokenizer.json").is_file():
        return _read(FastTokenizer, folder)
    if config.get("raretokens") and (folder / "source.spm").is_file():  # an exported run
        return _read(SentencePieceTokenizer, folder / "source.spm", read_json(folder / "vocab.json"))
    try:
        return TransformersTokenizer(folder)
    except ModuleNotFoundError as error:
        reason = f"{error.name} is not installed"
    except Exception as error:  # a tokenizer's own code may raise any exception
        reason = f"transformers cannot read it: {first_line(error)}"
    is_there = any(path.name != "tokenizer_config.json" for pattern in FILES for path in folder.glob(pattern))
    return _assume(folder, config, reason, notes) if is_there else None


def load_engine_tokenizer(folder: Path, names: Sequence[str] | None) -> Tokenizer | None:
    """Return the tokenizer beside weights of CTranslate2 or Marian, or None if there is none.

    Args:
        folder: the folder of the weights.
        names: token of each row, if a vocabulary file says so. Tokens of a SentencePiece model then have the ids of these rows.

    Raises:
        UserError: if the tokenizer cannot be read, or several files could be the tokenizer.
    """
    if (folder / "tokenizer.json").is_file():
        return _read(FastTokenizer, folder)
    models = sorted(path for pattern in ("*.spm", "*.model") for path in folder.glob(pattern))
    if len(models) > 1:
        raise UserError(f"which of {', '.join(path.name for path in models)} is that of the rows?")
    ids = None if names is None else {name: row for row, name in enumerate(names)}
    return _read(SentencePieceTokenizer, models[0], ids) if models else None


def _assume(folder: Path, config: Mapping[str, Any], reason: str, notes: list[str]) -> Tokenizer:
    """Return a tokenizer that is chosen by the names of its files, and note this assumption."""
    if (folder / "tokenizer.model").is_file():
        found = _read(SentencePieceTokenizer, folder / "tokenizer.model", None, added_tokens(folder))
        notes.append(f"tokenizer: tokenizer.model is read by SentencePiece, since {reason}")
    elif (folder / "source.spm").is_file():
        found = _read(SentencePieceTokenizer, folder / "source.spm", read_json(folder / "vocab.json"))
        notes.append(f"tokenizer: source.spm and vocab.json are read as Marian's, since {reason}")
    elif (folder / "merges.txt").is_file() and config.get("model_type") in BYTE_LEVEL:
        found = _read(ByteLevelTokenizer, folder)
        notes.append(f"tokenizer: vocab.json and merges.txt are read as GPT-2's, since {reason}")
    else:
        raise UserError(f"the tokenizer cannot be read: {reason}")
    return found


def _read(kind: type, *arguments: Any) -> Tokenizer:
    try:
        return kind(*arguments)
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
    config: dict[str, Any], settings: dict[str, Any], tokenizer: Tokenizer | None
) -> dict[str, int | None]:
    """Return the ids of the special tokens. A shared id belongs to the first of eos, bos, unk and pad.

    Args:
        config: contents of config.json.
        settings: contents of tokenizer_config.json.
        tokenizer: the tokenizer, if there is one.
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
    """Return whether some text contains each token: the counted text, or the token's own text alone or after other text.

    None for a token that is not complete UTF-8, because its own text cannot show it.
    """
    texts = [tokenizer.text(id) for id in ids]
    encoded = [tokenizer.encode([before + text for text in texts]) for before in CONTEXTS]
    reached = [any(id in rows[index] for rows in encoded) for index, id in enumerate(ids)]
    return [
        True if is_reached or occurs else None if REPLACEMENT in text else False
        for is_reached, occurs, text in zip(reached, occurring, texts, strict=True)
    ]
