"""Commands for a scale: its stages, the targets of each run, the scale as Slurm jobs, reports, plots, exports and the summary."""

import argparse
import os
import re
import shlex
import signal
import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from raretokens import csv_files
from raretokens.cli import argument, command, number
from raretokens.errors import UserError
from raretokens.files import failure, write_text
from raretokens.yaml_files import read_yaml
from reproduction import paths
from reproduction.papers.declarations import Declarations
from reproduction.papers.load import load_declarations
from reproduction.pipeline import cluster, records, settings
from reproduction.pipeline.cluster import SHARED_STAGES, first_seeds, main_runs, run_targets
from reproduction.pipeline.jobs import run_sheet
from reproduction.pipeline.lock_file import verify
from reproduction.pipeline.parameters_file import load
from reproduction.pipeline.surroundings import git, root
from reproduction.report import build, markdown
from reproduction.report.diff import Revision, accept, compare, to_markdown

MAX_FILES = 6  # files per stage; a longer list is replaced by the common folder
HEADER = ("stage", "how many", "reads", "writes")
# The page of plots. `{...}` are filled by DVC. Its own page would load Vega from the network.
PLOTS_PAGE = """<!DOCTYPE html>
<meta charset="utf-8">
{refresh_tag}
<title>Plots</title>
<style>body { font-family: sans-serif; } body > div { margin: 2rem; overflow-x: auto; }</style>
<script>(() => {BUNDLE})();</script>
{plot_divs}
"""
WIDTH = 80  # columns
SHOWN = 4  # files of moved cells that are named
UNBROKEN = "\N{NO-BREAK SPACE}"  # a line does not end there
ALONE = " (test set alone)"  # the mark of an interval without a seed variance


@command(
    argument("--shared", action="store_true", help="print what the runs share instead"),
    argument("--continued", action="store_true", help="print the runs that start from others instead"),
    argument("--main", action="store_true", help="only runs that the main conclusions rest on (main.csv), every seed"),
    argument("--one-seed", action="store_true", help="only the first seed of each"),
)  # fmt: skip
def show_runs(arguments: argparse.Namespace) -> None:
    if arguments.shared:
        print(*SHARED_STAGES)
        return
    parameters = load()
    selected = {(run.task, run.name) for run in parameters.every_run()}
    if arguments.main:
        selected &= main_runs(parameters, _declared(), paths.SCORES)
    if arguments.one_seed:
        selected &= first_seeds(parameters, paths.SCORES)
    for line in run_targets(parameters, arguments.continued, selected):
        print(line)


@command(argument("--print", action="store_true", help="only show what would be submitted"))
def submit(arguments: argparse.Namespace) -> None:
    parameters, own = load(), settings.read().cluster
    folder, jobs = Path(parameters.root).resolve(), cluster.slurm_jobs(parameters, own)
    if arguments.print:
        print("\n".join(map(shlex.join, cluster.commands(jobs, own, folder))))
        return
    numbers = cluster.submit(jobs, own, folder)
    for job, job_id in zip(jobs, numbers, strict=True):
        print(f"{job_id}  {job.name}" + f", {len(job.targets)} tasks" * bool(job.array))
    print(f"watch   squeue -r -j {','.join(numbers)}; tail -f {cluster.FOLDER}/*.log")
    print(f"cancel  scancel {' '.join(numbers)}; a scale that is submitted again continues")
    print("Let no other DVC command run here until they have ended.")


def show_stages(_: argparse.Namespace) -> None:
    load()
    lines = [HEADER, *list_stages(read_yaml(Path("dvc.yaml"))["stages"], read_yaml(paths.PARAMETERS))]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADER))]
    for line in lines:
        print("  ".join(word.ljust(width) for word, width in zip(line, widths, strict=True)).rstrip())


