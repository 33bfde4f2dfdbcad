"""The model to measure: a model folder, a file, or a run of the pipeline; its embeddings, tokenizer and text layout."""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from raretokens.errors import UserError
from raretokens.tokenization.vocabulary import BOS, EOS, PAD, UNK
from raretokens.tools import trained_run
from raretokens.tools.measure.formats import PICKLED, SUFFIXES, StoredMatrix, read_file, read_json, refuse
from raretokens.tools.measure.tokenizers import (
    SPECIAL_NAMES,
    SentencePieceTokenizer,
    Tokenizer,
    load_tokenizer,
    special_ids,
)
from raretokens.tools.trained_run import TrainedRun

SPM = "spm.model"  # of a folder of token files
TIED = "input and output (tied)"
INPUT_NAMES = (
    "embed_tokens.weight", "wte.weight", "embed_in.weight", "word_embeddings.weight", "tok_embeddings.weight",
    "shared.weight", "embeddings.weight", "embedding.weight", "embedding", "table",
)  # fmt: skip
OUTPUT_NAMES = (
    "lm_head.weight", "embed_out.weight", "output_projection.weight", "output.weight", "predictions.decoder.weight",
    "lm_head.decoder.weight", "generator.weight",
)  # fmt: skip
BIAS_NAMES = ("lm_head.bias", "embed_out.bias", "output_projection.bias", "predictions.bias")


@dataclass
class Model:
    """A model to measure."""

    name: str
    path: Path
    embeddings: dict[str, StoredMatrix]  # TIED, or "input" and "output", or "table" of a file alone
    special_ids: list[int | None] = field(default_factory=lambda: [None] * 4)  # of <s>, <pad>, </s>, <unk>
    tokenizer: Tokenizer | None = None
    row_names: list[str] | None = None  # if there is no tokenizer
    counts: np.ndarray | None = None  # of the training text, if they are known
    groups: dict[str, Any] | None = None  # frequency groups as the model's own files declare them
    reading: dict[str, int] = field(default_factory=dict)  # window, context, block and so on of its own evaluation
    line_end: int | None = None  # id after each line of a text; None: the tokenizer sees the line feed itself
    begin: int | None = None  # id before a text
    max_positions: int | None = None
    has_output_bias: bool = False
    run: TrainedRun | None = None
    folder: tempfile.TemporaryDirectory | None = None  # that holds the embedding

    def token(self, row: int) -> str:
        """Return the token of a row; empty if it has none."""
        if self.row_names is not None:
            return self.row_names[row] if row < len(self.row_names) else ""
        return (self.tokenizer.token(row) if self.tokenizer and row < self.tokenizer.size else None) or ""


def load_model(name: str) -> Model:
    """Find the model of a path or run name. Raises UserError with the reason if nothing of that name can be measured."""
    path = Path(name)
    if path.is_dir() and not trained_run.is_run(path):
        return _load_folder(path)
    if path.is_file():
        contents = read_file(path)
        matrix = _single_embedding(contents.tensors, path)
        return Model(path.stem, path, {"table": matrix}, row_names=contents.words, folder=contents.folder)
    if path.suffix in SUFFIXES or path.is_absolute():
        raise UserError(f"{name}: no such file or folder")
    return _load_run(trained_run.find(name))


def _single_embedding(tensors: Mapping[str, StoredMatrix], path: Path) -> StoredMatrix:
    """The matrix that has the name of an input embedding, or the only one."""
    matrices = [tensor for tensor in tensors.values() if len(tensor.shape) == 2]
    found = _tensor_named(tensors, INPUT_NAMES, None) or (matrices[0] if len(matrices) == 1 else None)
    if found is None:
        raise UserError(
            f"{path}: which of {', '.join(sorted(tensors)[:8])} is the embedding? "
            f"None has a known name, such as {', '.join(INPUT_NAMES[:4])}"
        )
    return found.checked()


# Runs of the pipeline.


