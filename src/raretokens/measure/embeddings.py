"""The embedding matrices of a model folder: those that transformers would load, or else those with known names.

Every assumption, and every matrix that is not measured, is noted.
"""

from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from raretokens.errors import UserError
from raretokens.measure.stored_matrix import StoredMatrix
from raretokens.measure.transformers_models import Roles, find_roles

INPUT, OUTPUT, TIED = "input", "output", "input and output (tied)"
MATRIX = "matrix"  # role of the only matrix in a file
INPUT_NAMES = (
    "embed_tokens.weight", "wte.weight", "embed_in.weight", "word_embeddings.weight", "tok_embeddings.weight",
    "shared.weight", "embeddings.weight", "embedding.weight", "embedding", "embeddings", "table",
)  # fmt: skip
OUTPUT_NAMES = (
    "lm_head.weight", "embed_out.weight", "output_projection.weight", "output.weight", "predictions.decoder.weight",
    "lm_head.decoder.weight", "generator.weight",
)  # fmt: skip
BIAS_NAMES = ("lm_head.bias", "embed_out.bias", "output_projection.bias", "predictions.bias")
HEADS = ("LMHead", "ForCausalLM", "ForMaskedLM", "ForConditionalGeneration", "ForPreTraining")  # in class names


def choose_embeddings(
    folder: Path, tensors: Mapping[str, StoredMatrix], config: Mapping[str, Any], notes: list[str]
) -> tuple[dict[str, StoredMatrix], bool | None]:
    """Choose the embedding matrices of a model folder.

    Returns:
        Role -> matrix (INPUT, OUTPUT, TIED, or other roles in encoders and decoders), and whether the logits have a bias (None if
        no output embedding is known).

    Raises:
        UserError: if no tensor can be an embedding matrix.
    """
    matrices: dict[str, StoredMatrix] = {}
    if config:
        try:
            matrices, has_bias = _by_roles(find_roles(folder, tensors), tensors, notes)
        except ModuleNotFoundError:
            notes.append("transformers is not installed (pip install transformers)")
        except UserError as error:
            notes.append(str(error))
    else:
        notes.append("no config.json that says what the model is")
    if not matrices:
        matrices, has_bias = _by_names(folder, tensors, config, notes)
    kept = {}
    for role, matrix in matrices.items():
        try:
            kept[role] = matrix.checked()
        except UserError as error:
            notes.append(f"{role} embedding left out: {error}")
    if not kept:
        raise UserError(f"{folder}: {'; '.join(notes)}")
    notes += unmeasured(tensors, matrices)
    return kept, has_bias


def single_embedding(tensors: Mapping[str, StoredMatrix], path: Path) -> StoredMatrix:
    """Return the matrix with the name of an input embedding, or the only matrix."""
    found = tensor_named(tensors, INPUT_NAMES) or _only_matrix(tensors)
    if found is None:
        raise UserError(
            f"{path}: which of {', '.join(sorted(tensors)[:8])} is the embedding? "
            f"None has a known name, such as {', '.join(INPUT_NAMES[:4])}"
        )
    return found.checked()


def unmeasured(tensors: Mapping[str, StoredMatrix], matrices: Mapping[str, StoredMatrix]) -> list[str]:
    """Return a note on other tensors with as many rows, or an empty list."""
    rows = {matrix.shape[0] for matrix in matrices.values()}
    known = {matrix.name for matrix in matrices.values()}
    others = [
        name
        for name, tensor in tensors.items()
        if len(tensor.shape) == 2 and tensor.shape[0] in rows and tensor.shape[0] > tensor.shape[1] and name not in known
    ]
    return [f"not measured, though they have as many rows: {', '.join(sorted(others)[:8])}"] if others else []


# The matrices as transformers would load them.


def _by_roles(
    roles: Roles, tensors: Mapping[str, StoredMatrix], notes: list[str]
) -> tuple[dict[str, StoredMatrix], bool | None]:
    found: dict[str, list[str]] = {}  # tensor in the files -> roles
    if roles.is_assumed:
        notes.append(f"config.json names no architecture that transformers has: {roles.architecture} is assumed")
    for role, parameter in roles.parameters.items():
        name = _stored_name(roles, parameter, tensors)
        if name is None:
            notes.append(f"{role} embedding left out: the files have no {parameter} for {roles.architecture}")
            continue
        found.setdefault(name, []).append(role)
        if tensors[name].shape != roles.shapes[parameter]:
            notes.append(
                f"config.json makes the {role} embedding {_times(roles.shapes[parameter])}, but the file has "
                f"{_times(tensors[name].shape)}: the file's is measured"
            )
    if (output := roles.parameters.get("output")) in roles.tied and [OUTPUT] in found.values():
        notes.append(f"config.json ties the embeddings, but the file holds a {output} that differs: transformers loads both")
    if "output" not in roles.parameters:
        notes.append(f"{roles.architecture} has no output embedding")
    return {role: tensors[name] for role, name in combine_roles(found).items()}, roles.has_output_bias


