"""Read and write token files: a flat little-endian array of ids for each split, and a description of all splits (meta.json).

Classes of documents and pixels of images have separate files in the same folder.
"""

import json
from pathlib import Path

import numpy as np

from raretokens.errors import UserError
from raretokens.files import atomic_write, write_text
from raretokens.vocabulary import EOS

META = "meta.json"
LABELS, IMAGES = ".labels", ".images"  # suffixes of the files of a prepared corpus


def token_dtype(vocabulary: int) -> np.dtype:
    """Return the smallest unsigned integer type for ids of a vocabulary of this size: 16 or 32 bits, little-endian."""
    return np.dtype("<u2" if vocabulary <= 1 << 16 else "<u4")


def write_meta(folder: Path, meta: dict) -> None:
    write_text(folder / META, json.dumps(meta, indent=1) + "\n")


def read_meta(folder: Path) -> dict:
    return json.loads((folder / META).read_text(encoding="utf-8"))


def read_splits(folder: Path) -> dict[str, dict[str, int]]:
    """Return the number of tokens and lines of each split: train, valid and test first, then further splits."""
    described = read_meta(folder)["splits"]
    return {name: described[name] for name in dict.fromkeys(("train", "valid", "test", *described)) if name in described}


def tokens(folder: Path, split: str) -> np.ndarray:
    """Return the ids of a split as a read-only memory map."""
    return np.memmap(folder / f"{split}.bin", dtype=read_meta(folder)["dtype"], mode="r")


class Bitext:
    """Sentence pairs of a split. Sources and targets alternate in the file, and each ends in </s>.

    reverse: Swap source and target.
    """

    def __init__(self, folder: Path, split: str, reverse: bool = False) -> None:
        self.ids = tokens(folder, split)
        ends = np.flatnonzero(self.ids == EOS) + 1
        if len(ends) % 2:
            raise UserError(f"{folder / split}.bin: {len(ends)} sentences do not pair up; encode it again")
        bounds = np.concatenate(([0], ends))
        order = [1, 0] if reverse else [0, 1]
        # Both arrays are pairs x (source, target).
        self.starts, self.ends = bounds[:-1].reshape(-1, 2)[:, order], ends.reshape(-1, 2)[:, order]

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def lengths(self) -> np.ndarray:
        """Number of tokens of source and target including </s>, pairs x 2."""
        return self.ends - self.starts

    def pair(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the source and target ids of a pair, each including </s>."""
        source, target = (
            np.asarray(self.ids[start:end], dtype=np.int64)
            for start, end in zip(self.starts[index], self.ends[index], strict=True)
        )
        return source, target


def add_labels_and_images(corpus: Path, into: Path) -> dict:
    """Write the classes of documents (<split>.labels.bin) and the images (<split>.images.bin) of a corpus that has them.

    Returns:
        The content of meta.json, with added `classes` (in alphabetical order) or `pixels` (per image).
    Raises:
        UserError: The number of labels or images differs from the number of lines, or the training text lacks a class.
    """
    meta = read_meta(into)
    splits = meta["splits"]
    found = {split: (corpus / f"{split}{LABELS}") for split in splits if (corpus / f"{split}{LABELS}").exists()}
    if found:
        labels = {split: path.read_text(encoding="utf-8").split("\n")[:-1] for split, path in found.items()}
        meta["classes"] = sorted({*labels["train"]})
        for split, names in labels.items():
            _check_length(found[split], len(names), splits[split]["lines"])
            numbers = _class_numbers(found[split], names, meta["classes"]).astype(meta["dtype"])
            _write(numbers, into / f"{split}{LABELS}.bin")
    for split in splits:
        if (image := corpus / f"{split}{IMAGES}").exists():
            pixels = np.fromfile(image, np.uint8)
            meta["pixels"] = len(pixels) // splits[split]["lines"]
            _check_length(image, len(pixels), splits[split]["lines"] * meta["pixels"])
            _write(pixels, into / f"{split}{IMAGES}.bin")
    write_meta(into, meta)
    return meta


def read_labels(folder: Path, split: str) -> np.ndarray:
    """Return the class index of each document."""
    return tokens(folder, f"{split}{LABELS}")


def read_images(folder: Path, split: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the pixel intensities (images x pixels, uint8) and the token id of the class of each image."""
    ids = tokens(folder, split)
    pixels = np.memmap(folder / f"{split}{IMAGES}.bin", np.uint8, mode="r")
    return pixels.reshape(-1, read_meta(folder)["pixels"]), np.asarray(ids[ids != EOS])


def _class_numbers(file: Path, names: list[str], classes: list[str]) -> np.ndarray:
    unknown = {*names} - {*classes}
    if unknown:
        raise UserError(f"{file}: {', '.join(sorted(unknown))} is no class of the training text")
    numbers = {name: number for number, name in enumerate(classes)}
    return np.array([numbers[name] for name in names])


def _check_length(file: Path, found: int, expected: int) -> None:
    if found != expected:
        raise UserError(f"{file}: {found} entries for {expected}; prepare the corpus again")


def _write(values: np.ndarray, path: Path) -> None:
    with atomic_write(path) as part, open(part, "wb") as out:
        values.tofile(out)
