"""The command that prints what a scale found, where its reports are, and what to try next."""

import argparse
from pathlib import Path

from rich.console import Console
from rich.markdown import Markdown

from raretokens.errors import UserError
from reproduction import paths
from reproduction.papers.load import load_declarations
from reproduction.pipeline.parameters_file import load
from reproduction.pipeline.surroundings import root
from reproduction.report.diff import compare
from reproduction.report.revision import Revision

WIDTH = 120  # columns


def show_summary(_: argparse.Namespace) -> None:
    """Print the findings of a scale with their intervals, what moved against the committed reports, and where the pages are."""
    load()
    findings = paths.REPORTS / "findings.md"
    if not findings.exists():
        raise UserError(f"{findings}: no such file; dvc repro makes it")
    print("\nWhat this scale found:")
    Console(width=WIDTH, highlight=False).print(Markdown(findings.read_text(encoding="utf-8")))
    counts = {kind: len({*(paths.REPORTS / kind).glob("*.csv")}) for kind in ("tables", "figures")}
    print(f"Reports: {counts['tables']} tables and {counts['figures']} figures; {paths.REPORTS}/index.md lists them.")
    site = root() / "build/site/index.html"
    print(f"Site: {site if site.exists() else 'make site builds it'}")
    print(_moves())
    print("Next: dvc exp run -S alpha=0.04 trains what depends on alpha again; dvc metrics diff shows what moved.")


def _moves() -> str:
    """Return a sentence on the cells that moved against the last commit, or why they cannot be compared."""
    try:
        moves = compare(Revision("HEAD"), load_declarations(root() / Path(paths.PAPERS)))
    except (UserError, OSError) as error:
        return f"Comparison with the committed reports: {error}"
    out = sum(move.out for move in moves)
    return f"Compared with the committed reports, {len(moves)} cells moved, {out} of them out of tolerance (make diff)."
