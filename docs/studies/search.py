"""Does validation loss prefer the reported strength of an objective? As many trials for each one, on a seed without results.

    cd scales/small && python ../../docs/studies/search.py            # all trials, each about 10 minutes on a core
    cd scales/small && python ../../docs/studies/search.py agg cosreg

A trial is a whole training of the language model of the setting `small` on seed 4, with the job file of the run that TRIALS names
and other options. What is finished stands in search-<scale>.csv and is not trained again; a trial that was stopped goes on.
Validation chooses a checkpoint in each trial (`keep: best`), whose NLL the table has, in nats. Test text is not read.
search-lowest-<scale>.csv compares the best trial of each method, and that with the strength of our runs, with maximum likelihood.
A strength has one seed, so the study also prints how far the NLL of two seeds of a method differs: the standard deviation between
the three seeds of the reports, pooled over methods. Maximum likelihood has weight decay and Adam's beta2
(0.98 in the config, and 0.999 by Ember's default).
"""

import json
import math
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from shared import FOLDER, print_table, write_table

from raretokens import csv_files
from reproduction import paths
from reproduction.pipeline.job_file import read_job_file
from reproduction.pipeline.parameters_file import load

SEED = 4
COLUMNS = ["objective", "options", "valid_nll", "perplexity", "update"]
TIMES = (0.1, 0.3, 1.0, 3.0, 10.0)
TRIALS: dict[str, list[dict]] = {  # run whose job file is taken -> options; the run's own are those that it does not name
    "mle": [{}, {"beta2": 0.999}, *({"weight_decay": decay} for decay in (0.001, 0.003, 0.03, 0.1))],  # of the training
    "agg": [{"alpha": alpha} for alpha in (0.01, 0.02, 0.03, 0.04, 0.05)],  # the paper's grid
    "agps": [{"mu1": 100.0 * times, "mu2": 25.0 * times} for times in TIMES],
    "cosreg": [{"gamma": times} for times in TIMES],
    "ember": [{"beta2": beta} for beta in (0.9, 0.98, 0.99, 0.999, 0.9999)],
}
OURS = {"agg": "alpha=0.03", "agps": "mu1=100 mu2=25", "cosreg": "gamma=1", "ember": "beta2=0.999"}  # strengths of our runs
LOWEST = ["objective", "trials", "lowest at", "perplexity", "our runs", "their perplexity"]
STAGES = Path(__file__).resolve().parents[2] / "stages"


def named(options: dict) -> str:
    return " ".join(f"{name}={value:g}" for name, value in options.items())


def train(run: str, options: dict) -> dict:
    """Train a trial from the job file of a run, and return what was kept."""
    content = json.loads(read_job_file("train-lm", run))
    name = "-".join(["search", run, *(f"{value:g}" for value in options.values())])
    job = content["job"]
    if run == "mle":  # no objective's options, but the optimizer's
        beta1, beta2 = job["training"]["betas"]
        job["training"] |= {"betas": [beta1, options.get("beta2", beta2)]}
        job["training"] |= {key: value for key, value in options.items() if key != "beta2"}
        options = {}
    job["run"] |= {"name": name, "seed": SEED, "options": job["run"]["options"] | options}
    paths.job("train-lm", name).write_text(json.dumps(content), encoding="utf-8")
    subprocess.run([STAGES / "run", "1", "train", "lm", name], check=True)
    return json.loads((paths.trained("lm", name) / "training.json").read_text(encoding="utf-8"))["kept"]


def lowest(known: dict[tuple[str, str], dict]) -> Iterator[list[str]]:
    """Yield the rows of LOWEST for the methods whose trials are all there. Perplexities are changes from maximum likelihood."""
    start = float(known["mle", ""]["valid_nll"])
    for run, ours in OURS.items():
        nll = {named(options): known.get((run, named(options))) for options in TRIALS[run]}
        if all(nll.values()):
            change = {name: math.expm1(float(row["valid_nll"]) - start) for name, row in nll.items()}
            best = min(change, key=change.get)
            yield [run, str(len(change)), best, f"{100 * change[best]:+.2f} %", ours, f"{100 * change[ours]:+.2f} %"]


def seed_deviation() -> float:
    """Return the standard deviation of the kept NLL between the seeds of a method, pooled over those with three seeds."""
    sets = []
    for run in TRIALS:
        curves = [paths.CURVES / "lm" / f"{name}.csv" for name in (run, f"{run}-2", f"{run}-3")]
        if all(curve.exists() for curve in curves):
            sets.append([min(float(nll) for nll in csv_files.read_csv(curve)["valid_nll"] if nll) for curve in curves])
    return float(np.sqrt(np.mean(np.var(sets, axis=1, ddof=1))))


def main(runs: list[str]) -> None:
    table = f"search-{load().scale}"
    file = FOLDER / f"{table}.csv"
    rows = csv_files.read_csv(file).to_dict("records") if file.exists() else []
    known = {(row["objective"], row["options"]): row for row in rows}
    trials = [(run, named(options), options) for run, grid in TRIALS.items() for options in grid]
    for run, name, options in trials:
        if (run, name) not in known and run in (runs or TRIALS):
            kept = train(run, options)
            nll = kept["valid_nll"]
            values = run, name, f"{nll:.4f}", f"{math.exp(nll):.2f}", str(kept["update"])
            known[run, name] = dict(zip(COLUMNS, values, strict=True))
            write_table(table, COLUMNS, [known[trial[:2]] for trial in trials if trial[:2] in known])
    write_table(f"search-lowest-{load().scale}", LOWEST, lowest(known))
    print_table(COLUMNS, [[row[column] for column in COLUMNS] for row in known.values()], 20)
    print(f"standard deviation of valid_nll between seeds: {seed_deviation():.4f}")


if __name__ == "__main__":
    main(sys.argv[1:])
