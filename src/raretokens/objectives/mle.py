"""Maximum likelihood: the baseline of every table."""

from raretokens.training.objective import Objective

OPTIONS: dict = {}

__all__ = ["OPTIONS", "Objective"]
