"""Corpora by name. A corpus is a file of this folder that declares which names it serves, task by task.

* SERVES = {"lm": ("name", ...), "nmt": (...)} and LANGUAGES = {"text": ..., "source": ..., "target": ...}
* lm(raw, name) returns {split: lines}; nmt(raw, name) returns {split: pairs of lines}, lazily
* FILTER, of training pairs, may be left out
* TESTS and test(raw, name), pairs of lines: test sets that other corpora of the same languages may borrow
"""

import importlib
import pkgutil
from pathlib import Path
from types import ModuleType

import raretokens.corpora
from raretokens.config import UserError
from raretokens.corpora import own
from raretokens.corpora.splits import Folder, write_counts, write_pairs, write_text

TASKS = ("lm", "nmt", "similarity")


def prepare(task: str, corpus: str, raw: Path, out: Path, extra_tests: tuple[str, ...] = ()) -> None:
    """Write data/corpus/<task>/ (docs/artifacts.md) from the fetched files below `raw`.

    UserError: an unknown corpus or test set, a missing file, unequal numbers of lines. Then `out` does not appear.
    """
    module = _serving(task, corpus)
    with Folder(out) as folder:
        splits = globals()[f"_{task}"](module, corpus, raw, folder, tuple(extra_tests))
        sides = ("source", "target") if task == "nmt" else ("text",)
        write_counts(folder, corpus, {side: module.LANGUAGES[side] for side in sides}, splits)


def known(task: str) -> dict[str, ModuleType]:
    """Name of a corpus -> the module that serves it."""
    return {name: module for module in _modules() for name in getattr(module, "SERVES", {}).get(task, ())}


def _modules() -> list[ModuleType]:
    names = sorted(found.name for found in pkgutil.iter_modules(raretokens.corpora.__path__))
    return [importlib.import_module(f"raretokens.corpora.{name}") for name in names]


def _serving(task: str, corpus: str) -> ModuleType:
    if task not in TASKS:
        raise UserError(f"prepare: {task!r} is not a task; known: {', '.join(TASKS)}")
    corpora = known(task)
    if corpus not in corpora:
        raise UserError(f"{task}.corpus: {corpus!r} is not known; known: {', '.join(sorted(corpora))}")
    return corpora[corpus]


def _lm(module: ModuleType, corpus: str, raw: Path, out: Path, _: tuple[str, ...]) -> dict[str, dict]:
    return {split: write_text(out, split, text) for split, text in module.lm(raw, corpus).items()}


def _nmt(module: ModuleType, corpus: str, raw: Path, out: Path, extra_tests: tuple[str, ...]) -> dict[str, dict]:
    lenders = {name: _lender(module, name, raw) for name in extra_tests}
    splits = {}
    for split, bitext in module.nmt(raw, corpus).items():
        drop = getattr(module, "FILTER", None) if split == "train" else None
        splits[split] = write_pairs(out, split, bitext, drop)
    for name, lender in lenders.items():
        splits[name] = write_pairs(out, name, lender.test(raw, name), None)
    return splits


def _similarity(module: ModuleType, corpus: str, raw: Path, out: Path, _: tuple[str, ...]) -> dict[str, dict]:
    splits = {}
    for name, rows in module.similarity(raw, corpus).items():
        table = "".join(f"{one}\t{other}\t{score:g}\n" for one, other, score in rows)
        (out / f"{name}.tsv").write_text(table, encoding="utf-8", newline="\n")
        splits[name] = {"lines": len(rows), "tokens": {"text": 2 * len(rows)}, "dropped": {}}
    return splits


def _lender(module: ModuleType, name: str, raw: Path) -> ModuleType:
    """The module that has the extra test set, in the languages of the corpus (those of one's own are not known)."""
    if module is own and own.has_test(raw, name):
        return own
    lenders = {test: lender for lender in _modules() for test in getattr(lender, "TESTS", ())}
    sides = ("source", "target")
    fitting = [
        test
        for test, lender in lenders.items()
        if module is own or all(lender.LANGUAGES[side] == module.LANGUAGES[side] for side in sides)
    ]
    if name not in fitting:
        pair = "-".join(module.LANGUAGES[side] for side in sides)
        raise UserError(
            f"nmt.extra_tests: {name!r} is no test set for {pair}; known for it: {', '.join(fitting) or 'none'}"
        )
    return lenders[name]
