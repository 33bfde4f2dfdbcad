"""Corpora by name. A corpus is a file of this folder that declares, in literals, which names it serves, task by task.

* SERVES = {"lm": ("name", ...), "nmt": (...)} and LANGUAGES = {"text": ..., "source": ..., "target": ...}
* lm(raw, name) returns {split: lines}; nmt(raw, name) returns {split: pairs of lines}, lazily
* FILTER, of training pairs, may be left out; TOKENISE = True where the text is cut into words by Moses (moses.py)
* TESTS and test(raw, name), pairs of lines: test sets that other corpora of the same languages may borrow
"""

import shutil
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from types import ModuleType

from raretokens.corpora import names, own
from raretokens.corpora.sources import TABLE, check_counts
from raretokens.corpora.splits import Folder, Pair, pairs, write_counts, write_pairs, write_text
from raretokens.errors import UserError

TASKS = ("lm", "nmt", "similarity")
MODELS = ("gpt2-bpe",)  # sources that hold no text but how to cut it; encode finds them beside the text


def prepare(
    task: str,
    corpus: str,
    raw: Path,
    out: Path,
    extra_tests: tuple[str, ...] = (),
    *,
    processes: int = 1,
    table: Path = TABLE,
) -> None:
    """Write data/corpus/<task>/ (docs/artifacts.md) from the fetched files below `raw`.

    processes: for tokenising; the result is the same. UserError: an unknown corpus or test set, a missing file, unequal
    numbers of lines, other counts than the table of sources states. Then `out` does not appear.
    """
    module = _serving(task, corpus, f"corpora.{out.name}.corpus")
    with Folder(out) as folder:
        if task == "nmt":
            lenders = {name: _lender(module, name, raw, f"corpora.{out.name}.extra_tests") for name in extra_tests}
            splits = _nmt(module, corpus, raw, folder, lenders, processes)
        else:
            splits = {"lm": _lm, "similarity": _similarity}[task](module, corpus, raw, folder)
        check_counts(task, corpus, splits, out, table)
        for model in MODELS:
            if task != "similarity" and (raw / model).is_dir():
                shutil.copytree(raw / model, folder / model)
        sides = ("source", "target") if task == "nmt" else ("text",)
        write_counts(folder, corpus, {side: module.LANGUAGES[side] for side in sides}, splits)


def _serving(task: str, corpus: str, key: str) -> ModuleType:
    if task not in TASKS:
        raise UserError(f"prepare: {task!r} is not a task; known: {', '.join(TASKS)}")
    known = names.corpora(task)
    if corpus not in known:
        raise UserError(f"{key}: {corpus!r} is not known; known: {', '.join(known)}")
    return _module(known[corpus])


def _lm(module: ModuleType, corpus: str, raw: Path, out: Path) -> dict[str, dict]:
    return {split: write_text(out, split, text) for split, text in module.lm(raw, corpus).items()}


def _nmt(
    module: ModuleType, corpus: str, raw: Path, out: Path, lenders: dict[str, ModuleType], processes: int
) -> dict[str, dict]:
    tests = {name: lender.test(raw, name) for name, lender in lenders.items()}
    splits = {}
    for split, bitext in (module.nmt(raw, corpus) | tests).items():
        if getattr(module, "TOKENISE", False):
            splits[split] = _tokenised(module, split, bitext, out, processes)
        else:
            splits[split] = write_pairs(
                out, split, bitext, getattr(module, "FILTER", None) if split == "train" else None
            )
    return splits


def _tokenised(module: ModuleType, split: str, bitext: Iterable[Pair], out: Path, processes: int) -> dict:
    """A split in the folder tokenised/; of test sets also the plain text beside it, which translations are scored by."""
    from raretokens.corpora import moses  # the other corpora need not wait for it

    training, languages = split in ("train", "valid"), (module.LANGUAGES["source"], module.LANGUAGES["target"])
    into = out / "tokenised"
    into.mkdir(exist_ok=True)
    if training:
        return write_pairs(into, split, moses.tokenised(bitext, languages, True, processes), None)
    row = write_pairs(out, split, bitext, None)
    plain = pairs(out / f"{split}.source", out / f"{split}.target")
    left = write_pairs(into, split, moses.tokenised(plain, languages, False, processes), None)["lines"]
    if left != row["lines"]:
        raise UserError(f"{split}: {row['lines'] - left} sentences have no word; a test set must keep all of them")
    return row


def _similarity(module: ModuleType, corpus: str, raw: Path, out: Path) -> dict[str, dict]:
    splits = {}
    for name, rows in module.similarity(raw, corpus).items():
        table = "".join(f"{one}\t{other}\t{score:g}\n" for one, other, score in rows)
        (out / f"{name}.tsv").write_text(table, encoding="utf-8", newline="\n")
        splits[name] = {"lines": len(rows), "tokens": {"text": 2 * len(rows)}, "dropped": {}}
    return splits


def _lender(module: ModuleType, name: str, raw: Path, key: str) -> ModuleType:
    """The module that has the extra test set, in the languages of the corpus (those of one's own are not known)."""
    if module is own and own.has_test(raw, name):
        return own
    lenders, pair = names.lenders(), _pair(module.LANGUAGES)
    fitting = [test for test, file in lenders.items() if module is own or _pair(names.languages(file)) == pair]
    if name not in fitting:
        raise UserError(f"{key}: {name!r} is no test set for {pair}; known for it: {', '.join(fitting) or 'none'}")
    return _module(lenders[name])


def _pair(languages: dict[str, str]) -> str:
    return f"{languages['source']}-{languages['target']}"


def _module(file: str) -> ModuleType:
    # Imported by name: a prepared text depends on the file of its own corpus alone.
    return import_module(f"raretokens.corpora.{file}")
