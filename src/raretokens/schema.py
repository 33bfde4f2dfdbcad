"""Base classes of validated, frozen sections of YAML files. yaml_files.py reads the files and reports errors."""

from collections.abc import Iterable
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from raretokens.errors import nearest

UNKNOWN = "unknown_keys"
# Former key -> present key, for the error message on a key of an earlier version. A former key is a bare name (`updates`) or a
# full path (`lm.training.steps`). A full path takes precedence.
RENAMED_KEYS: dict[str, str] = {
    "sizes": "models", "size": "model", "knob": "option_from", "after": "init_from", "curves": "projection_steps",
    "named": "neighbour_ranks", "updates": "steps", "tokens_per_update": "tokens_per_step", "least_count": "min_count",
    "slowness_penalty": "temporal_activation_penalty", "at_once": "average_from_start", "lm.probe": "evaluation",
    "drawn": "shared_negatives", "pairs": "max_pairs",
}  # fmt: skip
# Names of folders, stages and runs: no character is special in a shell or separates folders.
Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]*$")]
Seed = Annotated[int, Field(ge=0, lt=1 << 32)]
Count = Annotated[int, Field(gt=0, le=10**9)]
Length = Annotated[int, Field(gt=0, le=1 << 16)]  # tokens in a model's context


class Section(BaseModel):
    """Section of a YAML file. An unknown key is an error, which suggests the nearest known key."""

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


def unknown_key(section: str, key: str, value: Any, known: Iterable[str]) -> str:
    """Return a one-line error for an unknown key, with the present name of a renamed key, else the nearest known key."""
    new = renamed(section, key)
    hint = f"it is called {new} now" if new else nearest(key, known)
    return f"{section}{'.' * bool(section)}{key}: unknown key (value {value!r}); {hint}"


def renamed(section: str, key: str) -> str | None:
    """Return the present name of a renamed key, or None if the key was not renamed."""
    return RENAMED_KEYS.get(f"{section}.{key}", RENAMED_KEYS.get(key))


class Strict(Section):
    """Section with strict types: numbers must be finite, and a string such as "3" is not a number."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False)
