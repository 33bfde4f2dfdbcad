"""Does AGG keep total perplexity where as few targets are rare as in the papers? Is the order of methods the same at other rates?

    cd scales/small && python ../../docs/studies/rare_share.py

In the papers' language model 0.2 % of the test targets are rare, and 1.5 % in that of the small scale. The runs `32k-*` split the
same text into 27,374 types, of which 7 % are rare, so that 0.2 % of the test targets are rare. `mle`, `agg` and `ember` were also
trained at half and at twice the peak learning rate of the small scale, 0.002.

The study needs no trained model. It reads reports/runs/lm where a run has reports. Of the other runs it reads
rare-share-<scale>.csv and learning-rates-<scale>.csv. They have the values that the stages printed when each of
these runs was first trained, on a GPU, and neither weights nor score files were kept. P(rare) is the geometric mean over rare
targets, and the test perplexity is exp of the printed NLL. To make the reports of a run, here 32k-agg-2:

    cd scales/small && dvc repro score-lm@32k-agg-2 decompose-lm@32k-agg-2

The study writes ratios to maximum likelihood of the same seed to rare-share-effects-<scale>.csv and
learning-rates-effects-<scale>.csv. Intervals are those of claims, but over seeds alone, because resamples of the test
text need the predictions. `other targets` is the perplexity of targets that are not rare, which the total and the rare perplexity
imply. The last column has its ratio if one constant on the logits of all rare types led to the same perplexity of rare targets,
under the assumptions of reports/decomposition.md.
"""

import json
import math
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from shared import FOLDER, write_table

from raretokens import csv_files
from raretokens.claims.comparison import Comparison, Effect
from raretokens.claims.effect_text import effect_text, with_interval
from reproduction import paths
from reproduction.papers.load import load_declarations
from reproduction.papers.logit_bias import RARE_SHARE, cost_of_constant, implied, ratio_of_others
from reproduction.papers.task_scores import AllScores, TaskScores
from reproduction.pipeline.jobs import run_sheet
from reproduction.pipeline.parameters_file import load
from reproduction.pipeline.surroundings import root
from reproduction.run_sheet import Sheet

METRICS = {  # metric -> column
    "ppl.total": "total perplexity",
    "ppl.rare": "perplexity of rare targets",
    "mass.rare": "P(rare)",
    "ppl_within.rare": "perplexity within the rare group",
}
SHARE_COLUMNS = ["rare targets", "method", "seeds", *METRICS.values(), "other targets", "other targets under a constant"]
RATE_COLUMNS = ["peak rate", "method", "test NLL", "NLL minus MLE", *METRICS.values()]
NEW, USUAL = "32k-", ""  # prefixes of runs
METHODS = {"agg": "AGG", "freeze-b": "Freeze (b)", "agps": "AGPS", "ember": "Ember"}  # run -> method, as the papers name it
OBJECTIVES = {"mle": "MLE", "agg": "AGG", "ember": "Ember"}
NEW_SHARE = 578 / 283_294  # rare targets of the test text in data/tokens/lm-32k
USUAL_RATE = "0.002"
RATES = {"0.001": "half-rate-", USUAL_RATE: "", "0.004": "double-rate-"}  # peak rate -> prefix of its runs


def metrics(row: dict[str, str]) -> dict[str, float]:
    """Return the metrics of METRICS from the printed values of a run. P(rare) may be missing, and what depends on it."""
    total = {"ppl.total": math.exp(float(row["test NLL"]))}
    if not row["P(rare)"]:
        return total
    mass, within = float(row["P(rare)"]), float(row["perplexity within the rare group"])
    return total | {"ppl.rare": within / mass, "mass.rare": mass, "ppl_within.rare": within}


def scores_of(file: Path, sheet: Sheet, folder: Path) -> TaskScores:
    """Return the scores of the runs of a CSV file: those of reports/runs/lm, else score files with the printed values."""
    (folder / "lm").mkdir()
    scores, reports = AllScores(sheet, folder)["lm"], paths.REPORTS / "runs/lm"
    for row in csv_files.read_csv(file).to_dict("records"):
        if (reports / f"{row['run']}.decomposition.json").exists():
            for name in (f"{row['run']}.json", f"{row['run']}.decomposition.json"):
                shutil.copy(reports / name, folder / "lm")
            continue
        tree: dict[str, dict[str, float]] = {}
        for metric, value in metrics(row).items():
            name, group = metric.split(".")
            tree.setdefault(name, {})[group] = value
        facts = {"parameters_hash": scores.lines[row["run"]].parameters_hash, "seed": int(row["seed"])}
        (folder / "lm" / f"{row['run']}.json").write_text(json.dumps(facts | {"metrics": tree}))
    return scores


