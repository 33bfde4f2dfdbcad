"""Perplexity, in total and by the frequency group of the target."""

import numpy as np

from raretokens.subword.vocabulary import GROUP_NAMES


def perplexity(
    logprob: np.ndarray,
    targets: np.ndarray,
    groups: np.ndarray,
    *,
    window: int,
    context: int,
    unit: str = "piece",
    split: str = "test",
) -> tuple[dict[str, float | None], str]:
    """exp of the mean negative log-probability of the targets (AGG section 3.1); None for a group without a target.

    logprob: natural logarithms, one a position; targets: id at each position; groups: N groups by id. The total covers
    all positions, so ln PPL_total is the mean of ln PPL_g weighted by token_share. unit (of a token), window and
    context (in tokens) only sign the number. Raises ValueError when the two arrays differ in length.
    """
    if len(logprob) != len(targets):
        raise ValueError(f"{len(logprob)} log-probabilities for {len(targets)} targets: they belong to different texts")
    group, nll = groups[targets], -np.asarray(logprob, dtype=np.float64)
    value = {"total": _exp_mean(nll)} | {name: _exp_mean(nll[group == code]) for name, code in GROUP_NAMES.items()}
    return value, f"log:e|unit:{unit}|window:{window}|context:{context}|split:{split}"


def rare_mass(
    rare: np.ndarray, targets: np.ndarray, groups: np.ndarray, **reach: int | str
) -> tuple[dict[str, float | None], str]:
    """Mean probability that positions give to all types of the rare group together, in total and by the group of the target.

    rare: its natural logarithm, one a position; the rest as of perplexity().
    """
    group, mass = groups[targets], np.exp(np.asarray(rare, dtype=np.float64))
    by_group = {name: mass[group == code] for name, code in GROUP_NAMES.items()}
    value = {"total": float(mass.mean())} | {
        n: float(part.mean()) if len(part) else None for n, part in by_group.items()
    }
    return value, "of:rare-types" + "".join(f"|{key}:{number}" for key, number in reach.items())


def among_others(logprob: np.ndarray, rare: np.ndarray) -> np.ndarray:
    """Log-probability of each target that is no rare type, among all types that are not: p / (1 - mass of the rare)."""
    return np.asarray(logprob, np.float64) - np.log1p(-np.exp(np.minimum(np.asarray(rare, np.float64), -1e-12)))


def token_share(targets: np.ndarray, groups: np.ndarray) -> tuple[dict[str, float], str]:
    """Share of the positions whose target is in each group; AGG's test text has 93.68, 6.12 and 0.20 percent."""
    group = groups[targets]
    return {"total": 1.0} | {name: float(np.mean(group == code)) for name, code in GROUP_NAMES.items()}, "unit:piece"


def _exp_mean(nll: np.ndarray) -> float | None:
    return float(np.exp(nll.mean())) if len(nll) else None
