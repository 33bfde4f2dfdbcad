"""What only a GPU shows: ceilings, kernels and waits of training steps, saves, steps of the paper scale's models, and resume.

    python benchmarks/card.py [--parts steps,resume] [--rounds 3] [--out benchmarks/card-cuda.csv]

Each part is a generator of rows. Training steps are those of the pipeline's Trainer with the settings of a GPU: micro-batches
of 65,536 tokens and two workers. Rows are added to the CSV file as they are measured. An error of a case is a row, and the
next case follows. correctness.py, loss.py and decoding.py measure the rest of what a GPU runs.
"""

import csv
import gc
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import throughput
import torch
from accelerate.state import AcceleratorState
from attention_kernels import AttentionKernels
from ceilings import ceilings as measured_ceilings
from measuring import clock, guarded, parser, peak_bytes, reset_peak
from synchronisations import Synchronising
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity
from torch.profiler import profile as profiler
from workload import Workload

from raretokens.errors import UserError
from raretokens.loss import chunks
from raretokens.objectives.registry import known
from reproduction.pipeline.settings import find_card
from reproduction.training.models.registry import flops_per_token
from reproduction.training.run import float32_products
from reproduction.training.saving import Clock, Saver

MICRO_BATCH, WORKERS = 65536, 2  # as machine.yaml has them on a GPU
WARM_UP, TIMED = 3, 5  # training steps before and within a round
# Model config, objective, whether compiled. The pipeline compiles Transformers on a GPU, so these cases come first.
SIZES = (
    ("paper/lm/gpt2m", "mle", "compiled"), ("paper/lm/gpt2m", "agg", "compiled"), ("paper/nmt/base", "mle", "compiled"),
    ("paper/nmt/base", "agg", "compiled"), ("paper/recurrent/awd-wt2", "mle"), ("paper/nmt/big", "mle", "compiled"),
    ("paper/lm/lmw6", "agg", "compiled"), ("paper/lm/gpt2m", "mle"), ("paper/lm/gpt2m", "agg"), ("paper/nmt/base", "mle"),
)  # fmt: skip
WAIT_TOKENS = 128  # of a micro-batch in which synchronisations are counted
KERNELS = 40  # rows of the profile
COLUMNS = ["part", "case", "quantity", "value", "unit", "note"]


class Row(NamedTuple):
    case: str
    quantity: str
    value: float | str
    unit: str = ""
    note: str = ""


def ceilings(_case: str, rounds: int, device: str) -> Iterator[Row]:
    """What the card reaches at most."""
    for one in measured_ceilings(device, rounds):
        yield Row(one.case, "rate" if "/" in one.unit else "time", f"{one.value:.4g}", one.unit)


