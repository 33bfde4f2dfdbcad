"""A model to measure, from a model folder, a file or the Hub: embeddings, tokenizer and text layout."""

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from raretokens.errors import UserError
from raretokens.measure.embeddings import MATRIX, choose_embeddings, setting, single_embedding, unmeasured
from raretokens.measure.formats import (
    PICKLED,
    SUFFIXES,
    VECTORS,
    is_engine_file,
    is_npy,
    read_file,
    read_json,
    refuse,
    unpack_folder,
)
from raretokens.measure.hub import DownloadError, HubFolder, is_hub_name
from raretokens.measure.notes import Notes
from raretokens.measure.stored_matrix import StoredMatrix
from raretokens.measure.tokenizers import ModelTokenizer, find_tokens, load_tokenizer, name_rows, special_ids

SHARD = re.compile(r"model-\d{5}-of-\d{5}")
# A model of the Hub as users write it, such as gpt2.
NAME = re.compile(r"(?:https://huggingface\.co/|hf:/?/?)?(?P<model>[\w.-]+(?:/[\w.-]+)?(?:@[\w.-]+)?)/?")
ON_HUB = "a model of the Hugging Face Hub is hf://owner/name, such as hf://{name}"


@dataclass
class Model:
    """A model to measure."""

    name: str
    path: Path
    embeddings: dict[str, StoredMatrix]  # keys: roles (see embeddings.py)
    special_ids: list[int | None] = field(default_factory=lambda: [None] * 4)  # ids of <s>, <pad>, </s>, <unk>
    tokenizer: ModelTokenizer | None = None
    row_names: list[str] | None = None  # tokens of the rows, if there is no tokenizer
    groups: dict[str, Any] | None = None  # frequency groups that the model's own files declare
    reading: dict[str, int] = field(default_factory=dict)  # window, context, block, ... of its own evaluation
    line_end: int | None = None  # id that ends each line of a text; None: the tokenizer encodes line feeds
    begin: int | None = None  # id that precedes a text
    max_positions: int | None = None
    has_output_bias: bool | None = None  # None: the model has no known output embedding
    notes: list[str] = field(default_factory=list)  # assumptions, and matrices that are not measured
    has_two_vocabularies: bool = False  # of encoder and decoder; the tokenizer is then the encoder's
    is_on_hub: bool = False  # only the embeddings were downloaded
    folder: Any = None  # temporary folders of the embedding

    @property
    def tokens(self) -> Mapping[int, str]:
        """The token of each row that has one. Empty if none are known."""
        if self.row_names is not None:
            return dict(enumerate(self.row_names))
        return self.tokenizer.tokens if self.tokenizer else {}

    def is_foreign(self, role: str) -> bool:
        """Whether an embedding belongs to a decoder whose vocabulary differs from the tokenizer's."""
        return self.has_two_vocabularies and role.startswith(("decoder", "output"))


def load_model(name: str, vocabulary: Path | None = None) -> Model:
    """Load a model folder (also zipped) or a file.

    Args:
        name: its path, or hf://owner/name of the Hugging Face Hub, also with @revision.
        vocabulary: file with the token of each row, for models whose own files do not name their rows.

    Raises:
        UserError: if no such model can be measured, with the reason.
    """
    if is_hub_name(name):
        return _load_hub(name, vocabulary)
    path = Path(name)
    if path.is_dir():
        return _load_folder(path, vocabulary)
    if not path.is_file():
        raise UserError(f"{name}: no such file or model folder{_hub_advice(name)}")
    if unpacked := unpack_folder(path):
        return _load_unpacked(path, *unpacked, vocabulary)
    return _load_file(path, path.stem, vocabulary)


def _hub_advice(name: str) -> str:
    """Return how a model of the Hugging Face Hub is named, for a name that looks like one of its models; else an empty text."""
    found = NAME.fullmatch(name)
    if not found or Path(name).suffix in SUFFIXES:
        return ""
    return f"; {ON_HUB.format(name=found['model'] if '/' in found['model'] else 'openai-community/gpt2')}"


def distinct_names(models: Sequence[str]) -> list[str | None]:
    """Return names for models whose files have the same name, such as a/model.safetensors and b/model.safetensors.

    None stands for a model whose own name is no other's.

    Raises:
        UserError: if a model is given twice.
    """
    paths = [Path(model).absolute() for model in models]
    if twice := next((model for model, path in zip(models, paths, strict=True) if paths.count(path) > 1), None):
        raise UserError(f"{twice}: is given twice")
    own = [
        model if is_hub_name(model) else path.name if path.is_dir() else path.stem
        for model, path in zip(models, paths, strict=True)
    ]
    longer = [f"{path.parent.name}/{name}" for path, name in zip(paths, own, strict=True)]
    return [
        None if own.count(name) == 1 else long if longer.count(long) == 1 else model
        for model, name, long in zip(models, own, longer, strict=True)
    ]


