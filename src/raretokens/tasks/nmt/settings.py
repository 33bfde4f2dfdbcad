"""Translation in params.yaml."""

from typing import Annotated

from pydantic import Field

from raretokens.evaluation.config import Decoding
from raretokens.schema import Name
from raretokens.tasks import settings


class Line(settings.Line):
    reverse: bool = False  # from target to source


class Size(settings.Size):
    decoding: Decoding | None = None  # instead of the task's


class Settings(settings.TaskSettings):
    sizes: dict[Name, Size]
    alpha: Annotated[float, Field(ge=0.0)]  # of AGG
    decoding: Decoding
    named: dict[str, list[str]] = {}  # query -> words whose rank among its neighbours is told

    def decoding_of(self, size: str) -> Decoding:
        return self.sizes[size].decoding or self.decoding
