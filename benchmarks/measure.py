"""Time and peak memory of `raretokens measure` on a generated embedding matrix, as large as those of today's models.

    python benchmarks/measure.py [--rows 256000] [--width 4096] [--counts] [--out benchmarks/measure-cpu.csv]

The embedding matrix is bfloat16 in a safetensors file: noise, a direction that all rows share, and a spectrum that falls. The
command measures it in a process of its own, on two threads. Time is by the clock and of the processor; on a busy machine half
of the latter is what two free cores would take. --counts adds a vector of counts by Zipf's law, and all that needs
frequencies. The goal is two minutes on two cores and 3 GB, without counts.
"""

import argparse
import json
import os
import platform
import resource
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from records import keep

THREADS, BLOCK = 2, 4096
WITH_COUNTS = """
import sys, numpy as np
from raretokens.measure.measurement import MeasureOptions, measure_embedding
from raretokens.measure.model import load_model
from raretokens.measure.row_order import arrange_rows
model = load_model(sys.argv[1])
for role, stored in model.embeddings.items():
    counts = (1e9 / np.arange(1, stored.shape[0] + 1)).astype(np.int64)
    measure_embedding(model, role, arrange_rows(model, role, counts), MeasureOptions(has_intervals=True), print)
"""


def generate(path: Path, rows: int, width: int) -> None:
    """Write the file a block at a time."""
    random = np.random.default_rng(0)
    shared, scale = random.standard_normal(width, np.float32), np.geomspace(1, 0.05, width, dtype=np.float32)
    told = {
        "model.embed_tokens.weight": {"dtype": "BF16", "shape": [rows, width], "data_offsets": [0, 2 * rows * width]}
    }
    header = json.dumps(told).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        for start in range(0, rows, BLOCK):
            block = random.standard_normal((min(BLOCK, rows - start), width), np.float32) * scale + 0.2 * shared
            (np.ascontiguousarray(block * 0.02).view(np.uint32) >> 16).astype(np.uint16).tofile(file)


def timed(path: Path, is_counted: bool) -> dict[str, float | str]:
    """Run the command once. RuntimeError with its last line where it fails."""
    command = ["-c", WITH_COUNTS, str(path)] if is_counted else ["-m", "raretokens", "measure", str(path)]
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    environment = {**os.environ, **dict.fromkeys(names, str(THREADS)), "OMP_WAIT_POLICY": "PASSIVE"}
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run([sys.executable, *command], env=environment, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().split("\n")[-1])
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
    return {
        "seconds": round(time.monotonic() - begun, 1),
        "processor_seconds": round(processor, 1),
        "peak_MB": round(used.ru_maxrss / 1000),
        "machine": f"{platform.machine()}, {THREADS} threads",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=256_000)
    parser.add_argument("--width", type=int, default=4_096)
    parser.add_argument("--counts", action="store_true")
    parser.add_argument("--out", type=Path, help="a CSV file: rows that are not measured now stay in it")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "generated.safetensors"
        generate(path, given.rows, given.width)
        row = {"rows": given.rows, "width": given.width, "counts": "yes" if given.counts else "no"}
        row |= timed(path, given.counts)
    print(*(f"{key} {value}" for key, value in row.items()), sep="  ")
    if given.out:
        keep([row], given.out, ("rows", "width", "counts"))


if __name__ == "__main__":
    main()
