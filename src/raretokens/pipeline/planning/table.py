"""Output of a plan as a text table and as CSV."""

import math
from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from raretokens import csv_files
from raretokens.literals import literal
from raretokens.models.shapes import MODELS
from raretokens.pipeline.machine.cards import Card
from raretokens.pipeline.planning.data import Need
from raretokens.pipeline.planning.plan import Planned
from raretokens.pipeline.planning.refusal import CERTAIN

WIDTH = 114


def row(planned: Planned, card: Card, utilisation: float | None = None) -> dict[str, object]:
    """Return a CSV row for a run: memory and disk in GB, FLOPs of the whole training.

    utilisation: share of the peak that is assumed instead of the estimate from counted operations.
    """
    need, hours = planned.device_bytes, planned.hours(card, utilisation)
    parts = planned.seconds(card)
    products = sum(parts.get(kind, 0.0) for kind in ("product", "attention", "convolution")) / sum(parts.values())
    return {
        "run": planned.name,
        "model": planned.run.model,
        "objective": planned.run.objective,
        "parameters": planned.parameters,
        "vocabulary": planned.text.rows,
        "steps": planned.training.steps,
        "tokens_per_step": planned.training.tokens_per_step,
        "tokens": planned.tokens,
        "flops": f"{planned.flops:.3e}",
        "attention_flops": f"{planned.attention_flops:.3e}",
        "gpu": card.name,
        "gpus": planned.processes,
        "hours": f"{hours:.4g}",
        "step_seconds": f"{3600 * hours / planned.training.steps:.4g}",
        "utilisation": f"{utilisation or planned.utilisation(card):.3f}",
        "products_share": f"{products:.3f}",
        "micro_batch": planned.micro_batch,
        "gpu_gb": f"{need / 1e9:.1f}",
        "host_gb": f"{planned.host_bytes / 1e9:.1f}",
        "disk_gb": f"{planned.disk_left / 1e9:.2f}",
        "disk_while_training_gb": f"{planned.disk_while_training / 1e9:.2f}",
        "fits": _fits(need, card.memory),
    }


def _fits(need: float, there: float) -> str:
    if math.isnan(need):
        return "unknown"
    return "yes" if need <= there else "tight" if CERTAIN * need <= there else "no"


def to_csv(rows: Sequence[dict]) -> str:
    cells = (["" if value is None else str(value) for value in row.values()] for row in rows)
    return csv_files.to_csv(cells, list(rows[0]))


SHOWN = {  # heading -> field of a row
    "run": "run", "parameters": "parameters", "tokens": "tokens", "FLOPs": "flops", "time": "hours",
    "micro-batch": "micro_batch", "GPU GB": "gpu_gb", "host GB": "host_gb", "disk GB": "disk_gb", "fits": "fits",
}  # fmt: skip


def show(rows: Sequence[dict], planned: Sequence[Planned], card: Card, utilisation: float | None = None) -> None:
    """Print the table, its totals, and the assumptions of the estimate."""
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for heading in SHOWN:
        table.add_column(heading, justify="left" if heading in ("run", "fits") else "right", no_wrap=True)
    for line in rows:
        table.add_row(*(_cell(field, line[field]) for field in SHOWN.values()))
    console = Console(width=WIDTH, highlight=False)  # fixed, since a pipe has no width
    console.print(table)
    hours = sum(one.hours(card, utilisation) for one in planned)
    cards = planned[0].processes
    how = "estimated from counted operations and the data sheet's peaks and bandwidth"
    if utilisation:
        how = f"for {utilisation:.0%} of the peak"
    texts = {one.run.tokens: one.text.disk for one in planned}
    left = sum(one.disk_left for one in planned) + sum(texts.values())
    console.print(f"{len(planned)} runs, {duration(hours)} on {cards} x {card.name} ({card.memory / 1e9:.0f} GB), {how}. "
                  f"Peaks: {card.flops / 1e12:g} TFLOP/s in bfloat16, {card.float32 / 1e12:g} in float32.")  # fmt: skip
    for architecture in sorted({one.run.architecture for one in planned}):
        if remark := literal(MODELS / f"{architecture}.py", "TIME"):
            console.print(f"{architecture}: {remark}.")
    passing = max(one.disk_while_training for one in planned)
    console.print(f"Disk: what the runs write takes {left / 1e9:.1f} GB (with their token files), {passing / 1e9:.1f} GB "
                  "more while the largest run trains; DVC's cache holds each output once more.")  # fmt: skip


def show_data(needs: Sequence[Need]) -> None:
    """Print the needs of the stages before training."""
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), title="Before training, on two cores", title_justify="left")
    for heading in ("stage", "time", "host GB", "disk GB"):
        table.add_column(heading, justify="left" if heading == "stage" else "right", no_wrap=True)
    for need in needs:
        sizes = (f"{value / 1e9:.1f}" for value in (need.memory, need.disk))
        cells = (need.stage, "unknown" if math.isnan(need.hours) else duration(need.hours), *sizes)
        table.add_row(*(word.replace("nan", "unknown") for word in cells))
    Console(width=WIDTH, highlight=False).print(table)


def duration(hours: float) -> str:
    """Format hours as hours:minutes, as minutes below one hour, and as seconds below one minute."""
    if math.isnan(hours):
        return "unknown"
    seconds = round(3600 * hours)
    if seconds < 60:
        return f"{seconds} s" if seconds else "< 1 s"
    minutes = round(60 * hours)
    return f"{minutes // 60}:{minutes % 60:02d} h" if minutes >= 60 else f"{minutes} min"


def _cell(field: str, value: object) -> str:
    if field == "hours":
        return duration(float(value))
    if field == "parameters":
        return f"{value / 1e6:.1f} M"
    if field == "tokens":
        return f"{value / 1e9:.2f} G" if value >= 1e9 else f"{value / 1e6:.1f} M"
    return f"{value:,}" if isinstance(value, int) else str(value)
