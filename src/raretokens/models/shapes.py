"""Kinds of values that an architecture's SHAPE names, and how they are checked; params.yaml is read by this, without torch."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, PositiveFloat, create_model

from raretokens.errors import UserError, nearest
from raretokens.literals import literal
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
    """Names of the architectures: files of models/ that declare a SHAPE."""
    return sorted(path.stem for path in MODELS.glob("*.py") if literal(path, "SHAPE"))


def shape_of(architecture: str, values: Mapping[str, Any], place: str) -> dict[str, Any]:
    """The values that an architecture's SHAPE names, checked; UserError names place, key, value and what is allowed."""
    if architecture not in architectures():
        raise UserError(f"{place}.architecture: {architecture!r} has no file; {nearest(architecture, architectures())}")
    return checked(_schema(architecture), dict(values), place, joint=".").model_dump()


@cache
def _schema(architecture: str) -> type[Strict]:
    declared = literal(MODELS / f"{architecture}.py", "SHAPE")
    fields = {name: (Literal[*kind] if isinstance(kind, list) else KINDS[kind], ...) for name, kind in declared.items()}
    return create_model("Shape", __base__=Strict, **fields)
