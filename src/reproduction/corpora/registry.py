"""Find corpora by name and prepare their text. A corpus is a module of this folder with the following definitions.

* SERVES = {"text": ("name", ...), "bitext": (...)} and LANGUAGES = {"text": ..., "source": ..., "target": ...}, as literals
* text(raw, name) returns {split: lines}, and bitext(raw, name) returns {split: pairs of lines}, lazily
* filters() returns new filters, {split: filter of its pairs} (splits.py); optional
* TOKENISE: a Recipe, if Moses tokenises the text (moses.py) before pairs are filtered
* BLEU: options of BLEU, if they differ from those of WMT14 (tasks/evaluation/bleu.py)
* documents(raw, name) returns {split: (class, text) of each document}; images(raw, name) returns {split: (pixels, classes)}
* TESTS and test(raw, name), which returns pairs of lines: test sets that other corpora of the same languages can use
"""

import shutil
from collections.abc import Iterable, Mapping
from importlib import import_module
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Annotated

from pydantic import Field

from raretokens.errors import UserError
from raretokens.literals import literal, literals
from raretokens.schema import Strict
from reproduction.corpora import own
from reproduction.corpora.sources import TABLE, check_counts
from reproduction.corpora.splits import (
    Filter,
    Pair,
    new_folder,
    write_counts,
    write_documents,
    write_images,
    write_pairs,
    write_similarity,
    write_text,
)

KINDS = ("text", "bitext", "similarity", "documents", "images")
SIDES = {kind: ("source", "target") if kind == "bitext" else ("text",) for kind in KINDS}
CORPORA = Path(__file__).parent
WRITERS = {"text": write_text, "similarity": write_similarity, "documents": write_documents, "images": write_images}
MODELS = ("gpt2-bpe",)  # sources of published subword models, copied next to the text for the stage `encode`


Corpus = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]*$")]


class PrepareJob(Strict):
    """Job spec of the stage that prepares the text of a corpus."""

    kind: str  # one of KINDS
    corpus: Corpus  # a name in SERVES of a module of corpora/
    extra_tests: list[str] = []  # further test sets of a bitext
    languages: dict[str, str] = {}  # languages of a user's own corpus
    processes: int = 1


def known_corpora(kind: str) -> dict[str, str]:
    """Return corpus name -> name of the module that declares it in SERVES, for corpora of one of KINDS."""
    served = literals(CORPORA, "SERVES").items()
    return dict(sorted((name, file) for file, serves in served for name in serves.get(kind, ())))


def borrowable_tests() -> dict[str, str]:
    """Return test set -> name of the module that declares it in TESTS, for test sets that other corpora can use."""
    return {name: file for file, tests in literals(CORPORA, "TESTS").items() for name in tests}


def corpus_languages(file: str) -> dict[str, str]:
    """Return the languages of `text`, `source` and `target` of a module's corpora; file: name of the module."""
    return literal(CORPORA / f"{file}.py", "LANGUAGES")


def prepare(
    kind: str,
    corpus: str,
    raw: Path,
    out: Path,
    extra_tests: tuple[str, ...] = (),
    *,
    languages: Mapping[str, str] = MappingProxyType({}),
    processes: int = 1,
    table: Path = TABLE,
) -> None:
    """Write data/corpus/<name>/ (docs/artifacts.md) from the fetched files below `raw`.

    Args:
        languages: Languages of a user's own text.
        processes: Number of processes for tokenising, which does not affect the result.
    Raises:
        UserError: The corpus or a test set is unknown, a file is missing, or numbers of lines differ within a pair of files
            or from the table of sources. `out` is then not created.
    """
    module = _corpus_module(kind, corpus, f"corpora.{out.name}.corpus")
    with new_folder(out) as folder:
        if kind == "bitext":
            lenders = {name: _test_module(module, name, raw, f"corpora.{out.name}.extra_tests") for name in extra_tests}
            splits = _bitext(module, corpus, raw, folder, lenders, processes)
        else:
            rows = getattr(module, kind)(raw, corpus)
            splits = {split: WRITERS[kind](folder, split, of_split) for split, of_split in rows.items()}
        check_counts(kind, corpus, splits, out, table)
        for model in MODELS:
            if kind in ("text", "bitext") and (raw / model).is_dir():
                shutil.copytree(raw / model, folder / model)
        sides = {side: module.LANGUAGES[side] for side in SIDES[kind]} | dict(languages)
        _report_dropped(out.name, splits)
        write_counts(folder, corpus, sides, splits, getattr(module, "BLEU", None) if kind == "bitext" else None)


