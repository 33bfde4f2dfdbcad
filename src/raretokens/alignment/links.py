"""Links between source and target pieces by the fast_align model (Dyer et al., 2013), counted by type."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from scipy.sparse import csr_matrix, save_npz

from raretokens.alignment import fast_align
from raretokens.alignment.counter import PairCounter
from raretokens.alignment.fast_align import PASSES, Direction
from raretokens.alignment.job import Job
from raretokens.alignment.progress import Progress
from raretokens.alignment.symmetry import Grid, grow_diag_final_and
from raretokens.alignment.text import LONGEST, Text
from raretokens.files import whole, write_text
from raretokens.tokenization.token_files import Bitext, read_meta

SECONDS = 5.0  # between lines of progress


def align(job: Job, tokens: Path, into: Path) -> None:
    """Write links.npz, the link counts by type of the training text, and meta.json, how they were made."""
    text = Text(Bitext(tokens, "train"), job.pairs)
    counts = count(text, read_meta(tokens)["vocabulary"], SECONDS)
    with whole(into / "links.npz") as part, open(part, "wb") as file:
        save_npz(file, counts)
    meta = {
        "model": "fast_align",
        "symmetrisation": "grow-diag-final-and",
        "iterations": fast_align.ITERATIONS,
        "sil-thot": fast_align.SAME_AS,
        "pairs": len(text),
        "left_out": {"empty": text.empty, f"longer than {LONGEST} pieces": text.long},
        "links": int(counts.sum()),
        "linked_types": int((counts.sum(1) > 0).sum()),
    }
    write_text(into / "meta.json", json.dumps(meta, indent=1) + "\n")
    print(f"align: {meta['links']:,} links in {len(text):,} pairs{_left_out(text)}")


def _left_out(text: Text) -> str:
    """Pairs that are left out, where there are any."""
    parts = [f"{text.empty:,} have an empty side"] * bool(text.empty)
    parts += [f"{text.long:,} are longer than {LONGEST:,} pieces"] * bool(text.long)
    return f"; left out: {', '.join(parts)}" if parts else ""


def links(text: Text, seconds: float | None = None) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
    """By block of sentence pairs: its source and target tokens that are linked, numbered within the block.

    fast_align -d -o -v in both directions, one after the other so that one table is there at a time; symmetrised by
    grow-diag-final-and. seconds: between lines of progress; None for none.
    """
    if not len(text):
        return
    progress = Progress("align", (2 * PASSES + 1) * text.positions, seconds)
    direct, inverse = (_best(text, source, progress) for source in (0, 1))
    done = np.zeros(2, np.int64)  # tokens of source and target
    for block in text.blocks:
        n, m = text.lengths[block].T
        start, done = done, done + (n.sum(), m.sum())
        grid = Grid(n, m, direct[start[1] : done[1]].astype(np.int64), inverse[start[0] : done[0]].astype(np.int64))
        yield block, *grow_diag_final_and(grid)
        progress.step(int((n * m).sum()), "both directions")


def _best(text: Text, source: int, progress: Progress) -> np.ndarray:
    direction = Direction(text, source, progress)
    direction.train()
    return direction.best()


def count(text: Text, vocabulary: int, seconds: float | None = None) -> csr_matrix:
    """N x N, int64: how often source type i is linked to target type j in the training text (AGPS section 4.1.2)."""
    counter = PairCounter(vocabulary)
    for block, source, target in links(text, seconds):
        counter.add(text.ids_of(0, block)[source], text.ids_of(1, block)[target])
    return counter.matrix()
