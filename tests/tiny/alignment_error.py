"""Alignment error rate: links of a word aligner against those that people drew."""

from collections.abc import Iterable, Set

Links = Set[tuple[int, int]]  # positions (source, target) of one sentence pair


def alignment_error(
    linked: Iterable[Links], sure: Iterable[Links], possible: Iterable[Links]
) -> tuple[dict[str, float], str]:
    """AER, precision and recall in percent over all sentence pairs (Och and Ney 2003), links counted together.

    sure and possible: links of the gold standard; every sure link is possible too. AER = 1 - (|A and S| + |A and P|) /
    (|A| + |S|); precision counts possible links as right, recall asks for the sure ones. Raises ValueError where the
    numbers of pairs differ.
    """
    links = right = hit = wanted = 0
    for ours, must, may in zip(linked, sure, possible, strict=True):
        links, wanted = links + len(ours), wanted + len(must)
        hit, right = hit + len(ours & must), right + len(ours & (may | must))
    value = {
        "aer": 100 * (1 - (hit + right) / (links + wanted)),
        "precision": 100 * right / links,
        "recall": 100 * hit / wanted,
    }
    return value, "x:100|links:sure+possible|over:corpus"
