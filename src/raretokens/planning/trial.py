"""Two updates and an evaluation of a run at its full size, by the train stage itself, on random ids."""

import csv
import json
import os
import subprocess
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from raretokens.config import Parameters, Run, UserError
from raretokens.planning import memory, random_tokens
from raretokens.planning.penalty import from_the_start
from raretokens.planning.plan import Planned
from raretokens.training import machine, timing
from raretokens.training.batches import SMALLEST_BUCKET

UPDATES = 2
SPARE = 4  # times the tokens of an update that the training text holds


@dataclass(frozen=True)
class Trial:
    run: str
    device: str
    parameters: int
    tokens_per_update: int
    peak_mb: int
    planned_mb: int
    loss_1: float
    loss_2: float
    evaluation: float
    seconds: float


def shrunk(planned: Planned, tokens: int | None) -> Planned:
    """The same run with updates of at most so many tokens; model and vocabulary stay as they are."""
    training = planned.training
    tokens = min(tokens or training.tokens_per_update, training.tokens_per_update)
    if planned.run.task == "nmt":
        tokens = max(tokens, SMALLEST_BUCKET)
    block = min(training.block, tokens)
    training = training.model_copy(update={"tokens_per_update": tokens, "block": block})
    micro = max(min(planned.step.micro_batch, tokens), block)
    step = replace(planned.step, micro_batch=micro, length=block, is_accumulated=micro < tokens, snapshots=0.0)
    return replace(planned, training=training, step=step)


def attempt(parameters: Parameters, planned: Planned) -> Trial:
    """Run the train stage in a process and a folder of its own. Raises UserError with the stage's last words if it fails."""
    run, root = planned.run, Path(parameters.root).resolve()
    with tempfile.TemporaryDirectory(prefix="raretokens-") as name:
        folder = Path(name)
        _prepare(folder, parameters, planned)
        command = [str(root / "stages/run"), str(parameters.threads), "train", run.task, run.name]
        start = time.monotonic()
        with open(folder / "output", "w+", encoding="utf-8") as output:
            process = subprocess.Popen(command, cwd=folder, stdout=output, stderr=subprocess.STDOUT)
            _, status, usage = os.wait4(process.pid, 0)
        seconds = time.monotonic() - start
        if os.waitstatus_to_exitcode(status):
            raise UserError(f"{run.task}/{run.name}: {_last_words(folder / 'output')}")
        losses, evaluation = results(folder / "data/runs" / run.task / run.name)
        need = memory.on_device(planned.step)
        if planned.step.device == "cuda":
            need.pop("program")  # the peak is that of tensors
        return Trial(
            run=f"{run.task}/{run.name}",
            device=planned.step.device,
            parameters=planned.parameters,
            tokens_per_update=planned.training.tokens_per_update,
            peak_mb=round(_peak(folder, run, usage.ru_maxrss) / 1e6),
            planned_mb=round(memory.total(need) / 1e6),
            loss_1=losses[0],
            loss_2=losses[1],
            evaluation=evaluation,
            seconds=round(seconds, 1),
        )


def _prepare(folder: Path, parameters: Parameters, planned: Planned) -> None:
    """params.yaml with this run alone, machine.yaml, and random token files."""
    run, training, step = planned.run, planned.training, planned.step
    longest, sides = (training.block, 2) if run.task == "nmt" else (None, 1)
    splits = {"train": sides * SPARE * training.tokens_per_update, "valid": sides * step.micro_batch}
    random_tokens.write(folder / "data/tokens" / run.tokens, planned.text.rows, splits, longest)
    (folder / "params.yaml").write_text(yaml.safe_dump(tree(parameters, planned)), encoding="utf-8")
    (folder / "data/scratch").mkdir(parents=True)
    (folder / machine.FILE).write_text(f"micro_batch: {step.micro_batch}\n", encoding="utf-8")


def tree(parameters: Parameters, planned: Planned) -> dict:
    """params.yaml of the trial: this run alone, so many updates, an evaluation after the last."""
    run, training, whole = planned.run, planned.training, parameters.model_dump(mode="json")
    instead = {"updates": UPDATES, "tokens_per_update": training.tokens_per_update}
    rest = {"block": training.block, "warmup": UPDATES, "validate_every": UPDATES, "validation_tokens": None}
    whole[run.task]["training"].update(instead | rest | {"snapshot_every": UPDATES})
    whole[run.task]["sizes"] = {run.size: whole[run.task]["sizes"][run.size] | instead}
    line = from_the_start(whole["runs"][run.task][run.name])
    whole["runs"] = {"lm": {}, "nmt": {}} | {run.task: {run.name: line}}
    return whole | {"curves": {"lm": [], "nmt": []}}


def results(folder: Path) -> tuple[list[float], float]:
    """Losses of the updates and NLL of the evaluation; training stops by itself on a loss that is not finite."""
    with open(folder / "log.tsv", encoding="utf-8", newline="") as file:
        losses = [float(row["loss"]) for row in csv.DictReader(file, delimiter="\t")]
    summary = json.loads((folder / "training.json").read_text(encoding="utf-8"))
    return losses, summary["kept"]["valid_nll"]


def _peak(folder: Path, run: Run, resident: int) -> float:
    """Bytes: of the GPU as the stage recorded it, else the largest resident memory of its process (kB)."""
    recorded = json.loads((folder / timing.FOLDER / f"{run.task}-{run.name}.json").read_text(encoding="utf-8"))
    return recorded.get("peak_memory_bytes") or resident * 1024


def _last_words(output: Path) -> str:
    lines = output.read_text(encoding="utf-8", errors="replace").split("\n")
    return next((line for line in reversed(lines) if line.strip()), "the train stage ended without a word")