def list_stages(declared: dict[str, Any], parameters: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yield name, number of runs, inputs and outputs of the stages that have runs at this scale, including continued runs."""
    for name, stage in declared.items():
        if name.endswith("-continued"):
            continue
        each = _foreach_keys(stage["foreach"], parameters) if "foreach" in stage else [""]
        each = [*each, *_foreach_keys(declared.get(f"{name}-continued", {}).get("foreach", ""), parameters)]
        if each:
            body = stage.get("do", stage)
            reads = [path for path in body.get("deps", []) if not path.startswith(("data/jobs/", "${root}"))]
            writes = [*body.get("outs", []), *body.get("metrics", [])]
            yield name, str(len(each)), _summarize(reads), _summarize(writes)


def _foreach_keys(reference: str, parameters: dict[str, Any]) -> Any:
    """Return the values that `foreach: ${runs.lm}` iterates over. Empty if this scale has no such key."""
    values: Any = parameters
    for key in reference.removeprefix("${").removesuffix("}").split("."):
        values = (values or {}).get(key)
    return values or []


def _summarize(files: list[Any]) -> str:
    """Return folders and files without the names of runs, or their common folder if there are many."""
    plain = (path if isinstance(path, str) else next(iter(path)) for path in files)
    folders = dict.fromkeys(re.sub(r"/?\$\{(key|item[.\w]*)\}.*", "", path) or "own files" for path in plain)
    return ", ".join(folders) if len(folders) < MAX_FILES else os.path.commonpath(folders)


# Reports.


@command(
    argument("table", help="such as agg-3"),
    argument("--latex", action="store_true", help="print LaTeX, which needs the package booktabs; default: Markdown"),
)
def show_table(arguments: argparse.Namespace) -> None:
    print(build.one_table(arguments.table, run_sheet(load()), _declared(), paths.REPORTS, arguments.latex), end="")


@command(argument("table", help="such as agg-3"))
def show_needs(arguments: argparse.Namespace) -> None:
    print(*build.needed(arguments.table, run_sheet(load()), _declared(), paths.REPORTS))


@command(
    argument("files", nargs="*", type=Path, metavar="FILE", help="default: all pages of docs, and README.md"),
    argument("--check", action="store_true", help="write nothing; exit 1 if a page is not current"),
)
def refresh(arguments: argparse.Namespace) -> None:
    for file in arguments.files:
        if not file.is_file():
            raise UserError(f"{file}: no such file")
    old: list[Path] = []
    for file in arguments.files or pages_with_includes(root()):
        before = file.read_text(encoding="utf-8")
        text = markdown.refresh(before, file.parent)
        old += [file] * (text != before)
        if text != before and not arguments.check:
            write_text(file, text)
    if arguments.check and old:
        names = (os.path.relpath(file) for file in old)
        raise UserError("\n".join(f"{name}: not what the reports say; make readme updates the page" for name in names))


def pages_with_includes(top: Path) -> list[Path]:
    files = [top / "README.md", *sorted(top.glob("docs/*.md"))]
    return [file for file in files if markdown.INCLUDE.search(file.read_text(encoding="utf-8"))]


def show_verification(arguments: argparse.Namespace) -> None:
    load()
    found = verify()
    print(f"{Path.cwd().name}: {found}")
    sys.exit(not found.matches)


@command(
    argument("revision", nargs="?", help="that ran the scale; default: the last that changed dvc.lock, or HEAD"),
    argument("--jobs", type=number(int), help="trials at a time; default: the number of cores"),
    argument("--demo", type=Path, help="folder of a scale that the revision ran, with its weights; default: the root"),
    argument("--old", action="store_true", help="only run the trials of the revision, whose results are kept"),
)  # fmt: skip
def adopt_code(arguments: argparse.Namespace) -> None:
    from reproduction.pipeline.adopt import Adoption, verified_at

    revision = Revision(arguments.revision or verified_at()).commit[:12]
    one = Adoption(revision, arguments.jobs or os.cpu_count() or 1, arguments.demo or root())
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # else the worktree would be left
    sys.exit(not (one.keep_old() if arguments.old else one.adopt()))


def write_trained(arguments: argparse.Namespace) -> None:
    load()
    rows = records.trained_table()
    write_text(records.TRAINED, csv_files.to_csv(rows.to_dict("records"), records.TRAINED_COLUMNS))
    hours = sum(float(one) for one in rows.hours if one)
    print(f"{records.TRAINED}: {len(rows)} runs, {hours:.1f} hours; the hours of {sum(rows.hours == '')} are not known")


@command(
    argument("revision", nargs="?", default="HEAD", help="default: HEAD"),
    argument("--accept", action="store_true", help="compare nothing; copy the CSV files of the reports to expected/"),
)
def show_diff(arguments: argparse.Namespace) -> None:
    try:
        load()
        if arguments.accept:
            print(f"{paths.EXPECTED}: {accept_reports()} files")
            return
        revision = Revision(arguments.revision)
        moves = compare(revision, _declared())
        print(to_markdown(revision, moves, revision.parameters()))
    except (UserError, OSError) as error:  # status 1 is reserved for cells out of tolerance
        print(f"error: {failure(error) if isinstance(error, OSError) else error}", file=sys.stderr)
        sys.exit(2)
    sys.exit(any(move.out for move in moves))


def accept_reports() -> int:
    """Write `expected` anew. Raises UserError if the reports themselves are in git."""
    if git("ls-files", f"{paths.REPORTS}"):
        raise UserError(f"{paths.REPORTS}: in git, so --accept has nothing to do; commit the reports")
    return accept()


def _declared() -> Declarations:
    return load_declarations(root() / paths.PAPERS)


# Plots and exports of runs.


@command(
    argument("revisions", nargs="*", metavar="REV", help="git revisions to compare; default: draw the files as they are"),
    argument("--out", default="dvc_plots", help="folder of the page; default: dvc_plots"),
)
def draw_plots(arguments: argparse.Namespace) -> None:
    import vl_convert  # of the extra `site`

    with TemporaryDirectory() as folder:
        page = Path(folder) / "page.html"
        page.write_text(PLOTS_PAGE.replace("BUNDLE", f"{{{vl_convert.javascript_bundle()}}}"), encoding="utf-8")
        what = ["diff", *arguments.revisions] if arguments.revisions else ["show"]
        options = ["--out", arguments.out, "--html-template", str(page)]
        if subprocess.run([sys.executable, "-m", "dvc", "plots", *what, *options]).returncode:
            raise UserError("dvc plots failed; its message is above")


@command(
    argument("run", metavar="RUN", help="such as mle, lm/mle or data/runs/lm/mle"),
    argument("folder", type=Path, metavar="FOLDER", help="new or empty"),
    argument("--to", choices=("transformers", "ctranslate2"), default="transformers", help="default: transformers"),
)  # fmt: skip
def export(arguments: argparse.Namespace) -> None:
    """Export a trained run as a folder that transformers loads without custom code, or as a folder of CTranslate2. For
    transformers, add the tokenizer and a model card with the run's scores. Run this command in the folder of a scale."""
    from reproduction.commands import trained_run
    from reproduction.commands.export import export_run

    export_run(trained_run.find(arguments.run), arguments.folder, arguments.to)
    print(arguments.folder)


# The summary after a run of a scale: its findings as sentences, where the pages are, and what to try next.


def show_summary(_: argparse.Namespace) -> None:
    """Print the findings of a scale with their intervals, what moved against the committed reports, and where the pages are."""
    load()
    findings = paths.REPORTS / "findings.md"
    if not findings.exists():
        raise UserError(f"{findings}: no such file; dvc repro makes it")
    print(f"\nWhat this scale found, compared with maximum likelihood:\n\n{in_words(findings.read_text(encoding='utf-8'))}\n")
    print(f"{findings} has the setting and the seeds of each finding.")
    counts = {kind: len({*(paths.REPORTS / kind).glob("*.csv")}) for kind in ("tables", "figures")}
    print(f"Reports: {counts['tables']} tables and {counts['figures']} figures; {paths.REPORTS}/index.md lists them.")
    site = root() / "build/site/index.html"
    print(f"Site: {site if site.exists() else 'make site builds it'}")
    are_in_git = bool(git("ls-files", f"{paths.REPORTS}"))
    print(_wrapped(_moves("the committed reports" if are_in_git else f"{paths.EXPECTED}/")))
    if not are_in_git:  # dvc metrics diff compares with a commit
        print(f'To compare with later runs:\n  git add --force dvc.lock {paths.REPORTS} && git commit -m "Demo on this machine"')
    print("Next: dvc exp run -S alpha=0.04\n  trains what depends on alpha again, such as AGG's language models.")
    print("Then: dvc metrics diff\n  shows which main effects moved. make diff shows every cell that moved.")


def in_words(findings: str) -> str:
    """Return the table of findings as numbered topics, with a sentence for each row. A text without a table keeps its words.

    findings: Markdown, as reports/findings.md has it.
    """
    lines = [line.strip("| ") for line in findings.splitlines() if line.startswith("|")]
    if not lines:
        return _wrapped(findings.strip())
    topics: dict[str, list[str]] = {}
    for line in lines[2:]:  # after the heading and the line of dashes
        cells = dict(zip(lines[0].split(" | "), (cell.strip() for cell in line.split(" | ")), strict=False))
        topic, sentence = _finding(cells)
        topics.setdefault(topic, []).append(_wrapped(sentence, "   - "))
    return "\n".join("\n".join([f"{number}. {topic}", *topics[topic]]) for number, topic in enumerate(topics, 1))


def _finding(cells: dict[str, str]) -> tuple[str, str]:
    """Return topic and sentence of a row, whose first cell is `METHOD: METRIC` or `METHOD, MODELS: METRIC`."""
    of, _, metric = cells["change from maximum likelihood"].partition(": ")
    method, _, models = of.partition(", ")
    where = f"{'In' if models.startswith('models') else 'With'} {models}, " if models else ""
    value, _, mark = cells["measured"].partition(" (")
    interval, alone, _ = cells["95 % interval"].partition(ALONE)
    about = {f"95 % interval{' of the test set alone' if alone else ''}": interval}
    about |= {name: cells.get(name, "") for name in ("paper", "logit bias")}
    inside = "; ".join(filter(None, [mark.removesuffix(")"), *(f"{name}: {text}" for name, text in about.items() if text)]))
    sentence = f"{where}{method} changes {metric} by {value}{f' ({inside})' if inside else ''}."
    topic = f"{method} and perplexity" if "perplexity" in metric else "Isotropy and word similarity"
    return "Translation" if metric == "BLEU" else topic, sentence


def _wrapped(text: str, start: str = "") -> str:
    """Return a text in lines of 80 columns, where no number is apart from its name and its sign of percent."""
    indent = " " * len(start) or "  "
    wrapper = textwrap.TextWrapper(WIDTH, start, indent, break_long_words=False, break_on_hyphens=False)
    text = text.replace(" %", f"{UNBROKEN}%").replace(": ", f":{UNBROKEN}")
    return wrapper.fill(text).replace(UNBROKEN, " ")


def _moves(known: str) -> str:
    """Return a sentence on the cells that moved against known reports, or why they cannot be compared."""
    try:
        moves = compare(Revision("HEAD"), _declared())
    except (UserError, OSError) as error:
        return f"Comparison with {known}: {error}"
    files = Counter(f"{move.file}" for move in moves if move.out)
    where = f": {', '.join(f'{count} in {file}' for file, count in files.most_common(SHOWN))}" if files else ""
    more = f" and {len(files) - SHOWN} other files" if len(files) > SHOWN else ""
    return f"Compared with {known}, {len(moves)} cells moved, {files.total()} of them out of tolerance{where}{more} (make diff)."
