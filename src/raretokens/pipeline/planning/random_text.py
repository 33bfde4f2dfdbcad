"""Random token files with Zipf's frequencies, for trials and for the shapes of batches."""

from pathlib import Path

import numpy as np

from raretokens.tokenization import token_files
from raretokens.tokenization.token_files import IMAGES, LABELS
from raretokens.tokenization.vocabulary import EOS, SPECIALS, VOCABULARY, Vocabulary

SEED = 1
OCCURRENCES = 1e8  # total count in the random vocabulary, of the order of the full corpora


def write_random_tokens(folder: Path, rows: int, splits: dict[str, int], longest: int | None = None) -> None:
    """Write vocabulary.tsv, meta.json and <split>.bin with random token ids, whose frequencies follow Zipf's law.

    Args:
        rows: number of token types, including special tokens.
        splits: split -> number of tokens.
        longest: maximum tokens per side of a sentence pair; None: one stream without pairs.
    """
    folder.mkdir(parents=True)
    random, share = np.random.default_rng(SEED), 1.0 / np.arange(1, rows - len(SPECIALS) + 1)
    share /= share.sum()
    counts = np.concatenate((np.zeros(len(SPECIALS)), share * OCCURRENCES)).astype(np.int64)
    counts[EOS] = OCCURRENCES / 25
    markers = (*SPECIALS, *(f"type{number}" for number in range(len(SPECIALS), rows)))
    Vocabulary(markers, counts * (1 if longest is None else 2), counts, 0).write(folder / VOCABULARY)
    dtype = token_files.token_dtype(rows)
    for split, tokens in splits.items():
        ids = len(SPECIALS) + np.searchsorted(share.cumsum(), random.random(tokens)).clip(max=len(share) - 1)
        if longest is not None:
            ids = _paired(ids, longest, random)
        ids.astype(dtype).tofile(folder / f"{split}.bin")
    meta = {"dtype": dtype.str, "vocabulary": rows, "fillers": 0}
    token_files.write_meta(folder, meta | {"splits": {name: {"tokens": count} for name, count in splits.items()}})


def add_labels(folder: Path, kind: str, classes: int, pixels: int) -> None:
    """Add random classes to documents, or turn random token files into images. Other kinds are left unchanged."""
    random, meta = np.random.default_rng(SEED), token_files.read_meta(folder)
    for split in meta["splits"] if kind in ("documents", "images") else ():
        ids = np.array(token_files.tokens(folder, split))
        if kind == "documents":
            labels = random.integers(0, classes, np.count_nonzero(ids == EOS))
            labels.astype(meta["dtype"]).tofile(folder / f"{split}{LABELS}.bin")
            continue
        of_images = ids[: max(len(ids) // pixels, 1)]
        np.stack((of_images, np.full_like(of_images, EOS)), 1).tofile(folder / f"{split}.bin")
        random.integers(0, 256, (len(of_images), pixels)).astype(np.uint8).tofile(folder / f"{split}{IMAGES}.bin")
    names = [f"class{number}" for number in range(classes)]
    token_files.write_meta(folder, meta | {"classes": names, "pixels": pixels})


def _paired(ids: np.ndarray, longest: int, random: np.random.Generator) -> np.ndarray:
    """Split ids into sentence pairs of 2 to `longest` ids a side, including EOS. Both sides have equal length."""
    ids, start = ids.copy(), 0
    while start < len(ids):
        length = int(random.integers(2, longest + 1))
        if start + 2 * length > len(ids):
            return ids[:start]
        ids[[start + length - 1, start + 2 * length - 1]] = EOS
        start += 2 * length
    return ids
