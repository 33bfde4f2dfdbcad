"""Corpora by name. A corpus is a file of this folder that declares, in literals, which names it serves, by the kind of text.

* SERVES = {"text": ("name", ...), "bitext": (...)} and LANGUAGES = {"text": ..., "source": ..., "target": ...}
* text(raw, name) returns {split: lines}; bitext(raw, name) returns {split: pairs of lines}, lazily
* filters() returns {split: filter of its pairs} (splits.py), made anew; it may be left out
* TOKENISE, a recipe, where the text is cut into words by Moses (moses.py); then pairs are filtered by their words
* BLEU, where translations of it are not scored as those of WMT14 are (evaluation/metrics/bleu.py)
* documents(raw, name) returns {split: (class, text) of each}; images(raw, name) returns {split: (pixels, classes)}
* TESTS and test(raw, name), pairs of lines: test sets that other corpora of the same languages may borrow
"""

import shutil
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Annotated

from pydantic import Field

from raretokens.corpora import own
from raretokens.corpora.sources import TABLE, check_counts
from raretokens.corpora.splits import (
    Filter,
    Folder,
    Pair,
    write_counts,
    write_documents,
    write_images,
    write_pairs,
    write_similarity,
    write_text,
)
from raretokens.errors import UserError
from raretokens.literals import literal
from raretokens.schema import Strict

KINDS = ("text", "bitext", "similarity", "documents", "images")
SIDES = {kind: ("source", "target") if kind == "bitext" else ("text",) for kind in KINDS}
CORPORA = Path(__file__).parent
WRITERS = {"text": write_text, "similarity": write_similarity, "documents": write_documents, "images": write_images}
MODELS = ("gpt2-bpe",)  # sources that hold no text but how to cut it; encode finds them beside the text


Corpus = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]*$")]


class PrepareJob(Strict):
    """A prepared text: one corpus, as lines or as pairs of lines."""

    kind: str  # text, bitext or similarity
    corpus: Corpus  # a name that a file of corpora/ serves
    extra_tests: list[str] = []  # of a bitext: further test sets
    languages: dict[str, str] = {}  # where its file cannot know them
    processes: int = 1


def known_corpora(kind: str) -> dict[str, str]:
    """Name of a corpus of that kind (text, bitext) -> the file of this folder that declares it in SERVES, without its ending."""
    return dict(sorted((name, file.stem) for file, serves in _literals("SERVES") for name in serves.get(kind, ())))


def borrowable_tests() -> dict[str, str]:
    """Test set that other corpora may borrow -> the file that declares it in TESTS."""
    return {name: file.stem for file, tests in _literals("TESTS") for name in tests}


def corpus_languages(file: str) -> dict[str, str]:
    """Of the texts that a file of this folder serves: text, source and target -> language."""
    return literal(CORPORA / f"{file}.py", "LANGUAGES")


def known_sources() -> list[str]:
    """Names of the sources that can be fetched."""
    return sorted(path.stem for path in TABLE.glob("*.yaml"))


def _literals(what: str) -> Iterator[tuple]:
    for file in sorted(CORPORA.glob("*.py")):
        if value := literal(file, what):
            yield file, value


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

    languages: of one's own text. processes: for tokenising; the result is the same.
    UserError: an unknown corpus or test set, a missing file, unequal numbers of lines, other counts than the table of sources
    states. Then `out` does not appear.
    """
    module = _corpus_module(kind, corpus, f"corpora.{out.name}.corpus")
    with Folder(out) as folder:
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
        write_counts(folder, corpus, sides, splits, getattr(module, "BLEU", None) if kind == "bitext" else None)


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
    """Write a split in the folder tokenised/; of test sets also the plain text beside it, which translations are scored by."""
    from raretokens.corpora import moses  # the other corpora need not wait for it

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
    """The module that has the extra test set, in the languages of the corpus (those of one's own are not known)."""
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
    # Imported by name: a prepared text depends on the file of its own corpus alone.
    return import_module(f"raretokens.corpora.{file}")