def _report_dropped(name: str, splits: Mapping[str, dict]) -> None:
    """Print a line for each split that lost lines, with the reasons."""
    for split, row in splits.items():
        if dropped := {reason: count for reason, count in row["dropped"].items() if count}:
            lost = sum(dropped.values())
            reasons = ", ".join(f"{reason}: {count:,}" for reason, count in dropped.items())
            print(f"prepare {name}: {split}: {lost:,} of {lost + row['lines']:,} lines are left out ({reasons})", flush=True)


def _corpus_module(kind: str, corpus: str, key: str) -> ModuleType:
    if kind not in SIDES:
        raise UserError(f"prepare: {kind!r} is no kind of text; known: {', '.join(SIDES)}")
    known = known_corpora(kind)
    if corpus not in known:
        raise UserError(f"{key}: {corpus!r} is not known; known: {', '.join(known)}")
    return _module(known[corpus])


def _bitext(
    module: ModuleType, corpus: str, raw: Path, out: Path, lenders: dict[str, ModuleType], processes: int
) -> dict[str, dict]:
    tests = {name: lender.test(raw, name) for name, lender in lenders.items()}
    splits, filters = {}, getattr(module, "filters", dict)()
    for split, bitext in (module.bitext(raw, corpus) | tests).items():
        if hasattr(module, "TOKENISE"):
            splits[split] = _tokenise_split(module, split, bitext, out, filters.get(split), processes)
        else:
            splits[split] = write_pairs(out, split, bitext, filters.get(split))
    return splits


def _tokenise_split(
    module: ModuleType, split: str, bitext: Iterable[Pair], out: Path, drop: Filter | None, processes: int
) -> dict:
    """Write a split to the folder tokenised/, and the plain text of test sets, which serves for scoring, to `out`."""
    from reproduction.corpora import moses  # imported here because it is slow and only some corpora need it

    recipe, languages = module.TOKENISE, (module.LANGUAGES["source"], module.LANGUAGES["target"])
    into = out / "tokenised"
    into.mkdir(exist_ok=True)
    if split in ("train", "valid"):
        return write_pairs(into, split, moses.tokenise_pairs(bitext, languages, recipe, True, processes), drop)
    whole = list(bitext)
    row = write_pairs(out, split, (tuple(map(recipe.plain, pair)) for pair in whole), None)
    left = write_pairs(into, split, moses.tokenise_pairs(whole, languages, recipe, False, processes), None)["lines"]
    if left != row["lines"]:
        raise UserError(f"{split}: {row['lines'] - left} sentences have no word; a test set must keep all of them")
    return row


def _test_module(module: ModuleType, name: str, raw: Path, key: str) -> ModuleType:
    """Return the module that provides an extra test set, in the languages of the corpus unless it is a user's own."""
    if module is own and own.has_test(raw, name):
        return own
    lenders, pair = borrowable_tests(), _pair(module.LANGUAGES)
    fitting = [test for test, file in lenders.items() if module is own or _pair(corpus_languages(file)) == pair]
    if name not in fitting:
        raise UserError(f"{key}: {name!r} is no test set for {pair}; known for it: {', '.join(fitting) or 'none'}")
    return _module(lenders[name])


def _pair(languages: dict[str, str]) -> str:
    return f"{languages['source']}-{languages['target']}"


def _module(file: str) -> ModuleType:
    # Import by name, so that a prepared text depends only on the module of its own corpus.
    return import_module(f"reproduction.corpora.{file}")
