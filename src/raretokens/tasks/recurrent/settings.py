"""Recurrent language models in params.yaml."""

from raretokens.evaluation.config import Evaluation
from raretokens.tasks import settings

Line = settings.Line


class Settings(settings.TaskSettings):
    evaluation: Evaluation
