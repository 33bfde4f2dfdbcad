"""Language models from right to left in params.yaml: what every task has, and no more."""

from raretokens.tasks import settings

Line, Settings = settings.Line, settings.TaskSettings
