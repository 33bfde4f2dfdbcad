"""Score files and folders that the arguments of a command name, with their systems and seeds."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from raretokens.claims.item_scores import EXAMPLES, RunScores
from raretokens.claims.score_formats import (
    COMPLETE,
    SAMPLE_FILES,
    SAMPLES,
    InspectLog,
    LeftOut,
    eval_header,
    is_inspect,
    parsed,
    read_file,
)
from raretokens.errors import UserError
from raretokens.yaml_files import checked

FileRuns = list[tuple[str, RunScores]]  # the file of a run, and the run
RUN_KEYS = {"system", "metrics"}  # of a run in JSON
OLDER = "a newer file has the same task"
UNFINISHED = f"the status of a log of Inspect should be {COMPLETE!r}"


def split_argument(argument: str) -> tuple[str, str]:
    """Return SYSTEM@SEED and FILE of an argument. Either may contain =, so FILE is the longest end that exists."""
    if Path(argument).exists():
        return "", argument
    parts = argument.split("=")
    splits = [("=".join(parts[:number]), "=".join(parts[number:])) for number in range(1, len(parts))]
    return next((one for one in splits if Path(one[1]).exists()), splits[-1] if splits else ("", argument))


def read_all(arguments: Sequence[str]) -> tuple[FileRuns, list[str]]:
    """Return the runs of all arguments, and notes on what is left out.

    Raises:
        UserError: if a file cannot be read, or if no file has a score for each item.
    """
    left_out: LeftOut = {}
    found = [(argument, read(argument, left_out)) for argument in arguments]
    notes = _notes(left_out)
    if not any(runs for _, runs in found):
        raise UserError("; ".join(["no metric has a number for each item", *notes]))
    return _apart(found), notes


def read(argument: str, left_out: LeftOut | None = None) -> FileRuns:
    """Return the runs of FILE, SYSTEM=FILE or SYSTEM@SEED=FILE, each with the name of its file. FILE can be a folder.

    The given system and seed replace those in the file. What is left out is added to `left_out`.

    Raises:
        UserError: if the file cannot be read, or has no scores.
    """
    left_out = {} if left_out is None else left_out
    label, path = split_argument(argument)
    file, (system, _, seed) = Path(path), label.partition("@")
    if seed and not seed.isdecimal():
        raise UserError(f"{argument}: {seed!r} is not allowed as a seed: should be a whole number")
    changed = ({"system": system} if system else {}) | ({"seed": int(seed)} if seed else {})
    files = _score_files(file, left_out) if file.is_dir() else [file]
    runs = [(str(one), run) for one in files for run in read_file(one, left_out)]
    times = Counter(metric for _, run in runs for metric in run.metrics)
    if seed and max(times.values(), default=0) > 1:
        raise UserError(f"{file}: has {max(times.values())} runs, which cannot all have the seed {seed}; leave out @{seed}")
    return [(one, run.replaced(**changed)) for one, run in runs]


def _apart(found: Sequence[tuple[str, FileRuns]]) -> FileRuns:
    """Return all runs. If folders have the same metric of a system, as of two settings of a model, they name the system."""
    folders = {place: argument for place, (argument, _) in enumerate(found) if Path(argument).is_dir()}
    scored = {place: {(run.system, run.seed, one) for _, run in found[place][1] for one in run.metrics} for place in folders}
    times = Counter(key for keys in scored.values() for key in keys)
    shared = {system for (system, _, _), number in times.items() if number > 1}
    apart = []
    for place, (argument, runs) in enumerate(found):
        several = len({run.system for _, run in runs}) > 1
        for file, run in runs:
            name = str(Path(argument, run.system if several else ""))
            apart.append((file, run.replaced(system=name) if place in folders and run.system in shared else run))
    return apart


def _score_files(folder: Path, left_out: LeftOut) -> list[Path]:
    """Return the score files of a folder and its subfolders. Of several files of a system and a task, return the newest."""
    found: dict[tuple, list[tuple[str, Path]]] = {}  # system and task -> time and file
    for file in sorted(folder.rglob("*")):
        if version := _version(file, left_out):
            found.setdefault(version[0], []).append((version[1], file))
    if not found:
        nothing = f"{folder}: a folder without {SAMPLE_FILES}, and without logs of Inspect and JSON files of scores"
        raise UserError("; ".join([nothing, *_notes(left_out)]))
    ordered = [[file for _, file in sorted(files)] for files in found.values()]
    for file in [file for files in ordered for file in files[:-1]]:
        left_out.setdefault(OLDER, {})[str(file)] = None
    return [files[-1] for files in ordered]


def _version(file: Path, left_out: LeftOut) -> tuple[tuple, str] | None:
    """Return the system and task of a file in a folder, and its time; None if it has no scores, or its run has not ended."""
    if match := SAMPLES.fullmatch(file.name):
        return (file.parent, match["task"]), match["time"] or ""
    if file.suffix not in (".json", ".eval") or not file.is_file():
        return None
    tree = eval_header(file) if file.suffix == ".eval" else parsed(file.read_bytes(), file)
    if not is_inspect(tree):
        first = tree[0] if isinstance(tree, list) and tree else tree
        return ((file,), "") if isinstance(first, dict) and first.keys() >= RUN_KEYS else None
    log = checked(InspectLog, tree, file)
    if log.status != COMPLETE:
        left_out.setdefault(UNFINISHED, {})[str(file)] = None
        return None
    return (log.eval.model, log.eval.task), log.eval.created or ""


def _notes(left_out: LeftOut) -> list[str]:
    """Return a line for each reason, with the first things that are left out."""
    notes = []
    for reason, names in left_out.items():
        more = f" and {len(names) - EXAMPLES} more" if len(names) > EXAMPLES else ""
        notes.append(f"left out: {', '.join(list(names)[:EXAMPLES])}{more}: {reason}")
    return notes
