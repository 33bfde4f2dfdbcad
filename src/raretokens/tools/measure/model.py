"""What MODEL names: a model folder, a file with a table, or a run of the pipeline; its tables, tokenizer and layout of text."""

import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from raretokens.errors import UserError
from raretokens.tokenization.vocabulary import BOS, EOS, PAD, UNK, VOCABULARY, Vocabulary
from raretokens.tools import trained_run as finished
from raretokens.tools.measure import folder, vectors
from raretokens.tools.measure import formats as files
from raretokens.tools.measure import tokenizers as pieces
from raretokens.tools.measure.formats import Stored
from raretokens.tools.measure.tokenizers import Pieces, SentencePieces

SPM = "spm.model"  # of a folder of token files


@dataclass
class Model:
    """A model to be measured."""

    name: str
    path: Path
    tables: dict[str, Stored]  # what each is -> where it lies
    marks: list[int | None]  # ids of <s>, <pad>, </s>, <unk>
    pieces: Pieces | None = None
    names: list[str] | None = None  # of the rows, where there is no tokenizer
    counts: np.ndarray | None = None  # of the training text, where they are known
    groups: dict[str, Any] | None = None  # as the model's own files declare them
    probe: dict[str, int] = field(default_factory=dict)  # window, context and block of its own
    line_end: int | None = None  # id that stands after each line of a text; None: the line feed itself is cut
    begin: int | None = None  # id before a text
    positions: int | None = None  # that the model has
    bias: bool = False  # of the softmax
    run: finished.Finished | None = None
    kept: tempfile.TemporaryDirectory | None = None  # that the table lies in

    def named(self, row: int) -> str:
        """The piece of a row; empty where it has none."""
        if self.names is not None:
            return self.names[row] if row < len(self.names) else ""
        return (self.pieces.piece(row) if self.pieces and row < self.pieces.size else None) or ""


def find(name: str) -> Model:
    """Raises UserError where nothing of that name can be measured, with the reason."""
    path = Path(name)
    if path.is_dir() and not finished.is_run(path):
        return _folder(path)
    if path.is_file():
        return _file(path)
    if path.suffix in (".safetensors", ".npy", ".txt", ".vec") or path.is_absolute():
        raise UserError(f"{name}: no such file or folder")
    return _run(finished.named(name))


def _folder(path: Path) -> Model:
    found = folder.find(path)
    cut = pieces.find(path)
    marks = pieces.marks(path, found.config, cut)
    own = found.config.get("raretokens", {})
    end = marks["eos"] if own.get("lines_end_in_eos") else None
    positions = next(
        (found.config[key] for key in ("max_position_embeddings", "n_positions") if key in found.config), None
    )
    return Model(
        path.resolve().name,
        path,
        found.tables,
        [marks[mark] for mark in pieces.MARKS],
        cut,
        groups=own.get("groups"),
        probe=_reach(own.get("probe") or {}),
        line_end=end,
        begin=end if end is not None else marks["bos"] if marks["bos"] is not None else marks["eos"],
        positions=positions,
        bias=found.bias,
    )


def _file(path: Path) -> Model:
    nothing: list[int | None] = [None] * 4
    if path.suffix == ".safetensors":
        return Model(path.stem, path, {"table": folder.single(path)}, nothing)
    if path.suffix == ".npy":
        return Model(path.stem, path, {"table": files.checked(files.npy(path))}, nothing)
    if path.suffix in (".bin", ".pt", ".pth", ".pkl", ".ckpt", ".h5", ".model", ".kv"):
        folder.refuse(path)
    table, words, kept = vectors.read(path)
    return Model(path.stem, path, {"table": table}, nothing, names=words, kept=kept)


def _run(run: finished.Finished) -> Model:
    known = Vocabulary.read(run.tokens / VOCABULARY)
    known = known.reversed() if run.run.get("reverse") else known
    probe = run.told("probe")["probe"] if run.task == "lm" else {}
    return Model(
        f"{run.task}/{run.name}",
        run.trained,
        {"input and output (tied)": folder.single(run.model)},
        [BOS, PAD, EOS, UNK],
        _pieces(run, known),
        names=list(known.pieces[: known.types]),
        counts=known.counts,
        groups=run.groups,
        probe=_reach(probe),
        line_end=EOS,
        begin=EOS,
        run=run,
    )


def _reach(probe: dict[str, Any]) -> dict[str, int]:
    """How the pipeline read the test text, in one level."""
    return {key: value for key, value in {**probe, **probe.get("continuation", {})}.items() if isinstance(value, int)}


def _pieces(run: finished.Finished, known: Vocabulary) -> Pieces | None:
    """None where pieces were not learnt by SentencePiece."""
    path = run.tokens / SPM
    return SentencePieces(path, {piece: row for row, piece in enumerate(known.pieces)}) if path.is_file() else None
