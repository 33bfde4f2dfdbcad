"""Language models in params.yaml."""

from raretokens.evaluation.config import Probe
from raretokens.tasks import settings

Line = settings.Line


class Settings(settings.TaskSettings):
    probe: Probe
