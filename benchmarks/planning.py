"""Seconds of a training step as planned, beside those measured on this CPU: two model configs of each task.

    OMP_NUM_THREADS=1 python benchmarks/planning.py [--out benchmarks/planning-cpu.csv]
    python benchmarks/planning.py --device cuda --out benchmarks/planning-cuda.csv                     # on a GPU, full steps
    python benchmarks/planning.py --card benchmarks/card-cuda.csv --out benchmarks/planning-cuda.csv   # measures nothing
    python benchmarks/planning.py --again --out benchmarks/planning-cuda.csv                           # measures nothing

On a CPU, the plan (raretokens.pipeline.planning.duration) gets rates that ceilings.py measures on this machine, instead of
those of a card. Each round measures the rates and then some steps, so that other work on the machine disturbs both alike.
Seconds are those of the processor with one thread, float32, maximum likelihood, on random text, without the preparation of
batches. Ratios are medians.

On a GPU, the plan is that of the card's data sheet, as `raretokens plan` prints it. Steps have their full size and precision.
Models are not compiled, and seconds are those of the clock, so nothing else may run.

--card compares the plan for a GPU with steps that card.py, or a training, has measured there. It also compares the memory.
--again compares the present plan with the seconds that the CSV has from a GPU.
"""

import csv
import re
import sys
import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path
from statistics import median

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from ceilings import ceilings
from measuring import clock, guarded, machine, parser, peak_bytes, reset_peak
from records import keep
from workload import ROOT

from raretokens import tasks
from raretokens.errors import UserError
from raretokens.models.registry import build
from raretokens.objectives.registry import build as build_objective
from raretokens.pipeline.config import load
from raretokens.pipeline.jobs import train_job
from raretokens.pipeline.machine.cards import Card, card
from raretokens.pipeline.planning.data import Text, text
from raretokens.pipeline.planning.duration import EAGER_START, START, Rates, random_batches, step_seconds
from raretokens.pipeline.planning.operations import plain_facts
from raretokens.pipeline.planning.plan import plan
from raretokens.training.batches import Batch, Prepared
from raretokens.training.config import Execution, TrainJob
from raretokens.training.criterion import Criterion
from raretokens.training.loop import Trainer
from raretokens.training.run import float32_products
from raretokens.training.saving import Outputs
from raretokens.training.state import State

