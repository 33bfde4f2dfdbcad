"""Validation of model configs against an architecture's SHAPE, without torch, for reading params.yaml."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, PositiveFloat, create_model

from raretokens.errors import UserError, nearest
from raretokens.literals import literal, literals
from raretokens.schema import Strict
from raretokens.yaml_files import checked

KINDS: dict[str, Any] = {
    "count": Annotated[int, Field(gt=0, le=1 << 16)],
    "layers": Annotated[int, Field(gt=0, le=1000)],
    "positive": PositiveFloat,
    "probability": Annotated[float, Field(ge=0.0, lt=1.0)],
    "flag": bool,
}
MODELS = Path(__file__).parent


def architectures() -> list[str]:
    """Return the names of the architectures: the files of models/ that declare a SHAPE."""
    return list(literals(MODELS, "SHAPE"))


def shape_of(architecture: str, values: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return the validated shape of an architecture; `where` is the location in the file, for errors.

    Raises:
        UserError: if a key or value is not allowed, with location, key, value and the allowed values.
    """
    if architecture not in architectures():
        raise UserError(f"{where}.architecture: {architecture!r} has no file; {nearest(architecture, architectures())}")
    return checked(_schema(architecture), dict(values), where, joint=".").model_dump()


@cache
def _schema(architecture: str) -> type[Strict]:
    declared = literal(MODELS / f"{architecture}.py", "SHAPE")
    fields = {name: (Literal[*kind] if isinstance(kind, list) else KINDS[kind], ...) for name, kind in declared.items()}
    return create_model("Shape", __base__=Strict, **fields)