def _load_file(path: Path, name: str, vocabulary: Path | None) -> Model:
    contents = read_file(path)
    tensors = contents.tensors
    if contents.roles:
        matrices = {role: tensors[tensor].checked() for role, tensor in contents.roles.items()}
    else:
        matrices = {MATRIX: single_embedding(tensors, path)}
    notes = Notes([*contents.notes, *unmeasured(tensors, matrices)])
    rows = next(iter(matrices.values())).shape[0]
    if contents.roles:
        settings = {**contents.settings, **read_settings(path.parent / "config.json", notes)}
        tokens = find_tokens(path.parent, rows, contents.words, settings, vocabulary, notes)
    else:
        tokens = {"row_names": name_rows(contents.words, None, vocabulary, rows, notes)}
    return Model(
        name, path, matrices, notes=notes, folder=contents.folder, has_output_bias=contents.has_output_bias, **tokens
    )


# Model folders.


def _load_unpacked(path: Path, folder: Path, temporary: TemporaryDirectory, vocabulary: Path | None) -> Model:
    """Load a model folder of the zip file `path`. Its errors and notes name files by their places in the zip file."""
    try:
        model = _load_folder(folder, vocabulary)
    except UserError as error:
        raise UserError(str(error).replace(temporary.name, str(path))) from None
    model.name, model.folder = path.stem, (temporary, model.folder)
    model.notes = [note.replace(temporary.name, str(path)) for note in model.notes]
    return model


def _load_folder(folder: Path, vocabulary: Path | None) -> Model:
    engines = [] if any(folder.glob("*.safetensors")) else [path for path in sorted(folder.iterdir()) if is_engine_file(path)]
    if len(engines) > 1:
        raise UserError(f"{folder}: which of {', '.join(path.name for path in engines[:8])} is the model? Name the file")
    return _load_file(engines[0], folder.resolve().name, vocabulary) if engines else _load_transformers(folder, vocabulary)


# Models of the Hugging Face Hub.


def _load_hub(name: str, vocabulary: Path | None) -> Model:
    """Load the embeddings and the tokenizer of a model of the Hub. Print how many bytes were read of how many."""
    hub = HubFolder(name)
    try:
        model = _load_transformers(hub.path, vocabulary, hub)
    except (UserError, DownloadError) as error:
        raise UserError(str(error).replace(str(hub.path), name)) from None
    model.name, model.is_on_hub = hub.title, True
    model.notes[:0] = hub.notes
    print(hub.traffic, file=sys.stderr, flush=True)
    return model


# Model folders of transformers.


def _flatten_reading(evaluation: dict[str, Any]) -> dict[str, int]:
    """Return all lengths of the pipeline's evaluation in one flat dictionary."""
    lengths = evaluation | evaluation.get("continuation", {})
    return {key: value for key, value in lengths.items() if isinstance(value, int)}


def _load_transformers(folder: Path, vocabulary: Path | None, hub: HubFolder | None = None) -> Model:
    notes = Notes()
    config = read_settings(folder / "config.json", notes)
    tensors = read_tensors(folder, notes)
    if hub:
        tensors = hub.with_downloads(tensors)
    matrices, has_output_bias = choose_embeddings(folder, tensors, config, notes)
    tokenizer = None
    if _shares_rows(tensors):
        notes.append("the tokenizer's tokens left out: several share a row (mapping), so they name no row and give no frequency")
    else:
        with notes.optional("tokenizer"):
            tokenizer = load_tokenizer(folder, config, notes)
    settings = read_settings(folder / "tokenizer_config.json", notes)
    row_names = name_rows(None, tokenizer, vocabulary, next(iter(matrices.values())).shape[0], notes)
    specials = special_ids(config, settings, tokenizer.tokens if tokenizer else dict(enumerate(row_names or [])))
    if specials["unk"] is None and tokenizer and (unknown := tokenizer.unknown_id) not in specials.values():
        specials["unk"] = unknown
    rows = min(matrix.shape[0] for matrix in matrices.values())
    for name, id in specials.items():
        if id is not None and id >= rows:
            specials[name] = None
            notes.append(f"{name}_token_id {id} is ignored: the embedding has {rows} rows, from 0")
    own = config.get("raretokens")  # settings of an exported run
    own = own if isinstance(own, dict) else {}
    end = specials["eos"] if own.get("lines_end_in_eos") else None
    begin = end if end is not None else specials["bos"] if specials["bos"] is not None else specials["eos"]
    lengths = (setting(config, key) for key in ("max_position_embeddings", "n_positions", "max_seq_len"))
    return Model(
        folder.resolve().name,
        folder,
        matrices,
        [*specials.values()],
        tokenizer,
        row_names,
        groups=own.get("groups"),
        reading=_flatten_reading(own.get("evaluation") or {}),
        line_end=end,
        begin=begin,
        max_positions=next((length for length in lengths if isinstance(length, int) and length > 0), None),
        has_output_bias=has_output_bias,
        has_two_vocabularies=_has_two_vocabularies(folder, config),
        notes=notes,
    )