def _load_run(run: TrainedRun) -> Model:
    vocabulary = run.vocabulary()
    spm = run.tokens / SPM  # not there if the tokens are not SentencePiece's
    ids = {token: row for row, token in enumerate(vocabulary.tokens)}
    return Model(
        f"{run.task}/{run.name}",
        run.folder,
        {TIED: _single_embedding(read_file(run.model).tensors, run.model)},
        [BOS, PAD, EOS, UNK],
        SentencePieceTokenizer(spm, ids) if spm.is_file() else None,
        row_names=list(vocabulary.tokens[: vocabulary.types]),
        counts=vocabulary.counts,
        groups=run.groups,
        reading=_flatten_reading(run.job("predict-lm")["evaluation"]) if run.task == "lm" else {},
        line_end=EOS,
        begin=EOS,
        run=run,
    )


def _flatten_reading(evaluation: dict[str, Any]) -> dict[str, int]:
    """The lengths of the pipeline's evaluation, in one level."""
    return {key: value for key, value in {**evaluation, **evaluation.get("continuation", {})}.items() if isinstance(value, int)}


# Model folders of transformers.


def _load_folder(folder: Path) -> Model:
    config, tensors = read_json(folder / "config.json"), _read_tensors(folder)
    tokenizer = load_tokenizer(folder)
    specials = special_ids(folder, config, tokenizer)
    own = config.get("raretokens", {})  # of an exported run
    end = specials["eos"] if own.get("lines_end_in_eos") else None
    begin = end if end is not None else specials["bos"] if specials["bos"] is not None else specials["eos"]
    return Model(
        folder.resolve().name,
        folder,
        _find_embeddings(tensors, config, folder),
        [specials[name] for name in SPECIAL_NAMES],
        tokenizer,
        groups=own.get("groups"),
        reading=_flatten_reading(own.get("evaluation") or {}),
        line_end=end,
        begin=begin,
        max_positions=next((config[key] for key in ("max_position_embeddings", "n_positions") if key in config), None),
        has_output_bias=any(name.endswith(BIAS_NAMES) for name in tensors),
    )


def _find_embeddings(tensors: dict[str, StoredMatrix], config: dict[str, Any], folder: Path) -> dict[str, StoredMatrix]:
    """Input and output embedding by the names of the tensors; the two are one if tied."""
    rows = _setting(config, "vocab_size")
    output = _tensor_named(tensors, OUTPUT_NAMES, rows)
    given = _tensor_named(tensors, INPUT_NAMES, rows) or output
    if given is None:
        raise UserError(
            f"{folder}: no embedding with a name such as {', '.join(INPUT_NAMES[:4])} among {len(tensors)} tensors"
        )
    if output is not None and output != given and _setting(config, "tie_word_embeddings") is not True:
        return {"input": given.checked(), "output": output.checked()}
    if output is None and not _setting(config, "tie_word_embeddings", True):
        return {"input": given.checked()}  # an encoder, or an output embedding of unknown name
    return {TIED: given.checked()}


def _read_tensors(folder: Path) -> dict[str, StoredMatrix]:
    files = sorted(folder.glob("*.safetensors"))
    shards = read_json(folder / "model.safetensors.index.json").get("weight_map", {})
    if shards:
        files = [folder / name for name in sorted(set(shards.values()))]
        if missing := [path for path in files if path.parent != folder or not path.is_file()]:
            raise UserError(f"{missing[0]}: the index names it, but it is not in the folder")
    if files:
        return {name: tensor for path in files for name, tensor in read_file(path).tensors.items()}
    if pickled := next((path for suffix in PICKLED for path in folder.glob(f"*{suffix}")), None):
        refuse(pickled)
    raise UserError(f"{folder}: no *.safetensors in it")


def _tensor_named(
    tensors: Mapping[str, StoredMatrix], endings: tuple[str, ...], rows: int | None
) -> StoredMatrix | None:
    """The matrix with the first ending that one has, of several the shortest name. Padding may add rows."""
    for ending in endings:
        fitting = [
            tensor
            for name, tensor in tensors.items()
            if (name == ending or name.endswith(f".{ending}"))
            and len(tensor.shape) == 2
            and "position" not in name
            and (rows is None or tensor.shape[0] >= rows)
        ]
        if fitting:
            return min(fitting, key=lambda tensor: len(tensor.name))
    return None


def _setting(config: dict[str, Any], key: str, default: Any = None) -> Any:
    """A setting of the model, or of its text part."""
    return config.get(key, config.get("text_config", {}).get(key, default))
