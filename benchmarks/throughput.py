"""Tokens a second and model-FLOP utilisation of our training loop beside a plain one of the same size on the same machine.

    python benchmarks/throughput.py [--sizes paper/lm/gpt2m,...] [--out benchmarks/throughput-cuda.csv]

Ours is the Trainer with its data loader and an objective; plain_loop.py says what the plain loop is. Both train on the same
micro-batches. `-compiled` is with torch.compile. Each method runs in a process of its own; the best round counts. A GPU's seconds
are those of the clock, a CPU's those of the processor (all threads), which other work disturbs least. `utilisation` is of the
peak in the card's data sheet, `matmul_share` of what a large matrix product reaches here; memory is all that training takes.
Rows that are not measured stay in the file.
"""

import json
import platform
import tempfile
from collections.abc import Iterator
from pathlib import Path

import plain_loop
import torch
from accelerate import Accelerator
from measuring import apart, clock, guarded, machine, parser, peak_bytes, reset_peak
from records import keep
from workload import Workload

from raretokens.errors import UserError
from raretokens.objectives.registry import build
from reproduction.pipeline.settings import find_card
from reproduction.training.batches import PreparedSteps
from reproduction.training.criterion import Carried
from reproduction.training.example_batches import Pairs
from reproduction.training.loop import Trainer
from reproduction.training.models.registry import build as build_model
from reproduction.training.models.registry import flops_per_token
from reproduction.training.recipe import Execution
from reproduction.training.saving import Outputs
from reproduction.training.state import State
from reproduction.training.token_batches import Blocks, Columns, columns_of

SIZES = {"cpu": "demo/lm/demo", "cuda": "paper/lm/gpt2m,paper/lm/lm6,paper/nmt/base,paper/nmt/big"}
METHODS = "plain,plain-compiled,mle,mle-compiled,agg,agg-compiled"
MICRO_BATCH = {"cpu": 2048, "cuda": 16384}  # tokens
WARM_UP = 5  # updates, in which compilation happens
EDGE = {"cpu": 1024, "cuda": 8192}  # of the large matrix product


def text(work: Workload, updates: int, folder: Path) -> Blocks | Columns | Pairs:
    """An epoch of about so many updates."""
    tokens, block = work.training.tokens_per_step, work.training.block
    if work.task == "recurrent":
        return Columns(work.ids(tokens * updates + 1), block, columns_of(tokens, block), seed=0)
    if work.task == "lm":
        return Blocks(work.ids(tokens * updates + 1), block, tokens)
    return Pairs(work.write_pairs(folder, "train", tokens * updates), block, tokens)


def ours(
    name: str, work: Workload, data: Blocks | Columns | Pairs, execution: Execution, device: str, folder: Path
) -> Trainer:
    """The Trainer of the pipeline with an objective, on that text; its state is in folder/<name>."""
    epoch, training = data.steps_per_epoch, work.training
    counts = sum(torch.from_numpy(data.counts(data.step(number), work.vocabulary)) for number in range(epoch))
    model = build_model(work.architecture, work.shape, work.vocabulary, training.block)
    objective = build(name, work.facts(counts, epoch))
    return Trainer(
        name,
        model,
        objective,
        training,
        data,
        data,
        State(folder / name),
        execution,
        Accelerator(
            mixed_precision="bf16" if training.precision == "bfloat16" else "no",
            cpu=device == "cpu",
            dynamo_backend="inductor" if execution.compile else "no",
        ),
        Outputs(folder / "out", {}),
        criterion=Carried(model, objective) if work.task == "recurrent" else None,
    )


def trained(trainer: Trainer, updates: int) -> Iterator[int]:
    """Target tokens of each update when it is done: `Trainer.run` less validation, snapshots and checkpoints."""
    for prepared in trainer._prepared(range(updates)):
        _, tokens = trainer._train_step(prepared)
        trainer.step += 1
        yield tokens