def _stored_name(roles: Roles, parameter: str, tensors: Mapping[str, StoredMatrix]) -> str | None:
    """Return the name of the tensor that a parameter is loaded from, or None.

    Tied parameters share one tensor, unless the files contain two tensors that differ.
    """
    source = roles.tied.get(parameter, parameter)
    family = [source, *(target for target, of in roles.tied.items() if of == source)]
    own = roles.files.get(parameter)
    first = next((roles.files[name] for name in family if name in roles.files), None)
    if own is None or first is None or own == first:
        return own or first
    return first if are_equal(tensors[own], tensors[first]) else own


def combine_roles(tensors: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Return role -> tensor. Several roles of a tensor become one, such as `input and output (tied)`."""
    combined = {}
    for name, roles in tensors.items():
        if {"encoder input", "decoder input"} <= {*roles}:
            roles = [INPUT, *roles[2:]]
        combined[roles[0] if len(roles) == 1 else f"{', '.join(roles[:-1])} and {roles[-1]} (tied)"] = name
    return combined


def _times(shape: Sequence[int]) -> str:
    return " x ".join(map(str, shape))


def are_equal(one: StoredMatrix, other: StoredMatrix) -> bool:
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    pairs = zip(one.blocks(), other.blocks(), strict=True)
    return all(np.array_equal(rows, others, equal_nan=True) for (_, rows), (_, others) in pairs)


# The matrices by their names, if transformers cannot be used.


def _by_names(
    folder: Path, tensors: Mapping[str, StoredMatrix], config: Mapping[str, Any], notes: list[str]
) -> tuple[dict[str, StoredMatrix], bool | None]:
    rows = setting(config, "vocab_size")
    rows = rows if isinstance(rows, int) else 0
    output = tensor_named(tensors, OUTPUT_NAMES, rows)
    given = tensor_named(tensors, INPUT_NAMES, rows) or output or _only_matrix(tensors)
    if given is None:
        raise UserError(
            f"{folder}: no embedding with a name such as {', '.join(INPUT_NAMES[:4])} among {len(tensors)} tensors"
            + "".join(f"; {note}" for note in notes)
        )
    has_bias = any(name.endswith(BIAS_NAMES) for name in tensors)
    if output is not None and output != given:
        is_tied = setting(config, "tie_word_embeddings") is True and are_equal(output, given)
        matrices = {TIED: given} if is_tied else {INPUT: given, OUTPUT: output}
    elif output is not None or _has_head(config):
        matrices = {TIED: given}
    else:
        matrices, has_bias = {INPUT: given}, None
    assumed = ", ".join(f"{role} is {matrix.name}" for role, matrix in matrices.items())
    notes.append(f"embeddings are assumed from the names of the tensors: {assumed}")
    return matrices, has_bias


def _has_head(config: Mapping[str, Any]) -> bool:
    """Whether a model without an output embedding in its files ties it to the input embedding."""
    classes = config.get("architectures")
    names = " ".join(map(str, classes)) if isinstance(classes, list) else ""
    return any(head in names for head in HEADS) and setting(config, "tie_word_embeddings", True) is not False


def tensor_named(
    tensors: Mapping[str, StoredMatrix], endings: tuple[str, ...], rows: int = 0
) -> StoredMatrix | None:
    """Return the matrix with the first ending that any name has. Of several such matrices, the shortest name counts.

    A matrix with at least `rows` rows is preferred. Padding may add rows.
    """
    for least, ending in product((rows, 0), endings):
        fitting = [
            tensor
            for name, tensor in tensors.items()
            if f".{name}".endswith(f".{ending}")
            and len(tensor.shape) == 2
            and tensor.shape[0] >= least
            and "position" not in name
        ]
        if fitting:
            return min(fitting, key=lambda tensor: len(tensor.name))
    return None


def _only_matrix(tensors: Mapping[str, StoredMatrix]) -> StoredMatrix | None:
    matrices = [tensor for tensor in tensors.values() if len(tensor.shape) == 2]
    return matrices[0] if len(matrices) == 1 else None


def setting(config: Mapping[str, Any], key: str, default: Any = None) -> Any:
    """Return a setting of the model, or of its text part."""
    text = config.get("text_config")
    return config.get(key, text.get(key, default) if isinstance(text, dict) else default)
