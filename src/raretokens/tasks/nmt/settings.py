"""Translation in params.yaml."""

from typing import Annotated

from pydantic import Field

from raretokens.decoding.job import Decoding
from raretokens.tasks import settings


class Line(settings.Line):
    reverse: bool = False  # from target to source


class Settings(settings.TaskSettings):
    alpha: Annotated[float, Field(ge=0.0)]  # of AGG
    decoding: Decoding
    named: dict[str, list[str]] = {}  # query -> words whose rank among its neighbours is told
