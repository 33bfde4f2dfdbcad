"""Readers of score files: our JSON, CSV, samples of lm-evaluation-harness, and logs of Inspect. None needs these packages."""

import csv
import json
import math
import re
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from raretokens.claims.item_scores import RunScores
from raretokens.errors import UserError
from raretokens.yaml_files import checked

ITEM = ("item", "id")  # columns of a CSV file that can name the item
SYSTEM, SEED, CLUSTER = "system", "seed", "cluster"  # other columns that are no metrics
RESERVED = (*ITEM, SYSTEM, SEED, CLUSTER, "")  # the last is the index that pandas writes
SEPARATORS = ",\t;"  # of columns of a CSV file
COMMA = re.compile(r"[+-]?\d+,\d+")
TRUTH = {"true": 1.0, "false": 0.0}
SAMPLES = re.compile(r"samples_(?P<task>.+?)(?:_(?P<time>\d{4}-\d\d-\d\dT[\d.:-]+))?\.jsonl")  # of lm-evaluation-harness
NO_FILTER = "none"
LOG_LIKELIHOODS = ("perplexity",)  # metrics of lm-evaluation-harness that are exp(-mean), although a sample has a logarithm
HEADER, START = "header.json", "_journal/start.json"  # parts of a .eval file
COMPLETE = "success"  # status of a run of Inspect that was not interrupted
SHOWN, WIDEST = 2, 200  # mistakes of a file after the first, and characters of each
GRADES = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}  # correct, partial, incorrect, no answer, as Inspect's value_to_float

SAMPLE_FILES = "samples_*.jsonl, which lm_eval --log_samples writes"
# Metrics of lm-evaluation-harness whose items have lists, and why
ROLLING = ("word_perplexity", "byte_perplexity", "bits_per_byte")
OF_SUMS = "ratios of sums over documents, not means of scores"
OF_ALL = "computed from all items together, not means of scores"

LeftOut = dict[str, dict[str, None]]  # reason -> what is left out of the comparison, in order
CsvLine = tuple[int, dict[str, str]]  # number of a line in the file, and its cells by column


class InspectEval(BaseModel):
    """What a log of Inspect says of its task."""

    task: str | None = None
    model: str | None = None
    created: str | None = None  # time in ISO 8601


class InspectScore(BaseModel):
    """A number, a grade, or a dictionary of them."""

    value: Any = None


class InspectSample(BaseModel):
    """An item with a score of each scorer."""

    id: int | str
    epoch: int = 1
    scores: dict[str, InspectScore] | None = None


class InspectLog(BaseModel):
    """The parts of a log of Inspect that scores need."""

    status: str = COMPLETE
    eval: InspectEval
    samples: list[InspectSample] | None = None


def read_file(file: Path, left_out: LeftOut) -> list[RunScores]:
    """Return the runs of a file, and add to `left_out` the metrics that have no score for each item.

    A file that has no other metrics has no run.

    Raises:
        UserError: if the file cannot be read, or has no scores.
    """
    return list(_runs(file, left_out))


def _runs(file: Path, left_out: LeftOut) -> Iterator[RunScores]:
    if file.suffix == ".jsonl":
        yield from _harness(file, left_out)
    elif file.suffix in (".csv", ".tsv"):
        yield from _csv(file)
    elif file.suffix == ".eval":
        yield from _inspect(_unpacked(file), file)
    else:
        tree = parsed(file.read_bytes(), file)
        if is_inspect(tree):
            yield from _inspect(tree, file)
        elif isinstance(tree, dict) and "results" in tree and "metrics" not in tree:
            raise UserError(f"{file}: a summary of lm-evaluation-harness has no numbers for each item; give {SAMPLE_FILES}")
        else:
            yield from _checked(tree if isinstance(tree, list) else [tree], file)


def _checked(tree: list[Any], file: Path) -> list[RunScores]:
    """Validate runs. The error message has only the first mistakes, because each score of a list can be wrong."""
    try:
        return checked(list[RunScores], tree, file)
    except UserError as error:
        first, *others = [line if len(line) <= WIDEST else f"{line[:WIDEST]} ..." for line in str(error).splitlines()]
        more = [f"{file}: {len(others) - SHOWN} more mistakes"] if len(others) > SHOWN else []
        raise UserError("\n".join([first, *others[:SHOWN], *more])) from None


def parsed(text: bytes, where: object) -> Any:
    try:
        return json.loads(text)
    except UnicodeDecodeError as error:
        raise UserError(f"{where}: not UTF-8 at byte {error.start}") from None
    except ValueError as error:
        raise UserError(f"{where}: not JSON: {error}") from None