def reported(run: str, scores: TaskScores) -> dict[str, float]:
    """Return the metrics of METRICS from the reports of a run; nothing if one is missing."""
    found = {metric: scores.number(run, metric) for metric in METRICS}
    return {} if None in found.values() else found


def effects(run: str, mle: str, scores: TaskScores) -> dict[str, Effect]:
    """Return the ratio of each metric to maximum likelihood, over the seeds that both runs have."""
    return {metric: Comparison.of_runs("ratio", metric, run, mle, scores).effect for metric in METRICS}


def share_rows(new: TaskScores, usual: TaskScores) -> Iterator[list[str]]:
    """Yield the rows of the new setting, those of the usual one, and those of AGG's tables."""
    for prefix, scores, share in ((NEW, new, NEW_SHARE), (USUAL, usual, usual.number("mle", "token_share.rare"))):
        for run, method in METHODS.items():
            found = effects(prefix + run, f"{prefix}mle", scores)
            cells = [with_interval("ratio", one.value, one.seed_interval) for one in found.values()]
            seeds, (total, rare) = found["ppl.total"].seeds, (found[metric].value for metric in ("ppl.total", "ppl.rare"))
            yield [f"{100 * share:.2f} %", method, str(seeds), *cells, *other_cells(total, rare, share)]
    for one in implied(load_declarations(root() / paths.PAPERS)):
        if one.row in METHODS.values():
            cells = [effect_text("ratio", one.total), effect_text("ratio", one.rare), "", ""]
            ends = other_cells(one.total, one.rare, RARE_SHARE)
            yield [f"{100 * RARE_SHARE:.2f} % (paper)", one.row, "", *cells, *ends]


def other_cells(total: float, rare: float, share: float) -> list[str]:
    return [f"x {ratio_of_others(rare, total, share):.4f}", "x {:.4f} to {:.4f}".format(*cost_of_constant(rare, share))]


def rate_rows(file: Path, usual: TaskScores) -> Iterator[list[str]]:
    """Yield a row per run. Only those at the usual rate have intervals: of one seed, with the seed variance of all runs."""
    mle: dict[str, dict[str, float]] = {}
    one_seed = usual.with_seeds(OBJECTIVES, [1])
    known = {rate: {run: reported(prefix + run, usual) for run in OBJECTIVES} for rate, prefix in RATES.items()}
    for row in csv_files.read_csv(file).to_dict("records"):
        rate = row["peak rate"]
        # Reports count if all runs of a rate have some, so that no run on a CPU is compared with one on a GPU.
        own = known[rate][row["run"]] if all(known[rate].values()) else metrics(row)
        base = mle.setdefault(rate, own)
        change, cells = "", [""] * len(METRICS)
        if own is not base:
            change = f"{math.log(own['ppl.total'] / base['ppl.total']):+.4f}"
            cells = [effect_text("ratio", own[metric] / base[metric] if metric in own else None) for metric in METRICS]
        if own is not base and rate == USUAL_RATE:
            found = effects(row["run"], "mle", one_seed).values()
            cells = [with_interval("ratio", one.value, one.seed_interval) for one in found]
        yield [rate, OBJECTIVES[row["objective"]], f"{math.log(own['ppl.total']):.4f}", change, *cells]


def tables(sheet: Sheet) -> dict[str, list[list[str]]]:
    """Return the rows of the written files, by file name without the scale."""
    usual = AllScores(sheet, paths.REPORTS / "runs")["lm"]
    shares, rates = (FOLDER / f"{name}-{sheet.scale}.csv" for name in ("rare-share", "learning-rates"))
    with tempfile.TemporaryDirectory() as folder:
        new = scores_of(shares, sheet, Path(folder))
        return {
            "rare-share-effects": [SHARE_COLUMNS, *share_rows(new, usual)],
            "learning-rates-effects": [RATE_COLUMNS, *rate_rows(rates, usual)],
        }


def main() -> None:
    sheet = run_sheet(load())
    for name, (columns, *rows) in tables(sheet).items():
        for row in (columns, *rows):
            print(*row, sep=" | ")
        write_table(f"{name}-{sheet.scale}", columns, rows)


if __name__ == "__main__":
    main()
