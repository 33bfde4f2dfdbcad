"""The parts of card.py: each is a generator of rows (case, quantity, value, unit, note), yielded as they are measured.

A case that fails yields a row with its error, and the next case follows. Training steps are those of the pipeline's Trainer with
the settings of a GPU: micro-batches of 65,536 tokens and two workers. Modules that may be missing are imported in the part that
needs them.
"""

import gc
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import torch
from attention_kernels import AttentionKernels
from ceilings import ceilings as measured_ceilings
from measuring import clock, peak_bytes, reset_peak
from synchronisations import Synchronising
from torch.autograd import DeviceType
from workload import Workload

from raretokens.loss import chunks
from raretokens.objectives.registry import known

MICRO_BATCH, WORKERS = 65536, 2  # as machine.yaml has them on a GPU
WARM_UP, TIMED = 3, 5  # training steps before and within a round
TINY = {"lm": "demo/lm/demo", "nmt": "demo/nmt/base", "recurrent": "demo/recurrent/awd"}
TINY_TOKENS = 128
# Model config, objective, whether compiled. The pipeline compiles Transformers on a GPU, so these cases come first.
SIZES = (
    ("paper/lm/gpt2m", "mle", "compiled"), ("paper/lm/gpt2m", "agg", "compiled"), ("paper/nmt/base", "mle", "compiled"),
    ("paper/nmt/base", "agg", "compiled"), ("paper/recurrent/awd-wt2", "mle"), ("paper/nmt/big", "mle", "compiled"),
    ("paper/lm/lmw6", "agg", "compiled"), ("paper/lm/gpt2m", "mle"), ("paper/lm/gpt2m", "agg"), ("paper/nmt/base", "mle"),
)  # fmt: skip
LOSSES = (
    "products", "compiled", "gated", "ungated", "liger", "cce", "three_logits", "plain", "builtin_chunked", "builtin",
)  # fmt: skip
SHAPES = ((8192, 44256, 1024), (32768, 44256, 1024), (8192, 44256, 512), (8192, 8192, 1024), (8192, 267744, 512))
KERNELS = 40  # rows of the profile


class Row(NamedTuple):
    case: str
    quantity: str
    value: float | str
    unit: str = ""
    note: str = ""


@dataclass(frozen=True)
class Setting:
    device: str  # cuda or cpu
    is_tiny: bool  # demo models and small shapes
    rounds: int

    def work(self, size: str, **changes: Any) -> Workload:
        """The model config of that name, or the small one of its task."""
        if self.is_tiny:
            return Workload.recorded(TINY[size.split("/")[1]], TINY_TOKENS, changes.get("precision"))
        return Workload.recorded(size, **changes)


def each(cases: Iterable[Any], measure: Callable[..., Iterator[Row]], setting: Setting) -> Iterator[Row]:
    """Yield the rows of all cases; the error of a case is its row."""
    for case in cases:
        try:
            yield from measure(setting, case)
        except (Exception, SystemExit) as error:
            yield Row(_name(case), "error", "", note=f"{type(error).__name__}: {error}"[:500])
        gc.collect()
        if setting.device == "cuda":
            torch.cuda.empty_cache()


def _name(case: Any) -> str:
    return " ".join(map(str, case)) if isinstance(case, tuple) else str(case)


def ceilings(setting: Setting) -> Iterator[Row]:
    for one in measured_ceilings(setting.device, setting.rounds, setting.is_tiny):
        yield Row(one.case, "rate" if "/" in one.unit else "time", f"{one.value:.4g}", one.unit)


def correctness(setting: Setting) -> Iterator[Row]:
    """Loss and gradients of each objective in bfloat16 beside those of float32 on the CPU."""
    return each(known(), _correct, setting)


def _correct(setting: Setting, name: str) -> Iterator[Row]:
    import correctness
    import step

    step.EPOCH = 3 if setting.is_tiny else 100
    for size in ("demo/lm/demo",) if setting.is_tiny else ("demo/lm/demo", "demo/nmt/base"):
        work = Workload.recorded(size, 64 if setting.is_tiny else correctness.TOKENS)
        row = correctness.row(name, size, work, setting.device)
        note = with_loss(f"loss {row['loss']}, CPU {row['loss_cpu']}; other weights {row['other_error']}")
        note += f"; right: {row['right']}"
        yield Row(f"{name} {size}", "error of the embedding's gradient", row["table_error"], "of its length", note)


def profile(setting: Setting) -> Iterator[Row]:
    """The kernels of one step of GPT-2 medium with AGG, those that take longest first; on a CPU its operations."""
    return each([("paper/lm/gpt2m", "agg", "compiled")], _profiled, setting)