def _shares_rows(tensors: Mapping[str, StoredMatrix]) -> bool:
    """Whether the row of a token differs from its id, as in model2vec's quantised vocabularies."""
    mapping = tensors.get("mapping")
    if mapping is None or len(mapping.shape) != 1 or mapping.dtype not in ("I64", "I32"):
        return False
    rows = np.fromfile(mapping.path, f"<i{int(mapping.dtype[1:]) // 8}", mapping.shape[0], offset=mapping.start)
    return not np.array_equal(rows, np.arange(len(rows)))


def _has_two_vocabularies(folder: Path, config: dict[str, Any]) -> bool:
    rows = config.get("vocab_size")
    is_other = "tgt_vocab_size" in config or config.get("decoder_vocab_size", rows) != rows
    return is_other or (folder / "target_vocab.json").is_file()


def read_settings(path: Path, notes: list[str]) -> dict[str, Any]:
    """Return the settings of a JSON file. If it contains anything but an object, return {} and add a note."""
    try:
        settings = read_json(path)
    except UserError as error:
        notes.append(str(error))
        return {}
    if not isinstance(settings, dict):
        notes.append(f"{path.name} is ignored: it holds a {type(settings).__name__}, not an object")
        return {}
    return settings


def read_tensors(folder: Path, notes: list[str]) -> dict[str, StoredMatrix]:
    """Return the tensors of the files that transformers would load: model.safetensors, or else the files of the index."""
    single, index = folder / "model.safetensors", folder / "model.safetensors.index.json"
    others = sorted(path for path in folder.glob("*.safetensors") if path != single)
    if single.is_file():
        files = [single]
    elif shards := read_settings(index, notes).get("weight_map"):
        files = _read_shards(folder, shards, notes)
    elif shards := [path for path in others if SHARD.fullmatch(path.stem)]:
        files = shards
        notes.append("no index names the tensors of each file: all files of the model are read")
    elif len(others) > 1:
        raise UserError(f"{folder}: several models; name one of the files {', '.join(path.name for path in others[:8])}")
    else:
        files = others
    if not files:
        if readable := _find_readable(folder):
            raise UserError(f"{folder}: contains no *.safetensors file; measure {' or '.join(map(str, readable[:4]))}")
        if pickled := next((path for suffix in PICKLED for path in folder.glob(f"*{suffix}")), None):
            refuse(pickled)
        raise UserError(f"{folder}: contains no *.safetensors file")
    if (folder / "adapter_config.json").is_file() and not single.is_file():
        raise UserError(f"{folder}: contains only an adapter; merge it into its model first (merge_and_unload() of peft)")
    if ignored := [path.name for path in others if path not in files]:
        notes.append(f"not read, as transformers would not: {', '.join(ignored[:8])}")
    return {name: tensor for path in files for name, tensor in read_file(path).tensors.items()}


def _find_readable(folder: Path) -> list[Path]:
    """Return the model folders below a folder, such as those of sentence-transformers, and vector files, such as spaCy's."""
    inner = sorted({path.parent for depth in ("*", "*/*") for path in folder.glob(f"{depth}/*.safetensors")})
    files = (path for depth in ("*", "*/*") for path in sorted(folder.glob(depth)) if path.is_file())
    return inner + [path for path in files if path.suffix in VECTORS or is_npy(path)]


def _read_shards(folder: Path, shards: dict[str, str], notes: list[str]) -> list[Path]:
    named = [folder / name for name in sorted(set(map(str, shards.values())))]
    files = [path for path in named if path.parent == folder and path.is_file()]
    missing = [path.name for path in named if path not in files]
    if missing:
        notes.append(f"the index names {', '.join(missing[:4])}, but no such file is in the folder")
    if not files:
        raise UserError(f"{folder}: {notes[-1]}")
    return files
