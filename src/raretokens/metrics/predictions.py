"""Metrics of predictions: perplexity, Uniq and repetition of language models; accuracy of classifiers."""

from collections.abc import Iterable

import numpy as np
from scipy.stats import rankdata

from raretokens.metrics import bootstrap
from raretokens.vocabulary import GROUP_NAMES


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
    """Perplexity: exp of the mean negative log-probability of the targets, in total and by group (AGG section 3.1).

    Args:
        logprob: Natural log-probability of the target at each position.
        targets: Token id at each position.
        groups: Frequency group of each id, N.
        unit, window, context, split: Recorded in the signature only; window and context are in tokens.
    Returns:
        group -> perplexity, None for a group without a target. The total covers all positions, so ln PPL_total is the
        mean of ln PPL_g weighted by token_share().
    Raises:
        ValueError: logprob and targets differ in length.
    """
    if len(logprob) != len(targets):
        raise ValueError(f"{len(logprob)} log-probabilities for {len(targets)} targets: they belong to different texts")
    group, nll = groups[targets], -np.asarray(logprob, dtype=np.float64)
    value = {"total": _exp_mean(nll)} | {name: _exp_mean(nll[group == code]) for name, code in GROUP_NAMES.items()}
    return value, f"log:e|unit:{unit}|window:{window}|context:{context}|split:{split}"


def rare_mass(
    rare: np.ndarray, targets: np.ndarray, groups: np.ndarray, **reach: int | str
) -> tuple[dict[str, float | None], str]:
    """Mean total probability of the rare types, over all positions and by group of the target.

    Args:
        rare: Natural logarithm of the total probability of the rare types at each position.
        targets, groups: As in perplexity().
        reach: Further keys of the signature.
    """
    group, mass = groups[targets], np.exp(np.asarray(rare, dtype=np.float64))
    by_group = {name: mass[group == code] for name, code in GROUP_NAMES.items()}
    value = {"total": float(mass.mean())} | {
        n: float(part.mean()) if len(part) else None for n, part in by_group.items()
    }
    return value, "of:rare-types" + "".join(f"|{key}:{number}" for key, number in reach.items())


def exclude_rare_types(logprob: np.ndarray, rare: np.ndarray) -> np.ndarray:
    """Return log-probabilities of targets that are not rare, renormalised without rare types: p / (1 - rare mass)."""
    return np.asarray(logprob, np.float64) - np.log1p(-np.exp(np.minimum(np.asarray(rare, np.float64), -1e-12)))


def token_share(targets: np.ndarray, groups: np.ndarray) -> tuple[dict[str, float], str]:
    """Share of positions whose target is in each group. AGG reports 93.68 %, 6.12 % and 0.20 % for its test text."""
    group = groups[targets]
    return {"total": 1.0} | {name: float(np.mean(group == code)) for name, code in GROUP_NAMES.items()}, "unit:piece"


def _exp_mean(nll: np.ndarray) -> float | None:
    return float(np.exp(nll.mean())) if len(nll) else None


def uniq(predicted: np.ndarray, groups: np.ndarray, *, block: int | None = None) -> tuple[dict[str, int], str]:
    """Uniq: number of distinct types predicted under teacher forcing (AGG section 5; Welleck et al. 2020).

    Args:
        predicted: Most probable id at each position. With the targets instead, the result is the papers' Human row.
        groups: Frequency group of each id, N.
        block: Tokens per teacher-forced block, recorded in the signature only; None for the targets.
    Returns:
        group -> number of types. The groups add up to the total, because fillers are not counted.
    """
    group = groups[np.unique(predicted)]
    value = {name: int(np.sum(group == code)) for name, code in GROUP_NAMES.items()}
    source = "of:targets" if block is None else f"of:argmax|block:{block}"
    return {"total": sum(value.values())} | value, f"{source}|split:test"


REPEATED = (1, 2, 3, 4)  # n-gram lengths of seq-rep-n
SHOWN = 4  # continuations whose Uniq is reported individually, as in AGG table 14