def _profiled(setting: Setting, case: tuple[str, ...]) -> Iterator[Row]:
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as profiler

    is_cuda, (size, objective, *how) = setting.device == "cuda", case
    with tempfile.TemporaryDirectory() as folder:
        trainer = _trainer(setting, size, objective, Path(folder), compile=bool(how) and not setting.is_tiny)
        steps = _steps(trainer, WARM_UP + 1)
        for _ in range(WARM_UP):
            next(steps)
        with profiler(activities=[ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if is_cuda else [])]) as seen:
            next(steps)
            clock(setting.device)
    found = [(_own_time(one, is_cuda), one) for one in seen.key_averages() if not is_cuda or is_kernel(one)]
    total = sum(took for took, _ in found)
    yield Row("all operations", "own time", f"{total / 1e3:.3f}", "ms", with_loss("of the device" if is_cuda else "of the CPU"))
    for took, one in sorted(found, key=lambda pair: -pair[0])[:KERNELS]:
        yield Row(
            one.key[:120], "own time", f"{took / 1e3:.3f}", "ms", f"{one.count} calls, {took / max(total, 1e-9):.1%}"
        )


def is_kernel(event: Any) -> bool:
    """Whether the event is a kernel of the GPU. An operator that starts kernels has their time too, so it would count twice."""
    return event.device_type != DeviceType.CPU and not event.is_user_annotation


def _own_time(event: Any, is_cuda: bool) -> float:
    """Microseconds without those of operations that it calls."""
    return event.self_device_time_total if is_cuda else event.self_cpu_time_total


def synchronisations(setting: Setting) -> Iterator[Row]:
    """Waits of the host in one training step of four micro-batches, by objective."""
    return each(known(), _synchronised, setting)


def _synchronised(setting: Setting, name: str) -> Iterator[Row]:
    work = Workload.recorded("demo/lm/demo", 4 * TINY_TOKENS)
    with tempfile.TemporaryDirectory() as folder:
        trainer = _trainer(setting, work, name, Path(folder), micro_batch=TINY_TOKENS, workers=0)
        steps = _steps(trainer, 3)
        next(steps), next(steps)
        with Synchronising() as seen, _warned(setting.device) as warned:
            next(steps)
    note = ", ".join(f"{count} {kind}" for kind, count in seen.counts.most_common())
    note += f"; torch reports {len(warned)}" if setting.device == "cuda" else "; copies are not seen on a CPU"
    yield Row(name, "synchronisations", sum(seen.counts.values()), "a step", note)


def attention(setting: Setting) -> Iterator[Row]:
    """The attention kernels of a micro-batch. Torch's flash kernel takes no mask, and the math kernel is slow on a GPU."""
    return each([("paper/lm/gpt2m", "mle"), ("paper/nmt/base", "mle")], _attended, setting)


def _attended(setting: Setting, case: tuple[str, str]) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        trainer = _trainer(setting, *case, Path(folder), workers=0)
        batch = next(iter(trainer._prepared(range(1)))).batches[0]
        with AttentionKernels() as seen:
            trainer._losses(trainer.wrapped, batch)
    for (name, has_mask), count in seen.counts.items():
        yield Row(_name(case), name, count, "calls", "with a mask" if has_mask else "without a mask")
    is_fused = setting.device == "cpu" or all("math" not in name for name, _ in seen.counts) and seen.counts
    is_flash = setting.device == "cpu" or any(name.startswith(("flash", "cudnn")) for name, _ in seen.counts)
    right = "yes" if is_fused and is_flash else "no"
    yield Row(_name(case), "kernels", sum(seen.counts.values()), "calls", f"right: {right}; 0 is the math kernel")


class _warned:
    """A context in which torch's own reports of synchronisations on a GPU are collected."""

    def __init__(self, device: str) -> None:
        self.is_cuda, self.catcher = device == "cuda", warnings.catch_warnings(record=True)

    def __enter__(self) -> list:
        seen = self.catcher.__enter__()
        if self.is_cuda:
            warnings.simplefilter("always")
            torch.cuda.set_sync_debug_mode("warn")
        return seen

    def __exit__(self, *error: Any) -> None:
        if self.is_cuda:
            torch.cuda.set_sync_debug_mode("default")
        self.catcher.__exit__(*error)


def save(setting: Setting) -> Iterator[Row]:
    """How long a save of the state stops training, and how long its thread writes."""
    return each([("paper/lm/gpt2m", "agg")], _saved, setting)


