"""align: data/tokens/nmt/ -> data/alignment/ (link counts by type, and how they were made)."""

import json
from pathlib import Path

from scipy.sparse import save_npz

from raretokens import config
from raretokens.alignment import fast_align, links
from raretokens.alignment.text import LONGEST, Text
from raretokens.subword.streams import Bitext, read_meta

SECONDS = 5.0  # between lines of progress


def main() -> None:
    most = config.load().nmt.alignment.pairs
    tokens, into = Path("data/tokens/nmt"), Path("data/alignment")
    text = Text(Bitext(tokens, "train"), most)
    counts = links.count(text, read_meta(tokens)["vocabulary"], SECONDS)
    into.mkdir(parents=True, exist_ok=True)
    save_npz(into / "links.npz", counts)
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
    (into / "meta.json").write_text(json.dumps(meta, indent=1) + "\n", encoding="utf-8")
    print(f"align: {meta['links']:,} links in {len(text):,} pairs{said(text)}")


def said(text: Text) -> str:
    """Of pairs that are left out, where there are any."""
    parts = [f"{text.empty:,} have an empty side"] * bool(text.empty)
    parts += [f"{text.long:,} are longer than {LONGEST:,} pieces"] * bool(text.long)
    return f"; left out: {', '.join(parts)}" if parts else ""


if __name__ == "__main__":
    config.main(main)
