"""Score files of a whole run sheet, made by hand: every metric that a table names has a number."""

import json
from functools import cache
from pathlib import Path

from raretokens.claims.scores import SheetLine
from reproduction.papers.declarations import Declarations
from reproduction.papers.load import load_declarations
from reproduction.papers.table import Table
from reproduction.papers.task_scores import AllScores, TaskScores
from reproduction.pipeline.jobs import run_sheet
from reproduction.pipeline.parameters_file import load
from reproduction.report.cells import Cell
from reproduction.report.tables import table_cells
from reproduction.run_sheet import Sheet

ROOT = Path(__file__).parents[2]
SMALL = ROOT / "scales/small"
DECLARED = load_declarations(ROOT / "data/paper")
CORPORA = {"lm": "bible", "nmt": "bible"}
BASELINES = {"lm": {"human": "lm"}, "nmt": {"copy": "nmt"}}
LM = (
    "mle",
    "freeze",
    "freeze-b",
    "freeze-c",
    "freeze-bc",
    "agg",
    "agg-no-g1",
    "agg-no-g2",
    "agg-static",
    "ul",
    "ul-agg",
)
WORDS = ("word-mle", "word-cosreg", "word-agps", "word-other")
METHODS = ("mle", "cosreg", "adversarial", "spectrum", "agg", "agps", "frage")
NMT = (*(f"{size}-{method}" for size in ("base", "big") for method in METHODS), "base-freeze", "base-reweight")
RECURRENT = [f"{model}-{method}" for model, method in (("awd", "mle"), ("awd", "cosreg"), ("awd", "frage"))]
RECURRENT += ["mos-mle", "mos-frage"]
RECURRENT += [f"{run}-finetune" for run in RECURRENT]
REVERSE = ("reverse-mle", "reverse-cosreg", "reverse-other")
FACTS = {"layers": 6, "width": 512, "heads": 4, "feedforward": 2048, "dropout": 0.1, "attention_dropout": 0.0}
FACTS |= {"vocabulary": 44256, "parameters": 42_400_000, "steps": 40_000, "tokens_per_step": 32_768}
FACTS |= {"peak_lr": 7e-4, "warmup": 4000, "weight_decay": 0.01, "beam": 4, "length_penalty": 0.6}
QUERIES = ("homepage", "Werewolf", "policymakers", "optimum", "criminal", "happiness", "internet", "citizenship")


def line(objective: str = "mle", **further: object) -> SheetLine:
    return SheetLine(**{"model": "base", "objective": objective, "seed": 1, "tokens": "lm", **further})


def every_metric(value: float) -> dict:
    """A score of each metric that a table names."""
    tree: dict = {}
    tables = DECLARED.tables.values()
    paths = {column.metric for table in tables for column in table.columns}
    paths |= {
        row.metric(column) for table in tables for row in table.rows for column in table.columns if row.names(column)
    }
    paths |= {fact.share_of or "" for table in tables for fact in table.facts}
    paths |= {fact.path.replace("{part}", "") for table in DECLARED.tables.values() for fact in table.facts}
    for path in sorted(paths - {""}):
        *parents, leaf = path.split(".")
        if parents and parents[0] in ("parameters", "options", "paired", "signatures", "points"):
            continue
        node = tree
        for part in parents:
            node = node.setdefault(part, {})
        node[leaf] = value
    tree["bleu"]["interval"] = 1.25
    return tree


def score(value: float, **further: object) -> dict:
    near = [["\u2581web", 0.9, "freq"], ["optimal", 0.8, "rare"], ["\u2581citizen", 0.7, "med"], ["x", 0.6, "rare"]]
    return {
        "seed": 1,
        "metrics": every_metric(value),
        "parameters": list(map(list, FACTS.items())),
        "options": [["alpha", 0.03]],
        "signatures": [["continuation", "of:greedy|prefix:50|length:100"], ["alignsim", "tau:10|self:dropped"]],
        "neighbours": [[query, [*near, ["y", 0.5, "med"]]] for query in QUERIES],
        "neighbour_ranks": [["internet", [["web", 1], ["computer", 14]]], ["citizenship", [["citizen", 3], ["citizens", None]]]],
        **further,
    }


def write(folder: Path, task: str, name: str, content: dict) -> None:
    (folder / task).mkdir(parents=True, exist_ok=True)
    (folder / task / f"{name}.json").write_text(json.dumps(content))


@cache
def committed() -> AllScores:
    """The committed score files of the small scale."""
    return AllScores(run_sheet(load(SMALL / "params.yaml")), SMALL / "reports/runs")


def scored(folder: Path, files: dict[str, dict], sheet: dict[str, SheetLine], task: str = "lm") -> TaskScores:
    """TaskScores of a task from the content of its score files."""
    for name, content in files.items():
        write(folder, task, name, content)
    return TaskScores(sheet, task=task, folder=folder / task)


def draws(folder: Path, name: str, worse: float = 1.0) -> None:
    """BLEU of a run on drawn test sets: on a share of them it is worse by 1, on the others better."""
    values = [-1.0 if draw < worse * 400 else 1.0 for draw in range(400)] if worse < 1 else [0.0] * 400
    (folder / "nmt" / f"{name}.bootstrap.csv").write_text("bleu.sacrebleu\n" + "".join(f"{value}\n" for value in values))


def world(folder: Path, lm: dict, nmt: dict, **others: dict) -> dict[str, TaskScores]:
    sheet = Sheet(scale="demo", corpora=CORPORA, baselines=BASELINES, runs={"lm": lm, "nmt": nmt, **others})
    return AllScores(sheet, folder)


def cells_of(
    table: Table | str,
    scores: TaskScores | dict[str, TaskScores],
    declared: Declarations = DECLARED,
    corpora: dict[str, str] = CORPORA,
    at_paper_scale: bool = True,
) -> list[Cell]:
    """Cells of a table, by its name or its declaration, from the scores of its task or of all."""
    one = declared.tables[table] if isinstance(table, str) else table
    every = {scores.task: scores} if isinstance(scores, TaskScores) else scores
    return table_cells(declared, one, every, corpora, at_paper_scale)


def at(cells: list[Cell], row: str, column: str) -> Cell:
    return next(cell for cell in cells if (cell.row, cell.column) == (row, column))


def full(folder: Path) -> dict[str, TaskScores]:
    """TaskScores of nearly every run that a table names, and of some that none does."""
    sheet = {
        "lm": {**{name: line() for name in LM}, **{name: line(tokens="words") for name in WORDS}},
        "recurrent": {name: line(tokens="words") for name in RECURRENT},
        "nmt": {
            **{name: line("agg" if name.endswith("agg") else "mle", tokens="nmt") for name in NMT},
            **{name: line(tokens="nmt", reverse=True) for name in REVERSE},
        },
    }
    for task, lines in sheet.items():
        for number, name in enumerate((*lines, *{"lm": ["human"], "nmt": ["copy"]}.get(task, []))):
            write(folder, task, name, score(10.0 + number))
    draws(folder, "base-agg", 0.02), draws(folder, "base-mle")
    return world(folder, **sheet)
