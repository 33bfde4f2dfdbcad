"""A stand-in for pydantic_core beside that for pydantic."""


class PydanticCustomError(ValueError):
    """Never raised here."""
