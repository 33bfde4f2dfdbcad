"""Time and peak memory of alignment by size of the text, beside what memory.py expects and beside sil-thot.

    python benchmarks/alignment.py --pairs 10000,100000 [--name generated] [--tokens FOLDER] [--beside 20000] [--out FILE.csv]

Text is made up as in data.py (`generated`), or what `encode` left in the folder --tokens (train.bin, meta.json): so many of
its pairs, evenly spaced. Each size runs in a process of its own with one thread. Up to --beside pairs the library runs too,
and links that differ are counted. expected_MB knows the pairs of types that meet, planned_MB guesses them, as a plan does.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from records import keep, memory

BYTES = 320  # of a generated pair, both sides, with room for those that encoding drops


def ours(tokens: Path, pairs: int, into: Path) -> dict:
    """Align; links are kept as sil_thot.py keeps them."""
    from raretokens.alignment import links
    from raretokens.alignment.text import Text
    from raretokens.tokenization.token_files import Bitext

    start = time.process_time()
    text, parts = Text(Bitext(tokens, "train"), pairs), []
    for block, source, target in links.links(text, 5.0):
        n, m = text.lengths[block].T
        pair = np.repeat(np.arange(len(n)), n)[source]
        positions = source - (np.cumsum(n) - n)[pair], target - (np.cumsum(m) - m)[pair]
        parts.append(np.stack([pair + block.start, *positions], 1).astype(np.int32))
    np.save(into, np.concatenate(parts))
    spent = {"seconds": time.process_time() - start, "peak_MB": memory("VmHWM") / 1e6}
    return spent | {"pairs": len(text)} | facts(text, spent["peak_MB"])


def facts(text, peak: float) -> dict:  # noqa: ANN001
    from raretokens.alignment import memory as planned
    from raretokens.alignment.fast_align import Direction
    from raretokens.alignment.progress import Progress

    types = float(np.sqrt(len(text.known[0]) * len(text.known[1])))
    meeting = len(Direction(text, 0, Progress("", 1)).cells)
    arguments = len(text), sum(text.tokens), types
    known, guessed = (sum(planned.memory(*arguments, number).values()) / 1e6 for number in (meeting, None))
    return {
        "tokens": sum(text.tokens),
        "types": round(types),
        "positions": text.positions,
        "meeting": meeting,
        "expected_MB": round(known),
        "planned_MB": round(guessed),
    }


def theirs(tokens: Path, pairs: int, into: Path) -> dict:
    import sil_thot

    from raretokens.alignment.text import Text
    from raretokens.tokenization.token_files import Bitext

    start = time.process_time()
    np.save(into, sil_thot.links(sil_thot.sentences(Text(Bitext(tokens, "train"), pairs))))
    return {"seconds": time.process_time() - start, "peak_MB": memory("VmHWM") / 1e6}


def apart(which: str, tokens: Path, pairs: int, into: Path) -> dict:
    """`ours` or `theirs` in a process of its own; lines of progress go through."""
    command = [
        sys.executable,
        str(Path(__file__).resolve()),
        "--one",
        json.dumps([which, str(tokens), pairs, str(into)]),
    ]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, env=environment, text=True, stdout=subprocess.PIPE) as process:
        lines = [line for line in process.stdout or () if print(line, end="", flush=True) is None]
    if process.returncode:
        raise SystemExit(f"{which} at {pairs} pairs: exit status {process.returncode}")
    return json.loads(lines[-1])


def row(name: str, tokens: Path, pairs: int, beside: bool, folder: Path) -> dict:
    found = apart("ours", tokens, pairs, folder / "ours.npy")
    made = {"text": name} | {key: found[key] for key in ("pairs", "tokens", "types", "positions", "meeting")}
    made |= {"seconds": round(found["seconds"], 1), "peak_MB": round(found["peak_MB"])}
    made |= {key: found[key] for key in ("expected_MB", "planned_MB")}
    if beside:
        library = apart("theirs", tokens, pairs, folder / "theirs.npy")
        links = [{tuple(link) for link in np.load(folder / f"{one}.npy").tolist()} for one in ("ours", "theirs")]
        made |= {"sil-thot_seconds": round(library["seconds"], 1), "sil-thot_peak_MB": round(library["peak_MB"])}
        made |= {"links": len(links[1]), "differing": len(links[0] ^ links[1])}
    return made | {"machine": f"{platform.machine()}, 1 thread"}


def rows(options: argparse.Namespace, folder: Path) -> Iterator[dict]:
    sizes = [int(size) for size in options.pairs.split(",")]
    tokens = options.tokens
    if tokens is None:
        tokens = generated(folder, max(sizes))
    for pairs in sizes:
        yield row(options.name, tokens.resolve(), pairs, pairs <= options.beside, folder)


def generated(folder: Path, pairs: int) -> Path:
    import data

    here = Path.cwd()
    os.chdir(folder)
    data.generate_pairs(Path("raw"), pairs * BYTES / 1e6)
    data.prepare("bitext", "wmt14")
    data.encode_pieces("nmt")
    os.chdir(here)
    return folder / "tokens"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", default="10000,100000")
    parser.add_argument("--name", default="generated", help="of the text, in the rows")
    parser.add_argument("--tokens", type=Path)
    parser.add_argument("--beside", type=int, default=0, help="run the library up to so many pairs")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        which, tokens, pairs, into = json.loads(options.one)
        print(json.dumps({"ours": ours, "theirs": theirs}[which](Path(tokens), pairs, Path(into))))
        return
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as folder:
        for made in rows(options, Path(folder)):
            print("  ".join(f"{key} {value}" for key, value in made.items()), flush=True)
            if options.out:
                keep([made], options.out, ("text", "pairs"))


if __name__ == "__main__":
    main()
