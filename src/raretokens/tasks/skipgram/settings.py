"""Skip-gram embeddings in params.yaml: what every task has, and words that a query's neighbours should hold."""

from raretokens.tasks import settings

Line = settings.Line


class Settings(settings.TaskSettings):
    named: dict[str, list[str]] = {}  # query -> words whose rank among its neighbours is told