def _csv(file: Path) -> list[RunScores]:
    """Return a run for each system and seed of a CSV file, which has a row for each item and a column for each metric.

    Without a column `system`, the system is the name of the file. Columns without any number are left out.

    Raises:
        UserError: if there is no column of items, if an item has two rows of one run, or if a cell of a metric is no number.
    """
    columns, lines = _csv_lines(file)
    item = next((name for name in ITEM if name in columns), None)
    if item is None:
        hint = "" if len(columns) > 1 else "; commas, semicolons or tabs separate columns"
        raise UserError(f"{file}: no column `item` or `id`; the columns are {', '.join(columns) or 'missing'}{hint}")
    metrics = [name for name in columns if name not in RESERVED and any(_number(cells[name]) is not None for _, cells in lines)]
    for name in columns:
        if name not in RESERVED and lines and all(COMMA.fullmatch(cells[name].strip()) for _, cells in lines):
            raise UserError(f"{file}: {name}: {lines[0][1][name]!r} has a decimal comma; should be a number with a point")
    if not metrics:
        raise UserError(f"{file}: no column has numbers; should have a column for each metric")
    runs: dict[tuple[str, int | None], list[CsvLine]] = {}
    for line in lines:
        runs.setdefault((line[1].get(SYSTEM) or file.stem, _csv_seed(line, columns, file)), []).append(line)
    scores = ((system, seed, _csv_scores(file, seed, item, metrics, own)) for (system, seed), own in runs.items())
    return [
        RunScores(
            system=system,
            seed=seed,
            items=list(items),
            clusters=list(items.values()) if CLUSTER in columns else None,
            metrics=metrics,
        )
        for system, seed, (items, metrics) in scores
    ]


def _csv_lines(file: Path) -> tuple[list[str], list[CsvLine]]:
    try:
        with open(file, encoding="utf-8-sig", newline="") as opened:
            separator = _separator(opened.readline())
            opened.seek(0)
            reader = csv.DictReader(opened, delimiter=separator)
            lines = [(reader.line_num, cells) for cells in reader]
    except UnicodeDecodeError as error:
        raise UserError(f"{file}: not UTF-8 at byte {error.start}") from None
    except csv.Error as error:
        raise UserError(f"{file}: not CSV: {error}") from None
    columns = list(reader.fieldnames or [])
    if twice := next((name for name in columns if columns.count(name) > 1), None):
        raise UserError(f"{file}: two columns have the name {twice!r}; names must differ")
    for number, cells in lines:
        if None in cells or None in cells.values():  # more cells than columns, or fewer
            raise UserError(f"{file}: line {number}: should have {len(columns)} cells, as the first line")
    return columns, lines


def _separator(head: str) -> str:
    """Return the separator that makes a column of items of the first line, or a comma."""
    columns = {one: [name.strip().strip('"') for name in head.split(one)] for one in SEPARATORS}
    return next((one for one, names in columns.items() if len(names) > 1 and set(ITEM) & set(names)), SEPARATORS[0])


def _number(cell: str) -> float | None:
    try:
        number = TRUTH.get(cell.strip().lower())
        number = float(cell) if number is None else number
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _csv_seed(line: CsvLine, columns: list[str], file: Path) -> int | None:
    number, cells = line
    if SEED not in columns:
        return None
    if not cells[SEED].strip().isdecimal():
        raise UserError(f"{file}: line {number}: {cells[SEED]!r} is not allowed as a seed: should be a whole number")
    return int(cells[SEED])


def _csv_scores(
    file: Path, seed: int | None, item: str, metrics: list[str], lines: list[CsvLine]
) -> tuple[dict[str, str], dict[str, list[float]]]:
    """Return item -> its cluster, and metric -> the score of each item."""
    scores: dict[str, list[float]] = {metric: [] for metric in metrics}
    items: dict[str, str] = {}
    for number, cells in lines:
        name = cells[item]
        if name in items:
            of_seed = "" if seed is None else f" of seed {seed}"
            rest = "" if SYSTEM in cells else "; a column `system` tells systems apart"
            raise UserError(f"{file}: line {number}: {item} {name!r} has a second row{of_seed}; should have one{rest}")
        items[name] = cells.get(CLUSTER, "")
        for metric, row in scores.items():
            score = _number(cells[metric])
            if score is None:
                raise UserError(f"{file}: line {number}: {metric}: {cells[metric]!r} is not allowed: should be a number")
            row.append(score)
    return items, scores


def _add(metrics: dict[str, dict[str, float]], name: str, item: str, value: float, where: str) -> None:
    scores = metrics.setdefault(name, {})
    if item in scores:
        raise UserError(f"{where} {item}: has a second score of {name}; should be one, as in the log of one run")
    scores[item] = value


