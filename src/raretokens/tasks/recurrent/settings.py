"""Recurrent language models in params.yaml."""

from raretokens.decoding.evaluation_job import Evaluation
from raretokens.tasks import settings

Line = settings.Line


class Settings(settings.TaskSettings):
    evaluation: Evaluation