def profile(case: tuple[str, ...], _rounds: int, device: str) -> Iterator[Row]:
    """The kernels of one training step, those that take longest first."""
    size, objective, *how = case
    with tempfile.TemporaryDirectory() as folder:
        trainer = _trainer(Workload.named(size), objective, Path(folder), device, is_compiled=bool(how))
        steps = _steps(trainer, WARM_UP + 1)
        for _ in range(WARM_UP):
            next(steps)
        with profiler(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as seen:
            next(steps)
            clock(device)
    found = [(one.self_device_time_total, one) for one in seen.key_averages() if is_kernel(one)]
    total = sum(took for took, _ in found)
    yield Row("all operations", "own time", f"{total / 1e3:.3f}", "ms", with_loss("of the device"))
    for took, one in sorted(found, key=lambda pair: -pair[0])[:KERNELS]:
        note = f"{one.count} calls, {took / max(total, 1e-9):.1%}"
        yield Row(one.key[:120], "own time", f"{took / 1e3:.3f}", "ms", note)


def is_kernel(event: Any) -> bool:
    """Whether the event is a kernel of the GPU. An operator that starts kernels has their time too, so it would count twice."""
    return event.device_type != DeviceType.CPU and not event.is_user_annotation


def synchronisations(name: str, _rounds: int, device: str) -> Iterator[Row]:
    """Waits of the host in one training step of four micro-batches."""
    work = Workload.named("demo/lm/demo", 4 * WAIT_TOKENS)
    with tempfile.TemporaryDirectory() as folder:
        steps = _steps(_trainer(work, name, Path(folder), device, micro_batch=WAIT_TOKENS, workers=0), 3)
        next(steps), next(steps)
        with Synchronising() as seen:
            next(steps)
    note = ", ".join(f"{count} {kind}" for kind, count in seen.counts.most_common())
    yield Row(name, "synchronisations", sum(seen.counts.values()), "a step", note)


def attention(case: tuple[str, str], _rounds: int, device: str) -> Iterator[Row]:
    """The attention kernels of a micro-batch. Torch's flash kernel takes no mask, and the math kernel is slow on a GPU."""
    size, objective = case
    with tempfile.TemporaryDirectory() as folder:
        trainer = _trainer(Workload.named(size), objective, Path(folder), device, workers=0)
        batch = next(iter(trainer._prepared(range(1)))).batches[0]
        with AttentionKernels() as seen:
            trainer._losses(trainer.wrapped, batch)
    for (name, has_mask), count in seen.counts.items():
        yield Row(_name(case), name, count, "calls", "with a mask" if has_mask else "without a mask")
    yield Row(_name(case), "kernels", sum(seen.counts.values()), "calls", "0 is the math kernel")


def save(case: tuple[str, str], rounds: int, device: str) -> Iterator[Row]:
    """How long a save of the state stops training, and how long its thread writes."""
    size, objective = case
    with tempfile.TemporaryDirectory() as folder:
        trainer = _trainer(Workload.named(size), objective, Path(folder), device)
        next(_steps(trainer, 1))
        with Saver(Clock(trainer.execution, 1, trainer.step), trainer.state, trainer.outputs) as trainer.saver:
            for number in range(1 + rounds):
                begun = _wall_clock(device)
                trainer._save()
                waited = _wall_clock(device) - begun
                trainer.saver.wait()
                took = _wall_clock(device) - begun
                written = max(path.stat().st_size for path in trainer.state.path.glob("state-*"))
                note = f"{written / 1e6:.0f} MB, {'first' if number == 0 else 'later'} save"
                yield Row(_name(case), "training waits", f"{waited:.3f}", "s", note)
                yield Row(_name(case), "until written", f"{took:.3f}", "s", note)


def steps(case: tuple[str, ...], rounds: int, device: str) -> Iterator[Row]:
    """Time of a training step, tokens a second, utilisation of the data sheet's peak, and peak memory."""
    size, objective, *how = case
    work, base = Workload.named(size), reset_peak(device)
    with tempfile.TemporaryDirectory() as folder:
        trainer = _trainer(work, objective, Path(folder), device, is_compiled=bool(how))
        training, done = trainer.training, _steps(trainer, WARM_UP + rounds * TIMED)
        for _ in range(WARM_UP):
            next(done)
        rates, note = [], with_loss(f"{training.precision}, {training.tokens_per_step} tokens a step")
        for _ in range(rounds):
            start = clock(device)
            tokens = sum(next(done) for _ in range(TIMED))
            seconds = clock(device) - start
            rates.append(tokens / seconds)
            yield Row(_name(case), "time of a step", f"{seconds / TIMED:.5f}", "s", note)
        yield Row(_name(case), "peak memory", f"{(peak_bytes(device) - base) / 1e6:.0f}", "MB", note)
    length = round(trainer.data.length)
    flops = median(rates) * flops_per_token(work.architecture, work.shape, work.vocabulary, length)
    yield Row(_name(case), "target tokens", f"{median(rates):.0f}", "a second", note)
    yield Row(_name(case), "operations of the model", f"{flops:.4g}", "FLOP/s", note)
    if card := find_card(torch.cuda.get_device_name()):
        yield Row(_name(case), "utilisation", f"{flops / card.peak(training.precision):.4f}", "of the peak", note)


def resume(case: tuple[str, str], _rounds: int, device: str) -> Iterator[Row]:
    """A training that stops after its third step and resumes, compared with one that does not stop."""
    size, objective = case
    results = {}
    with tempfile.TemporaryDirectory() as name:
        for way, parts in (("whole", [range(6)]), ("resumed", [range(3), range(3, 6)])):
            folder = Path(name) / way
            folder.mkdir()
            for numbers in parts:
                trainer = _trainer(Workload.named(size), objective, folder, device)
                assert trainer.step == numbers.start, "the state was not found"
                for _ in _steps(trainer, numbers.stop):
                    pass
                with Saver(Clock(trainer.execution, 1, trainer.step), trainer.state, trainer.outputs) as trainer.saver:
                    trainer._save()
                results[way] = trainer.embedding.detach().float().cpu().clone()
                trainer.state._lock.close()
                del trainer
                gc.collect()
    difference = (results["whole"] - results["resumed"]).abs().max()
    yield Row(_name(case), "largest difference", f"{difference:.3g}", "of an entry", "0 is the same")


PARTS: dict[str, tuple[Callable[[Any, int, str], Iterator[Row]], Iterable[Any]]] = {
    "ceilings": (ceilings, ["all"]),
    "profile": (profile, [("paper/lm/gpt2m", "agg", "compiled")]),
    "synchronisations": (synchronisations, known()),
    "attention": (attention, [("paper/lm/gpt2m", "mle"), ("paper/nmt/base", "mle")]),
    "save": (save, [("paper/lm/gpt2m", "agg")]),
    "steps": (steps, SIZES),
    "resume": (resume, [("paper/lm/gpt2m", "agg"), ("paper/recurrent/awd-wt2", "mle")]),
}


def rows_of(part: str, rounds: int, device: str = "cuda") -> Iterator[Row]:
    """Yield the rows of all cases of a part; the error of a case is its row."""
    measure, cases = PARTS[part]
    for case in cases:
        try:
            yield from measure(case, rounds, device)
        except (Exception, SystemExit) as error:
            yield Row(_name(case), "error", "", note=f"{type(error).__name__}: {error}"[:500])
        gc.collect()
        torch.cuda.empty_cache()


def with_loss(note: str) -> str:
    """Add to a note that the compiler of the loss failed, which this process notices in its first pass."""
    return note if chunks.FUSED else f"{note}; the loss without its compiled function"


def _name(case: Any) -> str:
    return " ".join(case) if isinstance(case, tuple) else str(case)


def _wall_clock(device: str) -> float:
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def _trainer(
    work: Workload,
    objective: str,
    folder: Path,
    device: str,
    micro_batch: int = MICRO_BATCH,
    workers: int = WORKERS,
    is_compiled: bool = False,
) -> Any:
    """The Trainer of a model config; its state is in `folder`, from which it resumes."""
    AcceleratorState._reset_state(reset_partial_state=True)  # else every case would have the precision of the first
    torch.manual_seed(1)
    float32_products(torch.device(device))
    # As stages/run has them in translation: attention of cuDNN is the last choice, and one graph serves all sizes.
    torch.backends.cuda.enable_cudnn_sdp(work.task != "nmt")
    torch.compiler.config.dynamic_sources = "L.'args'." if work.task == "nmt" else ""
    data = throughput.text(work, WARM_UP + TIMED, folder)
    execution = throughput.Execution(micro_batch=micro_batch, workers=workers, compile=is_compiled)
    return throughput.ours(objective, work, data, execution, device, folder)


def _steps(trainer: Any, stop: int) -> Iterator[int]:
    """Run training steps up to number `stop`; yield the target tokens of each."""
    for prepared in trainer._prepared(range(trainer.step, stop)):
        row, tokens = trainer._train_step(prepared)
        trainer.step += 1
        trainer.state.log.append(row)
        yield tokens


def main() -> None:
    options = parser(__doc__, rounds=3)
    options.add_argument("--parts", default=",".join(PARTS), help="default: all")
    arguments = options.parse_args()
    parts = arguments.parts.split(",")
    if unknown := sorted({*parts} - PARTS.keys()):
        raise UserError(f"--parts: {unknown[0]!r} is unknown; allowed: {', '.join(PARTS)}")
    if not torch.cuda.is_available():
        raise UserError("torch finds no GPU on this machine")
    path = arguments.out or Path("card-cuda.csv")
    is_new = not path.exists()
    with open(path, "a", encoding="utf-8", newline="", buffering=1) as file:
        writer = csv.writer(file, lineterminator="\n")
        if is_new:
            writer.writerow(COLUMNS)
        writer.writerow(["call", "", "started", time.strftime("%Y-%m-%dT%H:%M:%S"), "", f"torch {torch.__version__}"])
        for part in parts:
            for row in rows_of(part, arguments.rounds):
                writer.writerow([part, *row])
                print(part, *row, sep=" | ", flush=True)


if __name__ == "__main__":
    guarded(main)
