"""What strangers meet first: the pages of the root folder, the metadata of a release."""

import ast
import csv
import json
import re
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import jsonschema
import pytest
import yaml

ROOT = Path(__file__).parents[1]
PAGES = ["CHANGELOG.md", *(f".github/{name}.md" for name in ("CODE_OF_CONDUCT", "CONTRIBUTING", "SECURITY"))]


def read(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def anchors(page: Path) -> set[str]:
    """The anchors of the headings of a page, as GitHub forms them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES)
def test_links_of_a_page_lead_somewhere(page):
    links = re.findall(r"\]\((?!https?://)([^)#]*)(?:#([^)]*))?\)", read(page))
    file = ROOT / page
    targets = [(file.parent / path if path else file, anchor) for path, anchor in links]
    missing = [target for target, _ in targets if not target.exists()]
    missing += [f"{target}#{anchor}" for target, anchor in targets if anchor and anchor not in anchors(target)]
    assert missing == []


def test_the_hook_has_the_linter_of_ci():
    (hook,) = yaml.safe_load(read(".pre-commit-config.yaml"))["repos"][0]["hooks"]
    assert re.search(r"^(ruff==\S+)", read("requirements.lock"), re.MULTILINE)[1] in hook["additional_dependencies"]
    assert "ruff check" in read("Makefile") and hook["entry"].startswith("ruff check")


def test_a_committed_score_file_has_the_form_that_the_schema_describes():
    validator = jsonschema.Draft202012Validator(json.loads(read("docs/score-file.schema.json")))
    files = list(ROOT.glob("scales/small/reports/runs/*/*.json"))
    assert len(files) > 100
    for file in files:
        validator.validate(json.loads(file.read_text(encoding="utf-8")))


def test_all_files_of_metadata_describe_the_same_release():
    citation, project = yaml.safe_load(read("CITATION.cff")), tomllib.loads(read("pyproject.toml"))
    assert project["project"]["license"] == citation["license"]
    assert project["project"]["keywords"] == citation["keywords"]
    fallback = project["tool"]["hatch"]["version"]["fallback-version"]
    newest = re.search(r"^## (\d+\.\d+\.\d+)", read("CHANGELOG.md"), re.MULTILINE)[1]
    assert newest == citation["version"] == fallback.removesuffix(".dev0")


def rows(path: str) -> list[list[str]]:
    return list(csv.reader((ROOT / path).open(encoding="utf-8", newline="")))


def numbers(cells: list[str]) -> list[float]:
    return [float(number) for cell in cells for number in re.findall(r"[+-]?\d+(?:\.\d+)?", cell)]


def test_a_number_of_the_paper_is_that_of_the_report_it_names():
    body = read("docs/paper/paper.md")
    claims = {
        "perplexity of rare targets": "AGG lowers the perplexity of rare targets",
        "perplexity of all targets": "AGG keeps the perplexity of all targets",
        "word similarity on MEN": "AGG improves word similarity on MEN",
        "BLEU of the base Transformer": "AGG improves the BLEU of the base Transformer",
    }
    main = rows("scales/small/reports/main.csv")
    for metric, claim in claims.items():
        (line,) = re.findall(rf"^\| {metric}, (.*)$", body, re.MULTILINE)
        (row,) = (row for row in main if row[0].startswith(claim))
        assert numbers(line.split("|")) == numbers(row[2:5]), metric
    bias = "logit bias, 1 parameter, equal total perplexity"
    (row,) = (row for row in rows("scales/small/reports/decomposition.csv") if row[0] == "agg" and row[2] == bias)
    (told,) = re.findall(r"lowers rare perplexity to a ratio of (0\.\d+)", body)
    assert row[3] == "3" and f"{float(row[4]):.2f}" == told
    (gated,) = (
        row for row in rows("benchmarks/loss-cpu.csv") if row[:6] == ["8192", "44256", "512", "float32", "gated", "cpu"]
    )
    assert f"takes {float(gated[9]) * 100:.0f} % of the peak memory" in body


def test_every_imported_library_is_declared():
    """In the dependencies or in an extra; a library that a declared one requires counts."""
    project = tomllib.loads(read("pyproject.toml"))["project"]
    declared = {canonical(line) for group in project["optional-dependencies"].values() for line in group}
    declared |= {canonical(line) for line in project["dependencies"]}
    brought = declared | {
        canonical(line)
        for name in declared
        if next(metadata.distributions(name=name), None)
        for line in metadata.requires(name) or ()
        if "extra ==" not in line
    }
    owners = metadata.packages_distributions()
    missing = {
        name
        for file in (ROOT / "src").rglob("*.py")
        for name in imported(ast.parse(file.read_text(encoding="utf-8")))
        if not brought & {canonical(owner) for owner in owners.get(name, [name])}
    }
    assert missing <= {"reproduction"}  # the other package of the clone


def test_the_library_is_tested_with_the_oldest_versions_that_it_allows():
    project = tomllib.loads(read("pyproject.toml"))["project"]
    lines = [*project["dependencies"], *project["optional-dependencies"]["transformers"]]
    lowest = dict(re.fullmatch(r"([\w-]+)>=([\d.]+)", line).groups() for line in lines if ">=" in line)
    (job,) = yaml.safe_load(read(".github/workflows/library.yaml"))["jobs"].values()
    (oldest,) = (one for one in job["strategy"]["matrix"]["include"] if one["name"] == "oldest")
    assert oldest["versions"].split() == [f"{name}=={version}.0" for name, version in lowest.items()]
    assert project["requires-python"] == f">={oldest['python']}"


def test_the_tests_of_the_library_need_no_pipeline():
    listed = [ROOT / path for path in read("tests/library.txt").split()]
    modules = [*listed, ROOT / "tests/conftest.py"]
    for file in modules:  # grows by the helpers that they import
        tree = ast.parse(file.read_text(encoding="utf-8"))
        if file.name == "conftest.py":  # its fixtures import more where a test of the pipeline asks for it
            tree.body = [node for node in tree.body if not isinstance(node, ast.FunctionDef)]
        assert "reproduction" not in imported(tree), file
        names = re.findall(r"(?:from|import) (?:tiny(?:\.| import )|(?=test_))(\w+)", ast.unparse(tree))
        helpers = [path for name in names for path in ROOT.glob(f"tests/tiny/{name}.py")]
        modules += [path for path in helpers + [ROOT / f"tests/{name}.py" for name in names if name.startswith("test_")]
                    if path not in modules]  # fmt: skip
    assert len(listed) > 20 and len(modules) > len(listed) + 3


def canonical(requirement: str) -> str:
    return re.sub(r"[-_.]+", "-", re.match(r"[\w.-]+", requirement)[0]).lower()


def imported(tree: ast.AST) -> set[str]:
    modules = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    modules |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and not node.level}
    return {module.split(".")[0] for module in modules} - set(sys.stdlib_module_names) - {"raretokens"}
