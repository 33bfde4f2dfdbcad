"""Checked parts of files that people write, as frozen objects; yaml_files.py reads them and tells what is wrong."""

from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

UNKNOWN = "unknown_keys"
# What folders, stages and runs are called: nothing in it means something to a shell or leaves a folder.
Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]*$")]
Seed = Annotated[int, Field(ge=0, lt=1 << 32)]
Count = Annotated[int, Field(gt=0, le=10**9)]
Length = Annotated[int, Field(gt=0, le=1 << 16)]  # tokens that a model sees at once


class Section(BaseModel):
    """Part of such a file; a key that it does not have is an error that names the nearest one."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _known(cls, tree: Any) -> Any:
        if isinstance(tree, dict) and cls.model_config.get("extra") == "forbid":
            unknown = {key: value for key, value in tree.items() if key not in cls.model_fields}
            if unknown:
                raise PydanticCustomError(UNKNOWN, "unknown keys", {"unknown": unknown, "known": [*cls.model_fields]})
        return tree

    def replaced(self, **values: Any) -> Self:
        return self.model_copy(update=values)


class Strict(Section):
    """Section whose numbers must be numbers: "3" is none, nor is infinity."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False)
