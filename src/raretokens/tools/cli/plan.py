"""plan and check: what runs need, and a try of their full size."""

import argparse
import sys
from dataclasses import asdict
from pathlib import Path

from raretokens.errors import UserError
from raretokens.pipeline.config import load
from raretokens.pipeline.jobs import training
from raretokens.pipeline.machine.cards import card
from raretokens.pipeline.machine.settings import device as own_device
from raretokens.pipeline.planning import data, refusal, table, trial
from raretokens.pipeline.planning.data import text
from raretokens.pipeline.planning.plan import UTILISATION, Planned, plan, select
from raretokens.tasks.parameters import Parameters
from raretokens.tools.cli.alpha import shares
from raretokens.training.config import TrainJob as Job

CPU_GB = 16.0


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the commands to the parser."""
    one = commands.add_parser("plan", help="parameters, tokens, FLOPs, hours, memory and disk of every run")
    one.set_defaults(act=show_plan)
    one.add_argument("runs", nargs="*", metavar="RUN", help="such as gpt2m-agg or lm/gpt2m-agg; default: all")
    one.add_argument("--gpu", help="name of a card; default: the one that torch sees, else h200")
    one.add_argument("--gpus", type=_positive(int), default=1, help="cards that share a run")
    one.add_argument("--utilisation", type=_positive(float), default=UTILISATION, help="share of the peak that is used")
    one.add_argument("--csv", type=Path, help="write the plan to this file, - for standard output")
    one.add_argument("--check", action="store_true", help="exit 1, a line each, where a run does not fit the card named "
                     "by --gpu, else this machine")  # fmt: skip
    one = commands.add_parser("check", help="two updates and an evaluation of each run at full size, on random ids")
    one.set_defaults(act=try_runs)
    one.add_argument("runs", nargs="*", metavar="RUN")
    one.add_argument("--tokens", type=_positive(int), help="smaller updates, for a CPU; model and vocabulary stay full")
    one.add_argument("--memory", type=_positive(float), default=CPU_GB, help="GB that a CPU may use (16)")
    one.add_argument("--csv", type=Path, help="write the rows to this file")


def _positive(kind: type) -> object:
    def read(value: str) -> float:
        number = kind(value)
        if number <= 0:
            raise argparse.ArgumentTypeError(f"{value} is not allowed: should be more than 0")
        return number

    return read


def show_plan(arguments: argparse.Namespace) -> None:
    parameters = load()
    jobs = _selected(parameters, arguments.runs)
    if arguments.check:
        return _check(parameters, jobs, arguments)
    chosen = card(arguments.gpu)
    planned = [_plan(parameters, job, "cuda", arguments.gpus) for job in jobs]
    rows = [table.row(one, chosen, arguments.gpus, arguments.utilisation) for one in planned]
    if str(arguments.csv) == "-":
        return table.write_csv(rows, sys.stdout)
    if arguments.csv:
        return table.save(rows, arguments.csv)
    if not arguments.runs:
        table.show_data([*data.needs(parameters)])
    table.show(rows, planned, chosen, arguments.gpus, arguments.utilisation)
    for line in filter(None, map(shares, jobs)):
        print(line)
    return None


def _selected(parameters: Parameters, names: list[str]) -> list[Job]:
    return select((training(parameters, run) for run in parameters.every_run()), names)


def _plan(parameters: Parameters, job: Job, device: str, processes: int = 1) -> Planned:
    return plan(job, text(parameters, job.run.tokens), device, processes)


def _check(parameters: Parameters, jobs: list[Job], arguments: argparse.Namespace) -> None:
    """Raise UserError with a line for each thing that does not fit."""
    device, chosen = ("cuda", card(arguments.gpu)) if arguments.gpu else (own_device(), None)
    planned = [_plan(parameters, job, device, arguments.gpus) for job in jobs]
    lacking = []
    for one in planned:
        free = refusal.available(one.run)
        if chosen:  # another machine, of which only the disk is this one's
            free = refusal.Resources(float("inf"), free.disk, chosen.memory)
        lacking += refusal.shortfalls(one, free)
    lacking += refusal.shared_shortfalls(planned, refusal.available())
    if not arguments.runs and not chosen:
        lacking += refusal.data_shortfalls(data.needs(parameters), refusal.available())
    if lacking:
        raise UserError("\n".join(lacking))
    print(f"{len(jobs)} runs fit")


def try_runs(arguments: argparse.Namespace) -> None:
    parameters = load()
    device, rows, failed = own_device(), [], []
    for job in _selected(parameters, arguments.runs):
        planned = trial.shrunk(_plan(parameters, job, device), arguments.tokens)
        name, need = planned.step.name, planned.step.device_bytes
        free = refusal.available()
        limit = free.device or min(arguments.memory * 1e9, free.host)
        if need > limit:
            print(f"{name}  skipped: needs about {need / 1e9:.1f} GB, {limit / 1e9:.1f} GB are there", flush=True)
            continue
        try:
            done = trial.attempt(Path(parameters.root).resolve(), parameters.threads, planned)
        except UserError as error:
            failed.append(str(error))
            print(f"failed: {error}", flush=True)
            continue
        rows.append(asdict(done))
        print("  ".join(f"{key} {value}" for key, value in rows[-1].items()), flush=True)
        if arguments.csv:
            table.save(rows, arguments.csv)
    if failed:
        raise UserError(f"{len(failed)} of {len(failed) + len(rows)} runs failed")