CASES = (  # params.yaml, task, run, most tokens of a step
    ("params.yaml", "lm", "mle", 1024), ("scales/small/params.yaml", "lm", "wide-mle", 2048),
    ("params.yaml", "nmt", "base-mle", 1024), ("scales/small/params.yaml", "nmt", "base-mle", 4096),
    ("params.yaml", "recurrent", "awd-mle", 700), ("scales/small/params.yaml", "recurrent", "awd-mle", 700),
    ("params.yaml", "classify", "cls-mle", 4096), ("scales/small/params.yaml", "classify", "cls-imdb-mle", 8000),
    ("params.yaml", "images", "cnn", 4096), ("scales/small/params.yaml", "images", "cnn", 50176),
    ("params.yaml", "skipgram", "sg-mle", 640), ("scales/small/params.yaml", "skipgram", "sg-wiki-mle", 640),
)  # fmt: skip
ON_GPU = (  # params.yaml, task, run; models that a GPU does not compile, or that are too small for it
    ("scales/small/params.yaml", "nmt", "base-1k-mle"), ("scales/small/params.yaml", "nmt", "base-mle"),
    ("scales/small/params.yaml", "lm", "small-1k-mle"), ("scales/small/params.yaml", "lm", "mle"),
    ("scales/small/params.yaml", "recurrent", "awd-mle"), ("scales/small/params.yaml", "recurrent", "mos-mle"),
    ("scales/paper/params.yaml", "recurrent", "awd-wt2-mle"), ("scales/paper/params.yaml", "recurrent", "mos-wt2-mle"),
    ("scales/small/params.yaml", "classify", "cls-imdb-mle"), ("scales/paper/params.yaml", "classify", "cls-imdb-mle"),
    ("scales/small/params.yaml", "images", "cnn"), ("scales/small/params.yaml", "skipgram", "sg-wiki-mle"),
    ("scales/paper/params.yaml", "skipgram", "sg-enwik9-mle"),
)  # fmt: skip
OF_CARD = (  # params.yaml, task, run, vocabulary, case of card-cuda.csv; the plan does not know shared cards
    ("scales/paper/params.yaml", "lm", "gpt2m-mle", 44256, "paper/lm/gpt2m mle"),
    ("scales/paper/params.yaml", "lm", "gpt2m-agg", 44256, "paper/lm/gpt2m agg"),
    ("scales/paper/params.yaml", "lm", "gpt2m-mle", 44256, "paper/lm/gpt2m mle compiled"),
    ("scales/paper/params.yaml", "lm", "gpt2m-agg", 44256, "paper/lm/gpt2m agg compiled"),
    ("scales/paper/params.yaml", "lm", "gpt2m-agg", 44256, "paper/lm/gpt2m agg compiled alone"),
    ("scales/paper/params.yaml", "lm", "lmw6-mle", 267744, "paper/lm/lmw6 agg compiled alone"),
    ("scales/paper/params.yaml", "nmt", "base-mle", 40624, "paper/nmt/base mle alone"),
    ("scales/paper/params.yaml", "nmt", "base-mle", 40624, "paper/nmt/base mle without cuDNN attention alone"),
    ("scales/paper/params.yaml", "recurrent", "awd-wt2-mle", 33280, "paper/recurrent/awd-wt2 mle alone"),
    ("scales/small/params.yaml", "nmt", "base-1k-mle", 7800, "small/nmt/base-1k-mle-4 alone"),
    ("scales/small/params.yaml", "nmt", "base-1k-mle", 7800, "small/nmt/base-1k-mle-4 shared"),
    ("scales/small/params.yaml", "lm", "small-1k-mle", 7800, "small/lm/small-1k-mle shared"),
    ("scales/small/params.yaml", "lm", "mle", 7800, "small/lm/half-rate-mle shared"),
    ("scales/small/params.yaml", "lm", "32k-mle", 27376, "small/lm/32k-mle shared"),
)
MICRO_BATCH = 2048
SMALLEST_ROWS = 64
MICRO_BATCHES = 10  # of the step that shows what each costs beside its kernels
STEPS, WARM_UP = 3, 2  # timed steps of a round, and steps before the first
GPU_MICRO_BATCH, GPU_STEPS, GPU_WARM_UP = 65536, 20, 10  # on a GPU, whose steps are short
ATTENTION = 0.5  # of the rate of products, because those of attention are small


def rates(rounds: int) -> Rates:
    """Rates that this CPU reaches, on which kernels and their starts follow each other.

    Rates of products are those of a layer with its gradient. The Python of a model makes a start longer, by as much as on a GPU.
    """
    found = {one.case: one.value for one in ceilings("cpu", rounds)}
    products = found["product float32 1024x256x1024 with its gradient"]
    plain = Rates(
        products={"float32": products},
        attention=ATTENTION,
        bandwidth=found["sum of two"],
        convolutions=found["convolution float32 with its gradient"] / products,
        exponentials=found["exponentials"],
        random=found["random numbers"],
        pooling=found["pooling"],
        start=EAGER_START / START * found["start of one with its gradient"],
        convolution_start=found["start of a convolution"],
        shortest=0.0,
        is_ahead=False,
        step=0.0,
    )
    step, micro_batch = fixed_seconds(plain)
    return replace(plain, step=step, micro_batch=micro_batch)


