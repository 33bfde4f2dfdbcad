"""Token frequencies where no text is given: an estimate from the word frequencies of the library wordfreq."""

from importlib import metadata

import numpy as np

from raretokens.errors import UserError
from raretokens.tools.measure.model import Model
from raretokens.tools.measure.vocabularies import INSTALL

SCALE = 1e10  # counts per unit of frequency, so that the rarest word of the library (1e-8) has 100
BLOCK = 10_000  # words that are encoded together


def estimate_counts(model: Model, languages: str) -> tuple[np.ndarray, str]:
    """Estimate the count of each row's token in a text of 10^10 words.

    Each word of the library is encoded after a blank, as within a text, and adds its frequency to each of its tokens. Rows
    without a tokenizer are words, and have the frequency of the word in lower case. The library has no capitals and no
    punctuation, so tokens with either have a count of 0.

    Args:
        model: the model.
        languages: language codes of wordfreq, joined by `+`, such as `en+pt`. Each language counts as much as the others.

    Returns:
        Counts by row, and how they were found, for signatures.

    Raises:
        UserError: if the library is not installed or does not know the language, or the rows have no tokens.
    """
    frequencies, version = _read_frequencies(languages)
    words, values = list(frequencies), np.rint(np.array([*frequencies.values()]) * SCALE).astype(np.int64)
    if model.tokenizer is not None:
        size = max(model.tokenizer.size, len(model.row_names or []))
        counts = np.zeros(size, np.int64)
        for start in range(0, len(words), BLOCK):
            encoded = model.tokenizer.encode([f" {word}" for word in words[start : start + BLOCK]])
            for ids, value in zip(encoded, values[start : start + BLOCK], strict=True):
                np.add.at(counts, ids, value)
    elif model.row_names is not None:
        known = dict(zip(words, values, strict=True))
        counts = np.array([known.get((name or "").lower(), 0) for name in model.row_names], np.int64)
    else:
        raise UserError("rows have no tokens, so they have no frequencies (--vocabulary names them)")
    return counts, f"frequencies:estimate-wordfreq-{version}-{languages}"


def _read_frequencies(languages: str) -> tuple[dict[str, float], str]:
    """Return the mean frequency of each word over languages, and the version of the library."""
    try:
        import wordfreq
    except ModuleNotFoundError:
        raise UserError(f"--frequencies needs wordfreq: {INSTALL}") from None
    mean: dict[str, float] = {}
    codes = languages.split("+")
    for code in codes:
        try:
            found = wordfreq.get_frequency_dict(code)
        except LookupError:
            known = ", ".join(sorted(wordfreq.available_languages()))
            raise UserError(
                f"--frequencies: {code} is not allowed: should be of {known}, or several joined by +"
            ) from None
        for word, frequency in found.items():
            mean[word] = mean.get(word, 0.0) + frequency / len(codes)
    return mean, metadata.version("wordfreq")
