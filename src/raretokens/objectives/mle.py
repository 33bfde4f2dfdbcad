"""Maximum likelihood: the baseline of every table."""

from raretokens.loss.objective import Objective

OPTIONS: dict = {}

__all__ = ["OPTIONS", "Objective"]
