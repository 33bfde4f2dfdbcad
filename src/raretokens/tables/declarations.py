"""The declarations of data/paper, checked when they are read: a mistake names file, key, value and what is allowed."""

import fnmatch
import re
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, RootModel, ValidationError

from raretokens.config import UserError
from raretokens.tables.names import unknown_runs

BRACES = re.compile(r"\{(.+?)\}")


class Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Tolerance(Section):
    rel: float | None = None
    abs: float | None = None

    def allows(self, before: float, after: float) -> bool:
        """Whether `after` lies within the tolerance of `before`; the wider of the two bounds counts."""
        bound = max(self.abs or 0.0, (self.rel or 0.0) * abs(before))
        return abs(after - before) <= bound + 1e-12


EXACT = Tolerance(abs=0.0)  # of what no training touches


class Metric(Section):
    title: str
    unit: str
    digits: int
    direction: Literal["up", "down"]
    match: Tolerance
    drift: Tolerance


class Column(Section):
    title: str
    metric: str
    column: str | None = None  # of the printed table; absent: ours only
    group: str | None = None
    size: str | None = None  # fills {size} in the names of runs


class Row(Section):
    title: str
    runs: Annotated[list[str], Field(min_length=1)]
    quoted: bool = False
    data: bool = False
    size: str | None = None  # the only size of columns that it fills


class Table(Section):
    title: str
    paper: str
    place: str
    printed: str
    task: Literal["lm", "nmt"]
    columns: list[Column] = []
    neighbours: int = 0  # a table of that many nearest neighbours a query, instead of columns
    rows: list[Row]
    also: bool = False


class Side(Section):
    runs: Annotated[list[str], Field(min_length=1)]
    metric: str
    printed: tuple[str, str, str, str] | None = None  # file, row, column, group


class Claim(Section):
    paper: str
    place: str
    statement: str
    task: Literal["lm", "nmt"]
    left: Side
    right: Side
    effect: Literal["ratio", "difference"]
    expect: Literal["lower", "higher"]
    than: float | None = None  # of the effect; 1 for a ratio, 0 for a difference

    @property
    def threshold(self) -> float:
        return self.than if self.than is not None else {"ratio": 1.0, "difference": 0.0}[self.effect]


class Panel(Section):
    title: str
    kind: Literal["scatter", "line"]
    series: str
    runs: dict[str, list[str]]  # legend -> names of runs, tried in order
    x: str
    y: str


class Figure(Section):
    title: str
    paper: str
    place: str
    task: Literal["lm", "nmt"]
    panels: list[Panel]
    drift: float  # mean shift of a curve or cloud, as a share of its range


class Scale(Section):
    corpora: dict[Literal["lm", "nmt"], str]  # what is said holds for these
    text: str
    shows: str
    hides: str


class Declarations(Section):
    metrics: dict[str, Metric]
    tables: dict[str, Table]
    claims: dict[str, Claim]
    figures: dict[str, Figure]
    scales: dict[str, Scale]

    def metric(self, path: str) -> Metric:
        """How a metric path is shown and compared: the first pattern that fits; UserError where none does."""
        for pattern, metric in self.metrics.items():
            if fnmatch.fnmatchcase(path, pattern):
                return metric
        raise UserError(f"metric {path!r} is not declared; metrics.yaml has {', '.join(self.metrics)}")


KINDS: dict[str, Any] = {"metrics": Metric, "tables": Table, "claims": Claim, "figures": Figure, "scales": Scale}


def read(folder: Path) -> Declarations:
    """metrics.yaml, tables.yaml, claims.yaml, figures.yaml and scales.yaml of a folder; UserError, a line per mistake."""
    parts: dict[str, Any] = {name: _read(folder / f"{name}.yaml", kind) for name, kind in KINDS.items()}
    declared = Declarations(**{**parts, "metrics": _spelt_out(parts["metrics"])})
    mistakes = [f"{folder}/{line}" for line in (*_unknown_metrics(declared), *unknown_runs(declared, folder))]
    if mistakes:
        raise UserError("\n".join(mistakes))
    return declared


def _read(path: Path, kind: type[Section]) -> dict[str, Section]:
    try:
        return RootModel[dict[str, kind]].model_validate(yaml.safe_load(path.read_text(encoding="utf-8"))).root
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except yaml.YAMLError as error:
        raise UserError(f"{path}: not YAML: {' '.join(str(error).split())}") from None
    except ValidationError as error:
        lines = (f"{path}: {'.'.join(map(str, e['loc']))}: {e['input']!r}: {e['msg'].lower()}" for e in error.errors())
        raise UserError("\n".join(lines)) from None


def _spelt_out(metrics: dict[str, Metric]) -> dict[str, Metric]:
    """`uniq.{freq,med}` stands for `uniq.freq` and `uniq.med`; what is declared first stays."""
    found: dict[str, Metric] = {}
    for pattern, metric in metrics.items():
        braces = BRACES.search(pattern)
        for part in braces[1].split(",") if braces else [""]:
            found.setdefault(pattern.replace(braces[0], part) if braces else pattern, metric)
    return found


def _unknown_metrics(declared: Declarations) -> list[str]:
    used = [
        (f"tables.yaml: {name}", column.metric) for name, table in declared.tables.items() for column in table.columns
    ]
    used += [
        (f"claims.yaml: {name}", side.metric)
        for name, claim in declared.claims.items()
        for side in (claim.left, claim.right)
    ]
    allowed = ", ".join(declared.metrics)
    return [
        f"{place}: metric {metric!r} is not declared; metrics.yaml has {allowed}"
        for place, metric in used
        if not any(fnmatch.fnmatchcase(metric, pattern) for pattern in declared.metrics)
    ]
