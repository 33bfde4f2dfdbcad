"""Frequency groups of a vocabulary, as params.yaml declares them."""

from typing import Annotated

from pydantic import Field, PositiveInt

from raretokens.sections import Strict

Share = Annotated[float, Field(ge=0.0, le=1.0)]


class Groups(Strict):
    """Frequent, medium and rare types: shares of all types, or the first medium and the first rare id."""

    fractions: Annotated[list[Share], Field(min_length=3, max_length=3)] | None = None
    boundaries: Annotated[list[PositiveInt], Field(min_length=2, max_length=2)] | None = None
