"""Commands for the reports of a scale: table, needs, readme, verify, adopt, trained, scales and diff."""

import argparse
import os
import sys
from pathlib import Path

from raretokens import csv_files, paths
from raretokens.errors import UserError
from raretokens.evidence.scores import AllScores
from raretokens.files import failure, write_text
from raretokens.papers.declarations import Declarations
from raretokens.papers.load import load_declarations, load_searches
from raretokens.pipeline import trained
from raretokens.pipeline.config import load
from raretokens.pipeline.context import root
from raretokens.pipeline.jobs import run_sheet, train_job
from raretokens.pipeline.lock_file import verify
from raretokens.report import build, checklist, claims, include, scales
from raretokens.report.diff import compare, to_markdown
from raretokens.report.revision import Revision
from raretokens.tools.cli import argument, command

CHECKLIST = "small"  # the scale whose trainings the checklist describes


@command(argument("table", help="such as agg-3"))
def show_table(arguments: argparse.Namespace) -> None:
    print(build.one_table(arguments.table, run_sheet(load()), _declared(), paths.REPORTS), end="")


@command(argument("table", help="such as agg-3"))
def show_needs(arguments: argparse.Namespace) -> None:
    print(*build.needed(arguments.table, run_sheet(load()), _declared(), paths.REPORTS))


@command(argument("file", type=Path))
def refresh(arguments: argparse.Namespace) -> None:
    text: Path = arguments.file
    if not text.is_file():
        raise UserError(f"{text}: no such file")
    write_text(text, include.refresh(text.read_text(encoding="utf-8"), text.parent))


def show_verification(arguments: argparse.Namespace) -> None:
    load()
    found = verify()
    print(f"{Path.cwd().name}: {found}")
    sys.exit(bool(found.changed))


@command(
    argument("revision", nargs="?", help="that ran the scale; default: the last commit that changed dvc.lock"),
    argument("--jobs", type=int, help="trials at a time; default: the number of cores"),
    argument("--demo", type=Path, help="folder of a scale that the revision ran, with its weights; default: the root"),
    argument("--old", action="store_true", help="only run the trials of the revision, whose results are kept"),
)  # fmt: skip
def adopt_code(arguments: argparse.Namespace) -> None:
    from raretokens.pipeline.adopt import Adoption, verified_at

    revision = Revision(arguments.revision or verified_at()).commit[:12]
    one = Adoption(revision, arguments.jobs or os.cpu_count() or 1, arguments.demo or root())
    if arguments.old:
        one.keep_old()
    elif not one.adopt():
        sys.exit(1)


def write_trained(arguments: argparse.Namespace) -> None:
    load()
    rows = trained.table()
    write_text(trained.FILE, csv_files.to_csv(rows.to_dict("records"), trained.COLUMNS))
    hours = sum(float(one) for one in rows.hours if one)
    print(f"{trained.FILE}: {len(rows)} runs, {hours:.1f} hours; the hours of {sum(rows.hours == '')} are not known")


@command(argument("folder", type=Path))
def compare_scales(arguments: argparse.Namespace) -> None:
    declared = _declared()
    verdicts = scales.read(root(), declared)
    write_text(arguments.folder / "evidence.md", scales.to_markdown(verdicts, declared, scales.spent(root())))
    write_text(arguments.folder / "verdict.md", scales.in_words(verdicts, declared) + "\n")
    facts = checklist_facts(root(), CHECKLIST, declared)
    rows = checklist.rows(facts)
    write_text(arguments.folder / "checklist.csv", checklist.to_csv(rows))
    write_text(arguments.folder / "checklist.md", checklist.to_markdown(rows, facts))


def checklist_facts(top: Path, scale: str, declared: Declarations) -> checklist.Facts:
    """Read what the checklist of a scale needs. `top`: the folder of the code."""
    folder = top / "scales" / scale
    parameters = load(folder / paths.PARAMETERS)
    reports = folder / paths.REPORTS
    return checklist.Facts(
        name=scale,
        reports=reports,
        declared=declared,
        scores=AllScores(run_sheet(parameters), reports / "runs"),
        verdicts=list(claims.read_csv(reports / "claims.csv", declared).values()),
        searches=load_searches(declared.folder),
        keep=lambda task, run: train_job(parameters, parameters.run(task, run)).training.keep,
        trained={(one["task"], one["run"]): one for one in csv_files.read_csv(folder / trained.FILE).to_dict("records")},
    )


@command(argument("revision", nargs="?", default="HEAD", help="default: HEAD"))
def show_diff(arguments: argparse.Namespace) -> None:
    try:
        load()
        revision = Revision(arguments.revision)
        moves = compare(revision, _declared())
        print(to_markdown(revision, moves, revision.parameters()))
    except (UserError, OSError) as error:  # status 1 is reserved for cells out of tolerance
        print(f"error: {failure(error) if isinstance(error, OSError) else error}", file=sys.stderr)
        sys.exit(2)
    sys.exit(any(move.out for move in moves))


def _declared() -> Declarations:
    return load_declarations(root() / paths.PRINTED)