def _saved(setting: Setting, case: tuple[str, str]) -> Iterator[Row]:
    from raretokens.training.saving import Clock, Saver

    with tempfile.TemporaryDirectory() as folder:
        trainer = _trainer(setting, *case, Path(folder))
        next(_steps(trainer, 1))
        with Saver(Clock(trainer.execution, 1, trainer.step), trainer.state, trainer.outputs) as trainer.saver:
            for number in range(1 + setting.rounds):
                begun = clock_on_the_wall(setting.device)
                trainer._save()
                waited = clock_on_the_wall(setting.device) - begun
                trainer.saver.wait()
                took = clock_on_the_wall(setting.device) - begun
                size = max(path.stat().st_size for path in trainer.state.path.glob("state-*"))
                note = f"{size / 1e6:.0f} MB, {'first' if number == 0 else 'later'} save"
                yield Row(_name(case), "training waits", f"{waited:.3f}", "s", note)
                yield Row(_name(case), "until written", f"{took:.3f}", "s", note)


def clock_on_the_wall(device: str) -> float:
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def loss(setting: Setting) -> Iterator[Row]:
    """Forward and backward pass of the loss alone, ours beside torch's, Liger's and CCE's, and the three products."""
    shapes = ((96, 300, 16),) if setting.is_tiny else SHAPES
    methods = (*LOSSES, "gated_eager") if setting.device == "cuda" else LOSSES
    return each([(*shape, method) for shape in shapes for method in methods], _lost, setting)


def with_loss(note: str) -> str:
    """Add to a note that the compiler of the loss failed, which this process notices in its first pass."""
    return note if chunks.FUSED else f"{note}; the loss without its compiled function"


def _lost(setting: Setting, case: tuple[int, int, int, str]) -> Iterator[Row]:
    import loss

    *shape, method = case
    # A number of types that changes within a process compiles to slower code for any number. In a training it never changes.
    torch._dynamo.reset()
    if setting.is_tiny:  # compilers take minutes there
        loss._compiled_plain = lambda: torch.compile(loss.plain, backend="eager")
    repeats, dtype = 1 if setting.is_tiny else 10, "bfloat16" if setting.device == "cuda" else "float32"
    note = lambda: with_loss(dtype) if method in ("gated", "ungated") else dtype  # noqa: E731
    for _ in range(setting.rounds):
        seconds = loss.measure(method, *shape, setting.device, dtype, repeats)["seconds"]
        yield Row(_name(case), "time", f"{seconds:.6f}", "s", note())
    taken = loss.measure(method, *shape, setting.device, dtype, 0)["bytes"]
    yield Row(_name(case), "memory", f"{taken / 1e6:.1f}", "MB", note())


def steps(setting: Setting) -> Iterator[Row]:
    """Time of a training step, tokens a second, utilisation of the data sheet's peak, and peak memory."""
    return each(SIZES, _stepped, setting)


def _stepped(setting: Setting, case: tuple[str, ...]) -> Iterator[Row]:
    from raretokens.models.registry import flops_per_token
    from raretokens.pipeline.machine.cards import find_card

    card = find_card(torch.cuda.get_device_name()) if setting.device == "cuda" else None
    timed, (size, objective, *how) = 1 if setting.is_tiny else TIMED, case
    base = reset_peak(setting.device)
    with tempfile.TemporaryDirectory() as folder:
        # Compilers take minutes on a CPU.
        trainer = _trainer(setting, size, objective, Path(folder), compile=bool(how) and not setting.is_tiny)
        training, work = trainer.training, setting.work(size)
        done = _steps(trainer, WARM_UP + setting.rounds * timed)
        for _ in range(WARM_UP):
            next(done)
        rates, note = [], with_loss(f"{training.precision}, {training.tokens_per_step} tokens a step")
        for _ in range(setting.rounds):
            start = clock(setting.device)
            tokens = sum(next(done) for _ in range(timed))
            seconds = clock(setting.device) - start
            rates.append(tokens / seconds)
            yield Row(_name(case), "time of a step", f"{seconds / timed:.5f}", "s", note)
        yield Row(_name(case), "peak memory", f"{(peak_bytes(setting.device) - base) / 1e6:.0f}", "MB", note)
    flops = median(rates) * flops_per_token(
        work.architecture, work.shape, work.vocabulary, round(trainer.data.length)
    )
    yield Row(_name(case), "target tokens", f"{median(rates):.0f}", "a second", note)
    yield Row(_name(case), "operations of the model", f"{flops:.4g}", "FLOP/s", note)
    if card:
        yield Row(_name(case), "utilisation", f"{flops / card.peak(training.precision):.4f}", "of the peak", note)


