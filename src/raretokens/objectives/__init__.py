"""Training objectives, each in a file. registry.py describes their declarations.

What several objectives share is in rarity.py (thresholds) and embedding_adamw.py (an optimizer).

The package is also callable: `raretokens.objectives()` lists all objectives.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class _Listing(ModuleType):
    def __call__(self) -> Any:
        return import_module("raretokens.objectives.registry").objectives()


sys.modules[__name__].__class__ = _Listing
