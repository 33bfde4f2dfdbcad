"""Repair a model folder: select rows, write a copy with new rows, prove that nothing else differs, and record it."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from raretokens.errors import UserError
from raretokens.files import write_text
from raretokens.measure.embeddings import are_equal
from raretokens.measure.formats import PICKLED, read_json
from raretokens.measure.model import Model, load_model, read_tensors
from raretokens.measure.notes import Notes, Report
from raretokens.measure.repair.model_copy import Equality, compare_folders, copy_folder, new_folder, write_rows
from raretokens.measure.repair.new_rows import RowTraining, average_pieces, draw_rows, encode_rows, train_rows
from raretokens.measure.repair.selection import Selection, select_rows
from raretokens.measure.stored_matrix import StoredMatrix

RECORD = "repair.json"
RUN = "training.json"  # in the folder of a run of the pipeline, which lacks configuration and tokenizer
LISTED = 10  # rows that are printed


class RepairOptions(NamedTuple):
    """What to repair, and how."""

    fdr: float
    named: list[tuple[int, int]] | None = None  # ranges of ids; None: the candidates at `fdr`
    by: str = "mean"  # or pieces
    scale: float = 1.0
    seed: int = 0
    training: RowTraining | None = None


class Repaired(NamedTuple):
    """The rows of one embedding matrix that were taken."""

    selection: Selection
    tensors: list[str]  # the matrix, and tensors of the files that are equal to it
    from_pieces: np.ndarray  # ids of rows that are means of subword tokens


class Repair(NamedTuple):
    """The repair of a folder."""

    model: Model
    matrices: list[Repaired]
    equality: Equality
    trained: str  # what the training did, or ""


def repair_folder(folder: Path, new: Path, options: RepairOptions, report: Report) -> Repair:
    """Write a copy of a model folder in which the selected rows are new.

    Raises:
        UserError: if the folder cannot be repaired, no row is selected, `new` exists, or the copy differs elsewhere.
    """
    _refuse_places(folder, new)
    with new_folder(new) as part:
        model, tensors = _load(folder, report)
        report("search for under-trained rows" if options.named is None else "trained rows")
        selections = [select_rows(model, role, options.named, options.fdr) for role in model.embeddings]
        _refuse_nothing(folder, selections, options)
        _note(model, selections, report)
        report("new rows")
        matrices, values = [], []
        for selection in (one for one in selections if len(one.rows)):
            rows = draw_rows(selection, options.seed, options.scale)
            from_pieces = (
                average_pieces(selection, model.tokenizer, rows) if options.by == "pieces" else np.empty(0, np.int64)
            )
            matrices.append(Repaired(selection, _equal_tensors(selection, selections, tensors), from_pieces))
            values.append(encode_rows(rows, selection.stored))
        report("copy of the folder")
        hashes = copy_folder(folder, part)
        for one, rows in zip(matrices, values, strict=True):
            _write(part, folder, one, tensors, one.selection.rows, rows)
        trained = ""
        if options.training:
            report("training of the new rows")
            results, trained = train_rows(
                part, model, [one.selection for one in matrices], options.training, options.seed
            )
            for one, (ids, rows) in zip(matrices, results, strict=True):
                _write(part, folder, one, tensors, ids, encode_rows(rows, one.selection.stored))
        report("comparison of both folders")
        changed = {name: one.selection.rows for one in matrices for name in one.tensors}
        equality = compare_folders(folder, part, changed, tensors)
        record = _record(folder, options, matrices, hashes)
        write_text(part / RECORD, json.dumps(record, ensure_ascii=False, indent=1) + "\n")
    return Repair(model, matrices, equality, trained)


def _refuse_places(folder: Path, new: Path) -> None:
    if folder.parts[0] == "hf:":  # of hf://owner/name
        name = "/".join(folder.parts[1:])
        raise UserError(f"hf://{name}: should be a model folder; `hf download {name} --local-dir FOLDER` stores it in one")
    if not folder.is_dir():
        raise UserError(f"{folder}: {'a file' if folder.exists() else 'no such folder'}; should be a model folder")
    if (folder / RUN).is_file():
        raise UserError(f"{folder}: a run of the pipeline; python -m reproduction export makes a model folder of it")
    if not any(folder.glob("*.safetensors")):
        raise UserError(f"{folder}: contains no *.safetensors file; only such weights are repaired")
    if new.resolve().is_relative_to(folder.resolve()) and new.resolve() != folder.resolve():
        raise UserError(f"--out: {new} is inside {folder}; name a folder elsewhere")


def _load(folder: Path, report: Report) -> tuple[Model, dict[str, StoredMatrix]]:
    model = load_model(str(folder))
    for note in model.notes:
        report(f"note: {note}")
    if model.has_two_vocabularies:
        raise UserError(f"{folder}: encoder and decoder have vocabularies of their own; such models are not repaired")
    return model, read_tensors(folder, Notes())


def _refuse_nothing(folder: Path, selections: list[Selection], options: RepairOptions) -> None:
    if any(len(one.rows) for one in selections):
        return
    left_out = _describe_left_out(selections)
    found = f"no under-trained row at a false-discovery rate of {options.fdr:g}"
    raise UserError(f"{folder}: {found}{f' except {left_out}' if left_out else ''}; nothing is written")


def _describe_left_out(selections: Iterable[Selection]) -> str:
    total: dict[str, int] = {}
    for one in selections:
        for reason, number in one.left_out.items():
            total[reason] = total.get(reason, 0) + number
    return " and ".join(f"{number} {reason}" for reason, number in total.items())


def _note(model: Model, selections: list[Selection], report: Report) -> None:
    """Report what the user may want to know before the new folder is used."""
    sets = [{*one.rows.tolist()} for one in selections]
    if one_only := set.union(*sets) - set.intersection(*sets):
        report(
            f"note: {len(one_only)} ids were taken in one matrix only, where they were found; --rows takes an id in all"
        )
    if model.has_output_bias and any("output" in one.role and len(one.rows) for one in selections):
        report("note: the logits have a bias, whose numbers are kept for all rows")
    broken = sorted({*np.concatenate([np.setdiff1d(one.broken, one.rows) for one in selections]).tolist()})
    if broken:
        some = ", ".join(map(str, broken[:5]))
        report(f"note: rows with NaN or Inf were not searched: {len(broken)} (ids {some}); --rows takes them")
    if others := sorted(path.name for path in model.path.iterdir() if path.suffix in PICKLED):
        report(f"note: copied without the new rows: {', '.join(others[:4])}")


def _equal_tensors(selection: Selection, selections: list[Selection], tensors: Mapping[str, StoredMatrix]) -> list[str]:
    """Return the names of the matrix and of its copies: a file may contain a tied matrix more than once."""
    own, known = selection.stored, {one.stored.name for one in selections}
    return [own.name, *(name for name, other in tensors.items() if name not in known and are_equal(own, other))]


def _write(
    part: Path, folder: Path, one: Repaired, tensors: Mapping[str, StoredMatrix], ids: np.ndarray, rows: np.ndarray
) -> None:
    for name in one.tensors:
        write_rows(part / tensors[name].path.relative_to(folder), tensors[name], ids, rows)


def _record(folder: Path, options: RepairOptions, matrices: list[Repaired], hashes: dict[str, str]) -> dict[str, Any]:
    """Return the contents of repair.json."""
    record: dict[str, Any] = {
        "by": options.by,
        "scale": options.scale,
        "seed": options.seed,
        "fdr": options.fdr if options.named is None else None,
        "matrices": [
            {
                "role": one.selection.role,
                "tensors": one.tensors,
                "rows": one.selection.rows.tolist(),
                "from_pieces": one.from_pieces.tolist(),
                "trained_rows": int(one.selection.trained.sum()),
                "not_taken": one.selection.left_out,
            }
            for one in matrices
        ],
        "training": options.training.record() if options.training else None,
        "sha256": hashes,
    }
    earlier = read_json(folder / RECORD)
    return record | ({"earlier": earlier} if earlier else {})


def describe(repair: Repair, options: RepairOptions) -> list[str]:
    """Return the lines that the command prints."""
    lines = []
    for one in repair.matrices:
        selection = one.selection
        size = " x ".join(map(str, selection.stored.shape))
        lines.append(f"{selection.role} ({selection.stored.name}, {size}, {selection.stored.form})")
        how = "named by --rows" if selection.q is None else f"found at a false-discovery rate of {options.fdr:g}"
        lines.append(f"  {len(selection.rows)} rows taken, {how}")
        order = np.arange(len(selection.rows)) if selection.q is None else np.argsort(selection.q, kind="stable")
        for place in order[:LISTED]:
            row = int(selection.rows[place])
            token = repair.model.tokens.get(row)
            shown = (
                ("no token" if repair.model.tokens else "") if token is None else json.dumps(token, ensure_ascii=False)
            )
            found = "" if selection.q is None else f"q {selection.q[place]:.2g} by {selection.indicator[place]}"
            lines.append("    " + "  ".join(part for part in (f"{row:>7}", shown, found) if part))
        if len(order) > LISTED:
            lines.append(f"    and {len(order) - LISTED} more, which {RECORD} lists")
        if left_out := _describe_left_out([selection]):
            lines.append(f"  not taken, since --rows does not name them: {left_out}")
        lines.append(f"  new rows: {_describe_method(one, options)}")
    if repair.trained:
        lines.append(repair.trained)
    equality = repair.equality
    rows = ", ".join(f"{number} other rows of {name}" for name, number in equality.rows.items())
    equal = f"{equality.tensors} other tensors, {rows}, and {equality.files} other files"
    return [*lines, f"both folders were read again; equal to the bit: {equal}"]


def _describe_method(one: Repaired, options: RepairOptions) -> str:
    trained, pieces = int(one.selection.trained.sum()), len(one.from_pieces)
    drawn = f"draws from a normal distribution with the mean and the covariance of {trained} trained rows (seed {options.seed})"
    if options.scale not in (0, 1):
        drawn += f", with standard deviations times {options.scale:g}"
    drawn = drawn if options.scale else f"the mean of {trained} trained rows"
    if options.by != "pieces":
        return drawn
    others = len(one.selection.rows) - pieces
    return f"{pieces} are the mean of the token's subword tokens" + (
        f"; {others} could not be split: {drawn}" if others else ""
    )
