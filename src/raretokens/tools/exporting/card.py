"""The model card: what the run is, what it read, and what was measured, made from its score file."""

from collections.abc import Iterator
from importlib import resources
from typing import Any

import yaml

from raretokens.tools.trained_run import Finished

LICENCE = "apache-2.0"  # of this software, which wrote the weights


def card(finished: Finished, kind: str, cut: str) -> str:
    """Markdown with the header that hubs read. kind: the class of transformers; cut: how text is cut."""
    score = finished.score()
    header = yaml.safe_dump(
        {"license": LICENCE, "library_name": "transformers", "tags": ["raretokens", finished.run["objective"]]},
        sort_keys=False,
    )
    return "\n".join((f"---\n{header}---", *_body(finished, score, kind, cut))) + "\n"


def _body(finished: Finished, score: dict[str, Any], kind: str, cut: str) -> Iterator[str]:
    run = finished.run
    what = "translation model" if finished.task == "nmt" else "language model"
    yield f"# {finished.name}\n"
    yield f"A {what} ({kind}) trained with the objective `{run['objective']}` by raretokens. {cut}"
    yield "It was trained to compare objectives, and is no good for anything else.\n"
    yield "## Data\n"
    yield f"Task `{finished.task}`, tokens `{run['tokens']}`."
    yield from _licences(finished)
    yield "\n## Training\n"
    yield from (f"* {name.replace('_', ' ')}: {value}" for name, value in score["parameters"])
    yield f"* seed: {run['seed']}"
    yield from (f"* {name.replace('_', ' ')} (of the objective): {value}" for name, value in score["options"])
    yield "\n## Scores\n\n| metric | value | how it was measured |\n|---|---|---|"
    signatures = dict(map(tuple, score["signatures"]))
    yield from (
        f"| {path} | {value:g} | {_escaped(_signature(signatures, path))} |" for path, value in _flat(score["metrics"])
    )
    yield f"\n## Licence\n\nThe weights: {LICENCE}, as the software that made them. The text has its own, above."


def _licences(finished: Finished) -> Iterator[str]:
    """Of the archives that the corpus comes from; a text of one's own has none here."""
    corpus = finished.told("prepare", _corpus(finished))["corpus"]
    for entry in sorted(resources.files("raretokens.corpora").joinpath("table").iterdir(), key=lambda one: one.name):
        source = entry.name.removesuffix(".yaml")
        if source.startswith(corpus) or corpus.startswith(source):
            declared = yaml.safe_load(entry.read_text(encoding="utf-8"))
            yield f"* {source}: {declared['licence']}. {declared.get('note', '')}".rstrip()


def _corpus(finished: Finished) -> str:
    """Name of the prepared corpus; token files are named after it, or params.yaml says."""
    parameters = yaml.safe_load((finished.scale / "params.yaml").read_text(encoding="utf-8"))
    return parameters["tokens"][finished.run["tokens"]]["corpus"]


def _flat(tree: dict[str, Any], before: str = "") -> Iterator[tuple[str, float]]:
    for name, value in tree.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{before}{name}.")
        elif isinstance(value, int | float):
            yield before + name, value


def _signature(signatures: dict[str, str], path: str) -> str:
    """That of the longest beginning of the path."""
    parts = path.split(".")
    starts = (".".join(parts[:end]) for end in range(len(parts), 0, -1))
    return next((signatures[start] for start in starts if start in signatures), "")


def _escaped(signature: str) -> str:
    return signature.replace("|", ", ")
