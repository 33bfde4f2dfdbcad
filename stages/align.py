"""align: data/tokens/nmt/ -> data/alignment/ (link counts by type, and how they were made)."""

import json
from importlib.metadata import version
from pathlib import Path

from scipy.sparse import save_npz

from raretokens import config
from raretokens.alignment import links
from raretokens.subword.streams import Bitext, read_meta


def main() -> None:
    most = config.load().nmt.alignment.pairs
    tokens, into = Path("data/tokens/nmt"), Path("data/alignment")
    pairs = list(links.sentences(Bitext(tokens, "train"), most))
    counts = links.count(pairs, read_meta(tokens)["vocabulary"])
    into.mkdir(parents=True, exist_ok=True)
    save_npz(into / "links.npz", counts)
    meta = {
        "model": "fast_align",
        "symmetrisation": "grow-diag-final-and",
        "iterations": links.ITERATIONS,
        "sil-thot": version("sil-thot"),
        "pairs": len(pairs),
        "links": int(counts.sum()),
        "linked_types": int((counts.sum(1) > 0).sum()),
    }
    (into / "meta.json").write_text(json.dumps(meta, indent=1) + "\n", encoding="utf-8")
    print(f"align: {meta['links']:,} links in {len(pairs):,} pairs")


if __name__ == "__main__":
    config.main(main)
