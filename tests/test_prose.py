"""A prose linter: words that the field has a better one for in pages, reports and docstrings; length of sentences in pages."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
GENERATED = {"evidence.md", "verdict.md"}
PAGES = [ROOT / "README.md", *sorted(page for page in (ROOT / "docs").glob("*.md") if page.name not in GENERATED)]
REPORTS = [*ROOT.glob("reports/**/*.md"), *ROOT.glob("scales/*/reports/**/*.md")]
LONGEST_AVERAGE = 20.0  # words in a sentence, on each page
BANNED = {  # pattern -> what to write
    r"\b(?:does not|do not) hold\b": "contradicted",
    r"\bundecided\b": "inconclusive",
    r"\bnot testable here\b": "not testable",
    r"\btold apart\b": "frequency-probe accuracy",
    r"\bPPL among others\b": "perplexity excluding rare types",
    r"\bin print\b": "reported",
    r"\bbuys\b": "improves",
    r"\bspell(?:s|ed)? out\b": "contain",
    r"\blen(?:ds?|t)\b": "borrow, pool",
    r"\bmend(?:s|ed)?\b": "fix",
    r"\ba drill\b|\bdrills\b(?!`?\)|/)": "fault-injection test",
    r"\bknobs?\b": "option",
    r"\brivals?\b": "baseline",
    r"\b(?:reading|readings) of ours\b": "our interpretation",
    r"\bof one's own\b": "your own",
}
SENTENCE_END = re.compile(r"(?<=[.!?])[)\"*_]*\s+(?=[\"`*_(\[A-Z0-9])")


def prose(text: str) -> str:
    """Paragraphs and items of lists, without code, tables, headings, comments and the addresses of links."""
    text = re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.DOTALL)
    text = re.sub(r"<!-- include .*?<!-- end -->", "", text, flags=re.DOTALL)
    text = re.sub(r"^(`{3,}|:{3,}).*?^\1\s*$", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"^(?:\||#|    ).*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"!\[[^\]]*\]\([^)]*\)", "", text)
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)


def sentences(text: str) -> list[str]:
    blocks = re.split(r"\n\s*\n|\n(?=\s*(?:[*+-]|\d+\.) )", prose(text))
    plain = (" ".join(re.sub(r"^\s*(?:[*+-]|\d+\.) ", "", block).split()) for block in blocks)
    parts = (part for block in plain for part in SENTENCE_END.split(block))
    return [part for part in parts if len(re.findall(r"\w+", part)) > 1]


def average(text: str) -> float:
    """Words in a sentence; a name in code counts as a word."""
    found = sentences(text)
    words = [len(re.sub(r"`[^`]*`", "code", one).split()) for one in found]
    return sum(words) / len(words) if words else 0.0


def test_sentences_are_counted_as_a_reader_does():
    text = "# Head\n\nOne two three. Four five `a b c` [six](x.md).\n\n* Seven eight\n\n| a | b |\n\n```\ncode here\n```\n"
    assert [len(one.split()) for one in sentences(text)] == [3, 6, 2]
    assert average(text) == pytest.approx((3 + 4 + 2) / 3)


def banned(text: str) -> list[str]:
    return [f"{match[0]!r}: write {better}" for word, better in BANNED.items() for match in re.finditer(word, text)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_uses_the_words_of_the_field(page):
    assert banned(prose(page.read_text(encoding="utf-8"))) == []


def test_generated_pages_use_the_words_of_the_field():
    found = {page.relative_to(ROOT): banned(page.read_text(encoding="utf-8")) for page in REPORTS}
    assert {page: words for page, words in found.items() if words} == {}


@pytest.mark.parametrize("package", sorted(path.name for path in (ROOT / "src/raretokens").iterdir() if path.is_dir()))
def test_docstrings_use_the_words_of_the_field(package):
    found = {}
    for file in (ROOT / "src/raretokens" / package).rglob("*.py"):
        kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        nodes = (node for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))) if isinstance(node, kinds))
        if words := banned(" ".join(filter(None, map(ast.get_docstring, nodes)))):
            found[file.name] = words
    assert found == {}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_sentences_are_short_on_average(page):
    assert average(page.read_text(encoding="utf-8")) <= LONGEST_AVERAGE
