"""The reproducibility checklist of each paper: validation loss, search, hours, hardware and energy of its runs."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

from raretokens import csv_files
from raretokens.evidence.scores import MLE, Scores
from raretokens.evidence.verdict import Verdict
from raretokens.papers.declarations import Declarations, Search
from raretokens.report.effect_text import number_text
from raretokens.report.markdown import render
from raretokens.run import SheetLine

UNKNOWN, NO_SEARCH = "not recorded", "no search"
Key = tuple[str, str]  # task and run
WATTS = 10.0  # an assumption, stated on the page: a core with its share of memory and cooling
COLUMNS = ("paper", "task", "run", "seeds", "numbers", "claims", "validation_loss", "checkpoint", "search", "trials", "rule",
           "source", "hours", "machine", "kwh")  # fmt: skip
NOT_SHOWN = ("paper", "task", "source")  # columns of the CSV file that the page leaves out
TITLES = {"validation_loss": "validation loss", "machine": "hardware", "kwh": "energy (kWh)"}
Row = dict[str, str]  # COLUMNS of a run with its repetitions. Unknown facts are `not recorded`.


@dataclass(frozen=True)
class Facts:
    """What the checklist reads of a scale."""

    name: str
    reports: Path
    declared: Declarations
    scores: dict[str, Scores]
    verdicts: list[Verdict]
    searches: dict[str, Search]
    keep: Callable[[str, str], int | str]  # task and run -> `keep` of its training
    trained: dict[Key, dict[str, str]]  # line of trained.csv


def rows(facts: Facts) -> list[Row]:
    """Return a row for each paper and run, in the order of the papers and of the run sheet."""
    found = []
    for paper in facts.declared.papers:
        numbers, claims = _numbers(paper, facts), _claims(paper, facts)
        for task, part in facts.scores.items():
            for run in part.repetitions:
                used = numbers[task, run], claims[task, run]
                if any(used) and part.read(run):
                    found.append(_row(paper, part, run, used, facts))
    return found


def to_csv(found: list[Row]) -> str:
    """Return the rows as CSV, without the code marks of the page."""
    plain = ({name: text.replace("`", "") for name, text in row.items()} for row in found)
    return csv_files.to_csv(plain, list(COLUMNS))


def to_markdown(found: list[Row], facts: Facts) -> str:
    """Return the page, with a table for each paper."""
    columns = [name for name in COLUMNS if name not in NOT_SHOWN]
    return render(
        "checklist.md",
        "raretokens.report.documentation",
        scale=facts.name,
        watts=f"{WATTS:g}",
        papers={paper: [row for row in found if row["paper"] == paper] for paper in facts.declared.papers},
        gaps=_gaps,
        head=[TITLES.get(name, name) for name in columns],
        cells=lambda rows: [[_short(name, row[name]) for name in columns] for row in rows],
    )


def _short(name: str, text: str) -> str:
    """Return a cell of the page. The CSV file has the names of processors in full."""
    return f"`{text}`" if name == "run" else text.replace("(R)", "").replace(" Processor", "")


def _gaps(own: list[Row]) -> str:
    """Return a sentence with the numbers of runs that lack a fact."""
    kinds = {"search": "search", "trials": "number of trials", "rule": "selection rule", "hours": "training time"}
    counts = {title: sum(UNKNOWN in row[name] for row in own) for name, title in kinds.items()}
    missing = ", ".join(f"{title} ({count})" for title, count in counts.items() if count)
    gaps = f"Gaps, with the number of runs: {missing}." if missing else "No fact is missing."
    return f"The table has {len(own)} runs. {gaps}"


def _numbers(paper: str, facts: Facts) -> Counter[Key]:
    """Return the number of measured cells with a reported number for each run, in the paper's result tables."""
    counts: Counter[Key] = Counter()
    for name, one in facts.declared.tables.items():
        if one.paper == paper and not one.facts and not one.neighbours:
            cells = csv_files.read_csv(facts.reports / f"tables/{name}.csv")
            used = cells.runs[(cells.reported != "") & (cells.measured != "") & (cells.runs != "")]
            counts.update((one.task, runs.split()[0]) for runs in used)
    return counts


def _claims(paper: str, facts: Facts) -> Counter[Key]:
    """Return the number of measured claims of the paper that use each run."""
    measured = (one for one in facts.verdicts if one.claim.paper == paper and one.effect.value is not None)
    return Counter((one.claim.task, run) for one in measured for run in set(one.runs))


def _row(paper: str, part: Scores, run: str, used: tuple[int, int], facts: Facts) -> Row:
    line, runs = part.lines[run], [name for name in part.repetitions[run] if part.read(name)]
    keep = facts.keep(part.task, run)
    known = [facts.trained.get((part.task, name), {}) for name in runs]
    hours = [float(one["hours"]) for one in known if one.get("hours") and "thread" in one["machine"]]  # not on a GPU
    machines = sorted({one["machine"] for one in known if one.get("machine")})
    entries = list(_searches(part.task, line, facts.searches))
    searched = [one for one in entries if one.bounds != NO_SEARCH] or entries
    return {
        "paper": paper,
        "task": part.task,
        "run": run,
        "seeds": str(len(runs)),
        "numbers": str(used[0]),
        "claims": str(used[1]),
        "validation_loss": _loss([facts.reports / f"curves/{part.task}/{name}.csv" for name in runs], keep),
        "checkpoint": "best validation loss" if keep == "best" else "last" if keep == 1 else f"mean of the last {keep}",
        "search": "; ".join(dict.fromkeys(one.bounds or UNKNOWN for one in searched)),
        "trials": "; ".join(dict.fromkeys(UNKNOWN if one.trials is None else str(one.trials) for one in searched)),
        "rule": "; ".join(dict.fromkeys(one.rule or UNKNOWN for one in entries)),
        "source": " ".join(dict.fromkeys(one.source for one in entries if one.source)),
        "hours": _hours(hours, len(runs)),
        "machine": " or ".join(machines) or UNKNOWN,
        "kwh": number_text(sum(hours) * WATTS / 1000, 2) if hours else UNKNOWN,
    }


def _searches(task: str, line: SheetLine, searches: dict[str, Search]) -> Iterator[Search]:
    """Yield the declared entries of a run, and an entry without facts for the options that no entry explains."""
    found = [one for one in searches.values() if one.explains(task, line.model, line.objective, line.options)]
    yield from found
    explained = {option for one in found for option in one.options}
    if unexplained := [option for option in line.options if option not in explained]:
        yield Search(bounds=f"{', '.join(f'`{option}`' for option in unexplained)}: {UNKNOWN}", source="")
    elif not found:
        rule = "no option" if line.objective == MLE else "the paper's values"
        yield Search(bounds=NO_SEARCH, trials=0, rule=rule, source="docs/objectives.md")


def _loss(curves: list[Path], keep: int | str) -> str:
    """Return the validation loss of the kept checkpoint, as a mean over seeds ± half the range."""
    values = []
    for file in curves:
        if file.is_file():
            column = csv_files.read_csv(file)["valid_nll"]
            losses = [float(text) for text in column if text]
            values += [min(losses) if keep == "best" else losses[-1]] if losses else []
    if not values:
        return UNKNOWN
    spread = f" ± {(max(values) - min(values)) / 2:.3f}" if len(values) > 1 else ""
    return f"{mean(values):.3f}{spread}"


def _hours(hours: list[float], seeds: int) -> str:
    if not hours:
        return UNKNOWN
    return f"{mean(hours):.2f}" + (f" ({len(hours)} of {seeds} seeds known)" if len(hours) < seeds else "")
