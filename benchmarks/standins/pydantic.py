"""A stand-in for pydantic on a machine without it, for benchmarks alone: classes hold values and check nothing.

card.py puts this folder at the end of the path, so that an installed pydantic takes precedence. Values come from
benchmarks/workloads.json, which was made with pydantic's checks.
"""

import copy
from typing import Any, ClassVar, get_origin


class Field:
    """Default of a field; constraints are ignored."""

    def __init__(self, default: Any = None, *, default_factory: Any = None, **_: Any) -> None:
        self.default, self.default_factory = default, default_factory


class BaseModel:
    """Values by name. Names that the class does not declare are in `model_extra`."""

    model_fields: ClassVar[dict[str, Any]] = {}

    def __init_subclass__(cls, **_: Any) -> None:
        own = {
            name: kind
            for name, kind in vars(cls).get("__annotations__", {}).items()
            if name != "model_config" and get_origin(kind) is not ClassVar
        }
        cls.model_fields = cls.model_fields | own

    def __init__(self, **values: Any) -> None:
        self.model_extra = {name: value for name, value in values.items() if name not in self.model_fields}
        for name in self.model_fields:
            setattr(self, name, values[name] if name in values else self._default(name))

    def _default(self, name: str) -> Any:
        if not hasattr(type(self), name):
            raise ValueError(f"{type(self).__name__}: {name} is missing")
        default = getattr(type(self), name)
        if isinstance(default, Field):
            return default.default_factory() if default.default_factory else default.default
        return copy.copy(default)

    def model_copy(self, update: dict[str, Any]) -> "BaseModel":
        other = copy.copy(self)
        vars(other).update(update)
        return other


class Ignored:
    """A declaration that only a check would read; as a decorator, it returns the function."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def __call__(self, function: Any) -> Any:
        return function


class ValidationError(ValueError):
    """Never raised here."""


AfterValidator = Discriminator = Tag = PrivateAttr = TypeAdapter = model_validator = Ignored
ConfigDict = dict
PositiveInt = NonNegativeInt = int
PositiveFloat = NonNegativeFloat = float
