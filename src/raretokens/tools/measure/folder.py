"""The tables of a model folder of transformers: input and output, tied or not, found by their names in the files."""

from pathlib import Path
from typing import Any, NamedTuple

from raretokens.errors import UserError
from raretokens.tools.measure.formats import Stored, checked, safetensors, tree

INPUT = (
    "embed_tokens.weight", "wte.weight", "embed_in.weight", "word_embeddings.weight", "tok_embeddings.weight",
    "shared.weight", "embeddings.weight", "embedding.weight", "embedding", "table",
)  # fmt: skip
OUTPUT = (
    "lm_head.weight", "embed_out.weight", "output_projection.weight", "output.weight", "predictions.decoder.weight",
    "lm_head.decoder.weight", "generator.weight",
)  # fmt: skip
PICKLED = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl", "*.h5", "*.msgpack")


class Found(NamedTuple):
    """Tables of a model."""

    tables: dict[str, Stored]  # "input and output (tied)", or "input" and "output"
    config: dict[str, Any]
    bias: bool  # whether the softmax has one


def find(folder: Path) -> Found:
    """Raises UserError where there are no safetensors, or no table among them."""
    config = tree(folder / "config.json")
    tensors = _tensors(folder)
    rows = _setting(config, "vocab_size")
    given = _named(tensors, INPUT, rows) or _named(tensors, OUTPUT, rows)
    if given is None:
        raise UserError(f"{folder}: no table named like {', '.join(INPUT[:4])} among {len(tensors)} tensors")
    output = _named(tensors, OUTPUT, rows)
    tied = output is None or output == given or _setting(config, "tie_word_embeddings") is True
    tables = {"input and output (tied)": given} if tied else {"input": given, "output": output}
    if tied and output is None and not _setting(config, "tie_word_embeddings", True):
        tables = {"input": given}  # an encoder, or a head under a name that is not known
    bias = any(
        name.endswith(("lm_head.bias", "embed_out.bias", "output_projection.bias", "predictions.bias"))
        for name in tensors
    )
    return Found({name: checked(table) for name, table in tables.items() if table}, config, bias)


def _tensors(folder: Path) -> dict[str, Stored]:
    files = sorted(folder.glob("*.safetensors"))
    index = tree(folder / "model.safetensors.index.json").get("weight_map", {})
    if index:
        files = [folder / name for name in sorted(set(index.values()))]
        if missing := [path for path in files if path.parent != folder or not path.is_file()]:
            raise UserError(f"{missing[0]}: the index names it, but it is not in the folder")
    if files:
        return {name: tensor for path in files for name, tensor in safetensors(path).items()}
    if pickled := next((path for pattern in PICKLED for path in folder.glob(pattern)), None):
        refuse(pickled)
    raise UserError(f"{folder}: no *.safetensors in it")


def refuse(path: Path) -> None:
    raise UserError(
        f"{path}: not read: such a file is a program that runs when it is opened; save the model as safetensors "
        "(save_pretrained(folder, safe_serialization=True))"
    )


def single(path: Path) -> Stored:
    """The table of a .safetensors file: the one that is named like one, or the only one of two dimensions."""
    tensors = safetensors(path)
    flat = [tensor for tensor in tensors.values() if len(tensor.shape) == 2]
    found = _named(tensors, INPUT, None) or (flat[0] if len(flat) == 1 else None)
    if found is None:
        raise UserError(
            f"{path}: which of {', '.join(sorted(tensors)[:8])} is the table? None has a name that is known"
        )
    return checked(found)


def _named(tensors: dict[str, Stored], endings: tuple[str, ...], rows: int | None) -> Stored | None:
    """The first ending that a table has; of several tables, that of the shortest name. Padding may add rows."""
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
    """Of the model, or of its text part."""
    return config.get(key, config.get("text_config", {}).get(key, default))