@cache
def smallest() -> tuple[TrainJob, Trainer, Prepared]:
    """A language model of width 4 that trains on 16 tokens; it takes little more than the fixed cost of a step."""
    parameters = load(ROOT / "params.yaml")
    job = shortened(train_job(parameters, parameters.run("lm", "mle")), 16)
    shape = {**job.run.shape, "layers": 1, "width": 4, "heads": 1, "feedforward": 4}
    job = job.replaced(run=job.run.replaced(shape=shape), training=job.training.replaced(tokens_per_step=16, block=16))
    return job, trainer(job, SMALLEST_ROWS, Path(tempfile.mkdtemp())), prepared(job, SMALLEST_ROWS)


def fixed_seconds(plain: Rates) -> tuple[float, float]:
    """Seconds of a training step, and of each micro-batch, that no kernel takes.

    They are those of the smallest model, without its planned kernels, in steps of one micro-batch and of MICRO_BATCHES.
    """
    job, own, step = smallest()
    size = sum(one.numel() for one in own.model.parameters())
    parts = step_seconds(job, SMALLEST_ROWS, size, MICRO_BATCH, "cpu", plain)
    optimizer = parts.pop("optimizer")
    several = step._replace(batches=step.batches * MICRO_BATCHES)
    measure(own, step, WARM_UP)
    one, all_of_them = measure(own, step, 10 * STEPS), measure(own, several, STEPS)
    added = (all_of_them - one) / (MICRO_BATCHES - 1)  # by a further micro-batch
    return max(one - added - optimizer, 0.0), max(added - sum(parts.values()), 0.0)


def measure(own: Trainer, step: Prepared, times: int, device: str = "cpu") -> float:
    """Return the mean seconds of a training step."""
    start = clock(device)
    for _ in range(times):
        own._train_step(step)
    return (clock(device) - start) / times


def prepared(job: TrainJob, rows: int, device: str = "cpu", finds_rows: bool = False) -> Prepared:
    """A training step on random text, ready to train on; finds_rows: as the Trainer has it on a GPU."""
    batches = random_batches(job, rows, MICRO_BATCH if device == "cpu" else GPU_MICRO_BATCH, device=device)
    if finds_rows:
        batches = [batch.with_rows(rows) for batch in batches]
    counts = torch.ones(rows, dtype=torch.int64)
    return Prepared(counts, max(sum(map(_targets, batches)), 1), batches)


def _targets(batch: Batch) -> int:
    return int(batch.targets.sum()) if batch.targets.dtype == torch.bool else batch.targets.numel()


def trainer(job: TrainJob, rows: int, folder: Path, device: str = "cpu") -> Trainer:
    """The Trainer of the run with maximum likelihood; its data are given with each step."""
    run, training = job.run, job.training
    AcceleratorState._reset_state(reset_partial_state=True)  # else every run would have the precision of the first
    float32_products(torch.device(device))
    torch.manual_seed(1)
    model = build(run.architecture, run.shape, rows, training.block)
    objective = build_objective("mle", plain_facts(job, rows, model.embedding.shape[1]))
    criterion = getattr(tasks.load(run.task), "criterion", Criterion)(model, objective)
    outputs, state = Outputs(folder / "out", {}), State(folder / "state")
    execution = Execution(micro_batch=MICRO_BATCH if device == "cpu" else GPU_MICRO_BATCH)
    precision = "bf16" if device != "cpu" and training.precision == "bfloat16" else "no"
    accelerator = Accelerator(mixed_precision=precision, cpu=device == "cpu")
    return Trainer(run.name, model, objective, training, None, None, state, execution, accelerator, outputs,
                   criterion=criterion)  # fmt: skip


