"""Text classification in params.yaml: what every task has, and no more."""

from raretokens.tasks import settings

Line, Settings = settings.Line, settings.TaskSettings
