"""The facts of a text of one's own. Its rare group is a share of the types that are not special tokens.

A model may reserve hundreds of special tokens that never occur. If they counted among the least frequent types, no other type
would be rare. The pipeline states its own rare group.
"""

from dataclasses import replace
from functools import wraps
from typing import Any

from raretokens.loss import facts as stated
from raretokens.loss.facts import Facts

SHARE = 0.2  # of the types, as in section 3.1 of the AGG paper


@wraps(stated.facts)
def facts(*given: Any, **more: Any) -> Facts:  # the docstring is that of the wrapped function
    return _with_share(stated.facts(*given, **more), more)


@wraps(stated.facts_of_text)
def facts_of_text(*given: Any, **more: Any) -> Facts:
    return _with_share(stated.facts_of_text(*given, **more), more)


def _with_share(known: Facts, given: dict[str, Any]) -> Facts:
    if given.get("rare") is not None:
        return known
    ids = known.counts.argsort(descending=True, stable=True)
    ids = ids[(ids < known.types) & ~known.special[ids]]
    rare = known.special.new_zeros(len(known.counts))
    rare[ids[round(len(ids) * (1 - given.get("rare_share", SHARE))) :]] = True
    return replace(known, rare=rare)
