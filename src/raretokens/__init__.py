"""raretokens: objectives for any training loop against degenerate embeddings of rare tokens, and their measurement and repair.

    from raretokens import build, facts, gated_linear_cross_entropy

    raretokens.objectives()    # all objectives, with their options

raretokens.public defines the public names. Each is loaded on first use, so importing the package is fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from raretokens.public import *  # noqa: F403


def __getattr__(name: str) -> Any:
    return import_module("raretokens.public").load(name)


def __dir__() -> list[str]:
    return list(import_module("raretokens.public").__all__)
