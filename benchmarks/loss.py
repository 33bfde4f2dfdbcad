"""Time and memory of the loss alone, forward and backward: ours beside plain, built-in and published constructions.

    python benchmarks/loss.py [--quick] [--out benchmarks/loss-cpu.csv]

Each method runs in a process of its own, one after another, in several rounds; the best round counts. Time is that of the
processor (CPU) or of the device (CUDA events); memory is the peak above the inputs. Ratios are to `plain` and to
`ungated` of the same run.
"""

import argparse
import csv
import json
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from raretokens.training.gated_cross_entropy import Gate, gated_linear_cross_entropy

SHAPES = [(m, n, d) for n in (8192, 44256) for d in (512, 1024) for m in (2048, 8192)]
RARE_SHARE = 0.2  # of the types; their targets are about 2 % of the positions


def inputs(m: int, n: int, d: int, device: str) -> tuple[Tensor, Tensor, Tensor, Gate]:
    torch.manual_seed(0)
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    hidden = torch.randn(m, d, device=device, dtype=dtype, requires_grad=True)
    weight = (torch.randn(n, d, device=device) * d**-0.5).requires_grad_()
    targets = (torch.rand(m, device=device) ** 6 * n).long()  # falling frequency
    rare = torch.arange(n, device=device) >= n * (1 - RARE_SHARE)
    gates = torch.where(rare, torch.rand(n, device=device), 1.0)
    return hidden, weight, targets, Gate(rare, gates, gates.sqrt())


def plain(hidden: Tensor, weight: Tensor, targets: Tensor, _: Gate) -> Tensor:
    return F.cross_entropy(F.linear(hidden, weight.to(hidden.dtype)).float(), targets, reduction="sum")


compiled = torch.compile(plain)


def builtin(hidden: Tensor, weight: Tensor, targets: Tensor, _: Gate) -> Tensor:
    return F.linear_cross_entropy(hidden, weight.to(hidden.dtype), targets, reduction="sum")


def ungated(hidden: Tensor, weight: Tensor, targets: Tensor, _: Gate) -> Tensor:
    with torch.autocast(hidden.device.type, dtype=torch.bfloat16, enabled=hidden.is_cuda):
        return gated_linear_cross_entropy(hidden, weight, targets).loss


def gated(hidden: Tensor, weight: Tensor, targets: Tensor, gate: Gate) -> Tensor:
    with torch.autocast(hidden.device.type, dtype=torch.bfloat16, enabled=hidden.is_cuda):
        return gated_linear_cross_entropy(hidden, weight, targets, gate=gate).loss


def three_logits(hidden: Tensor, weight: Tensor, targets: Tensor, gate: Gate) -> Tensor:
    """The construction of AGG's Eq. 9 and 10: one ungated term for the states, two gated ones for the table."""
    weight = weight.to(hidden.dtype)
    column, is_rare = targets[:, None], gate.rare[targets]
    own = torch.zeros(len(targets), len(weight), device=hidden.device).scatter_(1, column, 1.0)
    loss = F.cross_entropy(F.linear(hidden, weight.detach()).float(), targets, reduction="sum")
    for vector, rows in ((gate.nonrare_targets, ~is_rare), (gate.rare_targets, is_rare)):
        entries = torch.where(own.bool(), 1.0, vector)
        through = F.linear(hidden.detach(), weight).float()
        mixed = entries * through + (1 - entries) * through.detach()
        loss = loss + (F.cross_entropy(mixed, targets, reduction="none") * rows).sum()
    return loss


def liger(hidden: Tensor, weight: Tensor, targets: Tensor, _: Gate) -> Tensor:
    try:
        from liger_kernel.transformers import LigerFusedLinearCrossEntropyLoss
    except ModuleNotFoundError:
        sys.exit("liger_kernel is not installed")  # it is optional
    if not hidden.is_cuda:
        sys.exit("liger_kernel runs on a GPU only")
    return LigerFusedLinearCrossEntropyLoss(reduction="sum")(weight.to(hidden.dtype), hidden, targets)