def decoding(setting: Setting) -> Iterator[Row]:
    """Sentences a second of beam search, transformers beside CTranslate2 on the same random weights."""
    types = ("float32", "bfloat16") if setting.device == "cuda" else ("float32",)
    cases = [(engine, name) for engine in ("transformers", "CTranslate2") for name in types]
    return each(cases, _decoded, setting)


def _decoded(setting: Setting, case: tuple[str, str]) -> Iterator[Row]:
    import decoding

    engine, name = case
    shape, sentences, longest = decoding.BASE, 48, 32
    if setting.device == "cuda":
        sentences, longest = 512, 64
    if setting.is_tiny:
        shape, sentences, longest = (1, 16, 2, 32, 64), 2, 3
    model, pieces, sources = decoding.base(sentences, shape)
    if engine == "transformers":
        other = decoding.marian(model).to(setting.device, getattr(torch, name))
        search = lambda: decoding.generated(other, sources, longest, 16384)  # noqa: E731
    else:
        search = _exported(model, pieces, sources, setting.device, name, longest)
    search()
    for _ in range(setting.rounds):
        begun = clock_on_the_wall(setting.device)
        search()
        seconds = clock_on_the_wall(setting.device) - begun
        yield Row(_name(case), "sentences", f"{sentences / seconds:.2f}", "a second", f"{sentences} sentences")


def _exported(model: Any, pieces: Any, sources: Any, device: str, name: str, longest: int) -> Callable[[], object]:
    import decoding

    from raretokens.evaluation.ctranslate2_models import export
    from raretokens.evaluation.translate import open_translator, search

    with tempfile.TemporaryDirectory() as folder:
        export(model, pieces, "relu", Path(folder))
        translator = open_translator(Path(folder), device, name, 1)
    rows = [[pieces[number] for number in source] for source in sources]
    return lambda: search(translator, rows, decoding.DECODING, longest, 16384)


def resume(setting: Setting) -> Iterator[Row]:
    """A training that stops after its third step and resumes, beside one that does not stop."""
    return each([("paper/lm/gpt2m", "agg"), ("paper/recurrent/awd-wt2", "mle")], _resumed, setting)


def _resumed(setting: Setting, case: tuple[str, str]) -> Iterator[Row]:
    from raretokens.training.saving import Clock, Saver

    last, middle, results = 6, 3, {}
    with tempfile.TemporaryDirectory() as name:
        for way, parts in (("whole", [range(last)]), ("resumed", [range(middle), range(middle, last)])):
            folder = Path(name) / way
            folder.mkdir()
            for numbers in parts:
                trainer = _trainer(setting, *case, folder)
                assert trainer.step == numbers.start, "the state was not found"
                for _ in _steps(trainer, numbers.stop):
                    pass
                with Saver(
                    Clock(trainer.execution, 1, trainer.step), trainer.state, trainer.outputs
                ) as trainer.saver:
                    trainer._save()
                results[way] = trainer.embedding.detach().float().cpu().clone()
                trainer.state._lock.close()
                del trainer
                gc.collect()
    whole, resumed = results["whole"], results["resumed"]
    yield Row(_name(case), "largest difference", f"{(whole - resumed).abs().max():.3g}", "of an entry", "0 is the same")


def _trainer(
    setting: Setting,
    size: str | Workload,
    objective: str,
    folder: Path,
    micro_batch: int = MICRO_BATCH,
    workers: int = WORKERS,
    compile: bool = False,
) -> Any:
    """The Trainer of a model config; its state is in `folder`, from which it resumes."""
    import throughput
    from accelerate.state import AcceleratorState

    from raretokens.training.run import float32_products

    AcceleratorState._reset_state(reset_partial_state=True)  # else every case would have the precision of the first
    torch.manual_seed(1)
    float32_products(torch.device(setting.device))
    work = setting.work(size) if isinstance(size, str) else size
    # As stages/run has them in translation: attention of cuDNN is the last choice, and one graph serves all sizes.
    torch.backends.cuda.enable_cudnn_sdp(work.task != "nmt")
    torch.compiler.config.dynamic_sources = "L.'args'." if work.task == "nmt" else ""
    data = throughput.text(work, WARM_UP + TIMED, folder)
    execution = throughput.Execution(micro_batch=micro_batch, workers=workers, compile=compile)
    return throughput.ours(objective, work, data, execution, setting.device, folder)


def _steps(trainer: Any, stop: int) -> Iterator[int]:
    """Run training steps up to number `stop`; yield the target tokens of each."""
    for prepared in trainer._prepared(range(trainer.step, stop)):
        row, tokens = trainer._train_step(prepared)
        trainer.step += 1
        trainer.state.log.append(row)
        yield tokens
