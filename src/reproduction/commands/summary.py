"""The end of a run of a scale: its findings as sentences, the number of tables, where the pages are, and what to try next."""

import argparse
import textwrap
from collections import Counter

from raretokens.errors import UserError
from reproduction import paths
from reproduction.papers.load import load_declarations
from reproduction.pipeline.parameters_file import load
from reproduction.pipeline.surroundings import git, root
from reproduction.report.diff import Revision, compare

WIDTH = 80  # columns
SHOWN = 4  # files of moved cells that are named
UNBROKEN = "\N{NO-BREAK SPACE}"  # a line does not end there
ALONE = " (test set alone)"  # the mark of an interval without a seed variance


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
        moves = compare(Revision("HEAD"), load_declarations(root() / paths.PAPERS))
    except (UserError, OSError) as error:
        return f"Comparison with {known}: {error}"
    files = Counter(f"{move.file}" for move in moves if move.out)
    where = f": {', '.join(f'{count} in {file}' for file, count in files.most_common(SHOWN))}" if files else ""
    more = f" and {len(files) - SHOWN} other files" if len(files) > SHOWN else ""
    return f"Compared with {known}, {len(moves)} cells moved, {files.total()} of them out of tolerance{where}{more} (make diff)."