METHODS: dict[str, Callable[[Tensor, Tensor, Tensor, Gate], Tensor]] = {
    f.__name__: f for f in (plain, builtin, ungated, gated, three_logits, liger)
} | {"compiled": compiled}


def measure(method: str, m: int, n: int, d: int, device: str, repeats: int) -> dict[str, float]:
    """Seconds and peak bytes above the inputs of one forward and backward pass (the best of a few)."""
    hidden, weight, targets, gate = inputs(m, n, d, device)

    def once() -> None:
        hidden.grad = weight.grad = None
        METHODS[method](hidden, weight, targets, gate).backward()

    once()  # compiles and warms up
    times, peaks = [], []
    for _ in range(repeats):
        hidden.grad = weight.grad = None
        before, start = reset_peak(device), clock(device)
        once()
        times.append(clock(device) - start)
        peaks.append(peak_bytes(device) - before)
    return {"seconds": min(times), "bytes": max(peaks)}


def clock(device: str) -> float:
    if device == "cuda":
        torch.cuda.synchronize()
        return time.perf_counter()
    return time.process_time()


def reset_peak(device: str) -> int:
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        return torch.cuda.memory_allocated()
    Path("/proc/self/clear_refs").write_text("5")
    return status("VmRSS")


def peak_bytes(device: str) -> int:
    return torch.cuda.max_memory_allocated() if device == "cuda" else status("VmHWM")


def status(key: str) -> int:
    lines = Path("/proc/self/status").read_text().split("\n")
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(key))


def compare(shapes: list[tuple[int, int, int]], methods: list[str], device: str, rounds: int) -> list[dict]:
    rows = []
    for m, n, d in shapes:
        repeats = 1 if m * n * d > 1e11 and device == "cpu" else 4  # minutes each
        best: dict[str, dict] = {}
        for _ in range(rounds):
            for method in methods:
                command = [sys.executable, __file__, "--one", json.dumps([method, m, n, d, device, repeats])]
                done = subprocess.run(command, capture_output=True, text=True)
                if done.returncode:
                    reason = "out of memory" if done.returncode < 0 else done.stderr.strip().split("\n")[-1][:80]
                    best[method] = {"error": reason}
                    continue
                found = json.loads(done.stdout)
                if found["seconds"] < best.get(method, found)["seconds"] or method not in best:
                    best[method] = found
        for method, found in best.items():
            row = {"positions": m, "vocabulary": n, "width": d, "method": method, "device": device}
            if "error" in found:
                row["note"] = found["error"]
            else:
                row |= {"seconds": f"{found['seconds']:.3f}", "MB": round(found["bytes"] / 1e6)}
                for name in ("plain", "ungated"):
                    base = best.get(name, {})
                    if "seconds" in base:
                        row[f"time_to_{name}"] = f"{found['seconds'] / base['seconds']:.3f}"
                        row[f"memory_to_{name}"] = f"{found['bytes'] / base['bytes']:.3f}"
            rows.append(row)
            print(row, flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--quick", action="store_true", help="the two smallest shapes, one round")
    parser.add_argument("--shapes", help="positions x vocabulary x width, as 8192x44256x512,...; default: all eight")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(measure(*json.loads(arguments.one))))
        return
    device = "cuda" if torch.cuda.is_available() else "cpu"
    shapes = [(512, 8192, 128), (2048, 8192, 128)] if arguments.quick else SHAPES
    if arguments.shapes:
        shapes = [tuple(map(int, shape.split("x"))) for shape in arguments.shapes.split(",")]
    rows = compare(shapes, arguments.methods.split(","), device, 1 if arguments.quick else arguments.rounds)
    if arguments.out:
        columns = list(dict.fromkeys(key for row in rows for key in row))
        machine = (
            torch.cuda.get_device_name()
            if device == "cuda"
            else f"{platform.machine()}, {torch.get_num_threads()} threads"
        )
        with open(arguments.out, "w", newline="") as file:
            writer = csv.DictWriter(file, [*columns, "machine"], lineterminator="\n")
            writer.writeheader()
            writer.writerows({**row, "machine": machine} for row in rows)


if __name__ == "__main__":
    main()