def compare(path: str, task: str, name: str, tokens: int, rounds: int) -> dict:
    """A row of the table: planned and measured seconds, and the median of the rounds' ratios."""
    parameters = load(ROOT / path)
    job = shortened(train_job(parameters, parameters.run(task, name)), tokens)
    rows = text(parameters, job.run.tokens, (ROOT / path).parent / "data/tokens").rows
    with tempfile.TemporaryDirectory() as folder:
        own, step = trainer(job, rows, Path(folder)), prepared(job, rows)
        size = sum(one.numel() for one in own.model.parameters())
        measure(own, step, WARM_UP)
        planned, measured = [], []
        for _ in range(rounds):
            planned.append(step_seconds(job, rows, size, MICRO_BATCH, "cpu", rates(1)))
            measured.append(measure(own, step, STEPS))
    ratios = [sum(parts.values()) / took for parts, took in zip(planned, measured, strict=True)]
    middle = planned[sorted(range(rounds), key=ratios.__getitem__)[rounds // 2]]
    return {
        "run": f"{'small' if 'small' in path else 'demo'}/{task}/{name}",
        "model": job.run.model,
        "parameters": size,
        "tokens_per_step": job.training.tokens_per_step,
        "planned_seconds": f"{median(sum(parts.values()) for parts in planned):.4f}",
        "measured_seconds": f"{median(measured):.4f}",
        "planned_to_measured": f"{median(ratios):.2f}",
        "lowest": f"{min(ratios):.2f}",
        "highest": f"{max(ratios):.2f}",
        "largest_parts": largest(middle),
        "machine": machine("cpu"),
    }


def compare_on_gpu(path: str, task: str, name: str, rounds: int) -> dict:
    """A row of the table for this machine's GPU, on which nothing else runs."""
    parameters = load(ROOT / path)
    job = train_job(parameters, parameters.run(task, name))
    rows, gpu = text(parameters, job.run.tokens, (ROOT / path).parent / "data/tokens").rows, card()
    base = reset_peak("cuda")
    with tempfile.TemporaryDirectory() as folder:
        own = trainer(job, rows, Path(folder), "cuda")
        step = prepared(job, rows, "cuda", own.criterion.reads_rows)
        measure(own, step, GPU_WARM_UP, "cuda")
        times = [measure(own, step, GPU_STEPS, "cuda") for _ in range(rounds)]
    peak = f"{(peak_bytes('cuda') - base) / 1e9:.1f}"
    note = f"{job.training.precision}, {job.training.tokens_per_step} tokens a step, {rows} types, not compiled; nothing else ran"
    return gpu_row(f"{path.split('/')[1]}/{task}/{name}", job, rows, True, times, peak, gpu, note)


def again(row: dict[str, str]) -> dict[str, str]:
    """A row that a GPU has measured, with the present plan."""
    ((path, task, name),) = (one for one in ON_GPU if f"{one[0].split('/')[1]}/{one[1]}/{one[2]}" == row["run"])
    parameters, found = load(ROOT / path), re.search(r"(\d+) types", row["note"])
    times = [float(row[column]) for column in ("shortest_seconds", "measured_seconds", "longest_seconds")]
    job, rows = train_job(parameters, parameters.run(task, name)), int(found[1]) if found else 0
    return gpu_row(row["run"], job, rows, True, times, row["measured_GB"], card(row["machine"]), row["note"])


def gpu_row(
    run: str, job: TrainJob, rows: int, is_eager: bool, times: list[float], peak: str, gpu: Card, note: str
) -> dict[str, str]:  # fmt: skip
    """A row of the table for a GPU; times: seconds of a step in each round, peak: measured GB."""
    planned = replace(plan(job, Text(rows, None), "cuda"), is_eager=is_eager)
    parts = planned.seconds(gpu)
    total = sum(parts.values())
    return {
        "run": run,
        "model": job.run.model,
        "parameters": str(planned.parameters),
        "tokens_per_step": str(job.training.tokens_per_step),
        "planned_seconds": f"{total:.4f}",
        "measured_seconds": f"{median(times):.5f}",
        "shortest_seconds": f"{min(times):.5f}",
        "longest_seconds": f"{max(times):.5f}",
        "planned_to_measured": f"{total / median(times):.2f}",
        "lowest": f"{total / max(times):.2f}",
        "highest": f"{total / min(times):.2f}",
        "largest_parts": largest(parts),
        "planned_GB": f"{planned.device_bytes / 1e9:.1f}",
        "measured_GB": peak,
        "machine": gpu.name,
        "note": note,
    }


def largest(parts: dict[str, float]) -> str:
    """The three largest parts of a planned step with their shares."""
    kinds = sorted(parts.items(), key=lambda pair: -pair[1])[:3]
    return ", ".join(f"{kind} {took / sum(parts.values()):.0%}" for kind, took in kinds)


def of_card(path: str, task: str, name: str, vocabulary: int, case: str, table: list[dict], gpu: str) -> dict:
    """A row of the table for a case that was measured on a GPU; lowest and highest ratio of its rounds."""
    parameters = load(ROOT / path)
    job = train_job(parameters, parameters.run(task, name))
    rows = [row for row in table if row["case"] == case]
    timed = [row for row in rows if row["quantity"] == "time of a step"]
    times = [float(row["value"]) for row in timed]
    peak = next((row["value"] for row in rows if row["quantity"] == "peak memory"), "")
    peak = peak and f"{float(peak) / 1e3:.1f}"
    return gpu_row(case, job, vocabulary, "compiled" not in case, times, peak, card(gpu), timed[0]["note"])


def shortened(job: TrainJob, tokens: int) -> TrainJob:
    training = job.training
    tokens = min(training.tokens_per_step, max(tokens, training.block))
    return job.replaced(training=training.replaced(tokens_per_step=tokens, precision="float32"))


def on_gpu(runs: str | None, rounds: int, out: Path | None) -> None:
    """Measure all models of ON_GPU, or those of `runs`; an error is printed, and stops no other model."""
    for path, task, name in ON_GPU:
        if runs and f"{path.split('/')[1]}/{task}/{name}" not in runs.split(","):
            continue
        try:
            row = compare_on_gpu(path, task, name, rounds)
        except Exception as error:
            print(f"{path} {task} {name}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
            continue
        print(row, flush=True)
        if out:
            keep([row], out, ("run",))


def main() -> None:
    options = parser(__doc__, rounds=5)
    options.add_argument("--runs", help="such as demo/lm/mle,small/nmt/base-mle; default: all")
    options.add_argument("--card", type=Path, help="CSV of card.py: compare the plan with its rows, and measure nothing")
    options.add_argument("--again", action="store_true", help="plan the rows of --out from a GPU again, and measure nothing")
    options.add_argument("--gpu", default="h200", help="of --card; default: h200")
    arguments = options.parse_args()
    if arguments.card:
        with open(arguments.card, encoding="utf-8", newline="") as file:
            table = list(csv.DictReader(file))
        rows = [of_card(*case, table, arguments.gpu) for case in OF_CARD]
        if arguments.out:
            keep(rows, arguments.out, ("run",))
        return print(*rows, sep="\n")
    if arguments.again:
        if not arguments.out or not arguments.out.is_file():
            raise UserError(f"--again: --out is {arguments.out}; allowed: a CSV file that --device cuda has written")
        with open(arguments.out, encoding="utf-8", newline="") as file:
            rows = [row for row in csv.DictReader(file) if row["run"] not in {one[-1] for one in OF_CARD}]
        rows = [again(row) for row in rows]
        keep(rows, arguments.out, ("run",))
        return print(*rows, sep="\n")
    torch.set_num_threads(1)
    if arguments.device == "cuda":
        return on_gpu(arguments.runs, arguments.rounds, arguments.out)
    for path, task, name, tokens in CASES:
        label = f"{'small' if 'small' in path else 'demo'}/{task}/{name}"
        if arguments.runs and label not in arguments.runs.split(","):
            continue
        row = compare(path, task, name, tokens, arguments.rounds)
        print(row, flush=True)
        if arguments.out:
            keep([row], arguments.out, ("run",))


if __name__ == "__main__":
    guarded(main)