def measure(method: str, size: str, tokens: int, precision: str, device: str, updates: int) -> dict:
    """Target tokens and floating-point operations a second of some updates, peak bytes, and a matrix product's rate."""
    work = Workload.named(size, tokens, precision)
    name, _, how = method.partition("-")
    base = reset_peak(device)
    with tempfile.TemporaryDirectory() as folder:
        data = text(work, WARM_UP + updates, Path(folder))
        if name == "plain":
            prepared = PreparedSteps(data, work.vocabulary, MICRO_BATCH[device], device=device)
            steps = plain_loop.trained(work, [prepared[i].batches for i in range(WARM_UP + updates)], bool(how), device)
        else:
            execution = Execution(micro_batch=MICRO_BATCH[device], compile=bool(how))
            steps = trained(ours(name, work, data, execution, device, Path(folder)), WARM_UP + updates)
        for _ in range(WARM_UP):
            next(steps)
        start = clock(device)
        done = sum(steps)
        seconds = clock(device) - start
    rate, peak = done / seconds, peak_bytes(device) - base
    flops = rate * flops_per_token(work.architecture, work.shape, work.vocabulary, round(data.length))
    return {"tokens": rate, "flops": flops, "bytes": peak, "matmul": matmul(device, precision)}


def matmul(device: str, precision: str) -> float:
    """Floating-point operations a second of a large matrix product."""
    edge, times = EDGE[device], []
    a = torch.randn(edge, edge, device=device, dtype=getattr(torch, precision))
    for _ in range(10):
        start = clock(device)
        a @ a
        times.append(clock(device) - start)
    return 2 * edge**3 / min(times)


def processor(device: str) -> str:
    """The machine; of an x86 processor also whether it has instructions for bfloat16: vectors, and AMX's matrices."""
    if device == "cuda" or platform.machine() != "x86_64":
        return machine(device)
    found = f"{machine(device)}, {'with' if torch.cpu._is_avx512_bf16_supported() else 'without'} avx512_bf16"
    return found + (" and AMX" if torch.cpu._is_amx_tile_supported() else "")


def compare(
    size: str, methods: list[str], tokens: int | None, device: str, precision: str | None, updates: int, rounds: int
) -> list[dict]:
    own = Workload.named(size, tokens).training
    precision = precision or (own.precision if device == "cuda" else "float32")
    best: dict[str, dict] = {}
    for _ in range(rounds):
        for method in methods:
            new = apart(__file__, method, size, own.tokens_per_step, precision, device, updates)
            if "tokens" not in best.get(method, {}) or new.get("tokens", 0) > best[method]["tokens"]:
                best[method] = new
    card = find_card(machine(device)) if device == "cuda" else None
    plain = best.get("plain", {}).get("tokens")
    rows = []
    for method, values in best.items():
        row = {"size": size, "tokens_per_update": own.tokens_per_step, "precision": precision, "method": method}
        row |= dict.fromkeys(("tokens_per_second", "speed_to_plain", "utilisation", "matmul_share", "MB"), "")
        if "error" not in values:
            row |= {"tokens_per_second": round(values["tokens"]), "MB": round(values["bytes"] / 1e6)}
            row |= {"speed_to_plain": f"{values['tokens'] / plain:.3f}" if plain else ""}
            row |= {"utilisation": f"{values['flops'] / card.flops:.3f}" if card else ""}
            row |= {"matmul_share": f"{values['flops'] / values['matmul']:.3f}"}
        rows.append(row | {"note": values.get("error", ""), "machine": processor(device)})
        print(rows[-1], flush=True)
    return rows


def main() -> None:
    options = parser(__doc__, rounds=2)
    options.add_argument("--sizes", help="SCALE/TASK/SIZE,... of params.yaml; default: the device's list")
    options.add_argument(
        "--methods", default=METHODS, help=f"plain or an objective, each also -compiled; default: {METHODS}"
    )
    options.add_argument("--tokens", type=int, help="of an update; default: as params.yaml says")
    options.add_argument(
        "--precision", choices=("float32", "bfloat16"), help="default: as params.yaml says; float32 on a CPU"
    )
    options.add_argument("--updates", type=int, default=30, help="that are timed in a round")
    arguments = options.parse_args()
    if arguments.one:
        print(json.dumps(measure(*json.loads(arguments.one))))
        return
    if arguments.device == "cpu" and torch.cuda.is_available():
        raise UserError(
            "--device cpu: the Trainer takes the GPU that it sees; set CUDA_VISIBLE_DEVICES= to measure the CPU"
        )
    device, methods = arguments.device, arguments.methods.split(",")
    for size in (arguments.sizes or SIZES[device]).split(","):
        rows = compare(
            size, methods, arguments.tokens, device, arguments.precision, arguments.updates, arguments.rounds
        )
        if arguments.out:  # after each size: a killed run keeps what it has
            keep(rows, arguments.out, ("size", "precision", "method", "machine"))


if __name__ == "__main__":
    guarded(main)