def continuation(texts: np.ndarray, *, prefix: int, source: str = "greedy") -> tuple[dict, str]:
    """Mean Uniq and seq-rep-n of continuations (Welleck et al. 2020).

    Args:
        texts: Ids, samples x length, without the prefixes.
        prefix, source: Recorded in the signature only; prefix is in tokens.
    Returns:
        `uniq`: mean number of distinct ids (AGG table 14). `rep<n>`: mean of 1 - distinct n-grams / n-grams, which is
        0 without repetition. `samples`: number of distinct ids of each of the first four continuations.
    """
    distinct = [len(np.unique(text)) for text in texts]
    value: dict = {"uniq": float(np.mean(distinct))}
    value |= {f"rep{n}": float(np.mean([_repetition(text, n) for text in texts])) for n in REPEATED}
    value["samples"] = {str(number): count for number, count in enumerate(distinct[:SHOWN], start=1)}
    samples, length = texts.shape
    return value, f"of:{source}|prefix:{prefix}|length:{length}|samples:{samples}|split:test"


def paper_prefix_uniq(
    texts: np.ndarray, numbers: Iterable[int], *, prefix: int, source: str = "greedy"
) -> tuple[dict, str]:
    """Uniq of the continuations of AGG table 14's prefixes, by sample number."""
    value = {str(number): len(np.unique(text)) for number, text in zip(numbers, texts, strict=True)}
    return value, f"of:{source}|prefix:{prefix}|length:{texts.shape[1]}|prefixes:printed|split:test"


def reference_continuations(text: np.ndarray, *, samples: int, prefix: int, length: int) -> np.ndarray:
    """Return the test text's own continuations of evenly spaced prefixes, samples x length.

    Raises:
        ValueError: The text is too short for this number of samples.
    """
    stride = (len(text) - prefix - length) // samples
    if stride < 1:
        raise ValueError(f"the test text has only {len(text)} tokens; take fewer or shorter samples")
    starts = prefix + stride * np.arange(samples)
    return np.stack([np.asarray(text[start : start + length]) for start in starts])


def _repetition(text: np.ndarray, n: int) -> float:
    if len(text) < n:
        return 0.0
    grams = np.lib.stride_tricks.sliding_window_view(text, n)
    return 1 - len(np.unique(grams, axis=0)) / len(grams)


def accuracy(logprob: np.ndarray, labels: np.ndarray) -> tuple[dict[str, float], str]:
    """Accuracy in percent, and half the width of its 95 % bootstrap interval over the test set.

    logprob: examples x classes; labels: class index of each example. Ties go to the first class.
    """
    low, high = np.quantile(bootstrap_accuracy(logprob, labels), [0.025, 0.975])
    value = {"total": 100 * float(correct(logprob, labels).mean()), "interval": float(high - low) / 2}
    return value, f"unit:percent|examples:{len(labels)}|interval:bootstrap-{bootstrap.REPLICATES}"


def bootstrap_accuracy(logprob: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return replicates of accuracy in percent, resampling examples."""
    return 100 * bootstrap.mean(correct(logprob, labels))


def auc(score: np.ndarray, positive: np.ndarray) -> float | None:
    """Return the area under the ROC curve (Mann-Whitney U / pairs), or None where one class is empty. Ties count half."""
    count, others = int(positive.sum()), int((~positive).sum())
    if not count or not others:
        return None
    return float((rankdata(score)[positive].sum() - count * (count + 1) / 2) / (count * others))


def mean_nll(logprob: np.ndarray, labels: np.ndarray) -> tuple[float, str]:
    """Mean negative log-probability of the right class."""
    return -float(logprob[np.arange(len(labels)), labels].mean(dtype=float)), "log:e|split:test"


def correct(logprob: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return which examples are classified correctly. Raises ValueError where predictions and labels differ in number."""
    if len(logprob) != len(labels):
        raise ValueError(f"{len(logprob)} predictions for {len(labels)} labels; predict again")
    return logprob.argmax(1) == labels