def _harness(file: Path, left_out: LeftOut) -> Iterator[RunScores]:
    """Yield the scores of samples_<task>_<time>.jsonl, as `lm_eval --log_samples` writes them.

    The system is the name of the folder. Metrics are called <task>.<metric>, or <task>.<filter>.<metric> with a filter. A
    perplexity is the exponential of the mean NLL, as in the harness's summary. Metrics whose samples have lists are left out.
    """
    match = SAMPLES.fullmatch(file.name)
    task = match["task"] if match else file.stem
    metrics: dict[str, dict[str, float]] = {}
    lists: dict[str, str] = {}  # metric without a number -> why
    # Bytes are split only at \n; a prompt may contain other line separators of Unicode.
    for number, line in enumerate(file.read_bytes().split(b"\n"), 1):
        if not line.strip():
            continue
        sample = parsed(line, f"{file}: line {number}")
        if not isinstance(sample, dict) or "doc_id" not in sample or not isinstance(sample.get("metrics"), list):
            raise UserError(f"{file}: line {number}: has no `doc_id` and `metrics`; lm_eval --log_samples writes such lines")
        used = sample.get("filter", NO_FILTER)
        for metric in sample["metrics"]:
            value = sample.get(metric)
            name = f"{task}.{metric}" if used == NO_FILTER else f"{task}.{used}.{metric}"
            if isinstance(value, int | float) and math.isfinite(value):
                score = -float(value) if metric in LOG_LIKELIHOODS else float(value)
                _add(metrics, name, str(sample["doc_id"]), score, f"{file}: line {number}: doc_id")
            elif isinstance(value, list):
                lists[name] = OF_SUMS if metric in ROLLING else OF_ALL
    skipped = {name: reason for name, reason in lists.items() if name not in metrics}
    for name, reason in skipped.items():
        left_out.setdefault(reason, {})[name] = None
    if metrics or not skipped:
        logarithms = [name for name in metrics if name.rpartition(".")[2] in LOG_LIKELIHOODS]
        yield _run(file, file.absolute().parent.name, None, metrics).replaced(logarithms=logarithms)


def is_inspect(tree: Any) -> bool:
    """Whether JSON is a log of Inspect. A run that failed early has no samples."""
    return isinstance(tree, dict) and "eval" in tree and ("samples" in tree or "status" in tree)


def _inspect(tree: dict[str, Any], file: Path) -> Iterator[RunScores]:
    """Yield a run for each epoch of an Inspect log. With several epochs, their numbers are the seeds.

    Metrics are called <task>.<scorer>, or <task>.<scorer>.<key> if a score has several values.
    """
    log = checked(InspectLog, tree, file)
    if log.status != COMPLETE:
        raise UserError(f"{file}: status: the run ended with {log.status!r}, so samples may be missing; should be {COMPLETE!r}")
    task, system = (log.eval.task or file.stem).rpartition("/")[2], log.eval.model or file.stem
    if unscored := sum(not sample.scores for sample in log.samples or []):
        raise UserError(f"{file}: {unscored} samples have no score, as after an error; all should have one")
    epochs: dict[int, dict[str, dict[str, float]]] = {}
    for sample in log.samples or []:
        metrics = epochs.setdefault(sample.epoch, {})
        for scorer, score in (sample.scores or {}).items():
            for key, one in score.value.items() if isinstance(score.value, dict) else [("", score.value)]:
                number = GRADES.get(one, one) if isinstance(one, str) else one
                if isinstance(number, int | float) and math.isfinite(number):
                    name = ".".join(filter(None, [task, scorer, key]))
                    _add(metrics, name, str(sample.id), float(number), f"{file}: epoch {sample.epoch}: sample")
    if not epochs:
        raise UserError(f"{file}: the log has no samples")
    for epoch, metrics in epochs.items():
        yield _run(file, system, epoch if len(epochs) > 1 else None, metrics)


def _unpacked(file: Path) -> dict[str, Any]:
    """Return the parts of a .eval file, which is a ZIP file of JSON, that scores need."""
    with _opened(file) as archive:
        names = [name for name in archive.namelist() if name.startswith("samples/") and name.endswith(".json")]
        return {**_header(archive, file), "samples": [parsed(archive.read(name), f"{file}: {name}") for name in names]}


@contextmanager
def _opened(file: Path) -> Iterator[zipfile.ZipFile]:
    try:
        with zipfile.ZipFile(file) as archive:
            yield archive
    except (zipfile.BadZipFile, KeyError, NotImplementedError) as error:  # the last: a compression that Python lacks
        raise UserError(
            f"{file}: cannot be read as a log of Inspect: {error}; `inspect log convert --to json` writes JSON"
        ) from None


def _header(archive: zipfile.ZipFile, file: Path) -> dict[str, Any]:
    """Return the status and task of a .eval file. One whose run goes on, or was killed, has only the start."""
    started = HEADER not in archive.namelist() and START in archive.namelist()
    name = START if started else HEADER
    header = parsed(archive.read(name), f"{file}: {name}") | ({"status": "started"} if started else {})
    return {**({"status": header["status"]} if "status" in header else {}), "eval": header["eval"]}


def eval_header(file: Path) -> dict[str, Any]:
    """Return the log of a .eval file without its samples."""
    with _opened(file) as archive:
        return {**_header(archive, file), "samples": None}


def _run(file: Path, system: str, seed: int | None, metrics: dict[str, dict[str, float]]) -> RunScores:
    """Return a run whose metrics have the scores of the same items."""
    if not metrics:
        raise UserError(f"{file}: no metric has a number for each item")
    items = sorted(set().union(*metrics.values()))
    for metric, scores in metrics.items():
        if missing := [item for item in items if item not in scores]:
            raise UserError(f"{file}: {metric}: {len(missing)} of {len(items)} items have no score, such as {missing[0]}")
    columns = {metric: [scores[item] for item in items] for metric, scores in metrics.items()}
    return RunScores(system=system, seed=seed, items=items, metrics=columns)
