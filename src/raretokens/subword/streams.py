"""Token files: one flat little-endian array of ids a split, to be memory-mapped, and one small description of all."""

import json
from pathlib import Path

import numpy as np

from raretokens.errors import UserError
from raretokens.files import write_text
from raretokens.subword.vocabulary import EOS

META = "meta.json"


def dtype_for(vocabulary: int) -> np.dtype:
    return np.dtype("<u2" if vocabulary <= 1 << 16 else "<u4")


def write_meta(folder: Path, meta: dict) -> None:
    write_text(folder / META, json.dumps(meta, indent=1) + "\n")


def read_meta(folder: Path) -> dict:
    return json.loads((folder / META).read_text(encoding="utf-8"))


def tokens(folder: Path, split: str) -> np.ndarray:
    """Ids of a split as a read-only memory map."""
    return np.memmap(folder / f"{split}.bin", dtype=read_meta(folder)["dtype"], mode="r")


class Bitext:
    """Sentence pairs of a split: sources and targets alternate in the file, each closed by </s>.

    reverse: what the file calls target is the source, and the other way round.
    """

    def __init__(self, folder: Path, split: str, reverse: bool = False) -> None:
        self.ids = tokens(folder, split)
        ends = np.flatnonzero(self.ids == EOS) + 1
        if len(ends) % 2:
            raise UserError(f"{folder / split}.bin: {len(ends)} sentences do not pair up; encode it again")
        bounds = np.concatenate(([0], ends))
        order = [1, 0] if reverse else [0, 1]
        self.starts, self.ends = (
            bounds[:-1].reshape(-1, 2)[:, order],
            ends.reshape(-1, 2)[:, order],
        )  # pairs x (source, target)

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def lengths(self) -> np.ndarray:
        """pairs x 2: pieces of source and target, each with its </s>."""
        return self.ends - self.starts

    def pair(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        """Source and target ids of a pair, each with its </s>."""
        source, target = (
            np.asarray(self.ids[start:end], dtype=np.int64)
            for start, end in zip(self.starts[index], self.ends[index], strict=True)
        )
        return source, target
