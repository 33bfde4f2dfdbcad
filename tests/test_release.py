"""What strangers meet first: the pages of the root folder, the forms of issues, the metadata of a release."""

import json
import re
import tomllib
from pathlib import Path

import jsonschema
import pytest
import yaml

ROOT = Path(__file__).parents[1]
PAGES = ["CHANGELOG.md", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md", "SECURITY.md"]


def read(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def anchors(page: str) -> set[str]:
    """The anchors of the headings of a page, as GitHub forms them."""
    headings = re.findall(r"^#+ (.+)$", read(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES)
def test_links_of_a_page_lead_somewhere(page):
    links = re.findall(r"\]\((?!https?://)([^)#]*)(?:#([^)]*))?\)", read(page))
    missing = [path for path, _ in links if path and not (ROOT / path).exists()]
    missing += [f"{path}#{anchor}" for path, anchor in links if anchor and anchor not in anchors(path or page)]
    assert missing == []


def test_contributors_are_told_tests_that_exist_and_the_linter_of_ci():
    named = re.findall(r"tests/test_\w+\.py", read("CONTRIBUTING.md"))
    assert len(named) > 20 and all((ROOT / path).exists() for path in named)
    (hook,) = yaml.safe_load(read(".pre-commit-config.yaml"))["repos"][0]["hooks"]
    assert re.search(r"^(ruff==\S+)", read("requirements.lock"), re.MULTILINE)[1] in hook["additional_dependencies"]
    assert "ruff check" in read("Makefile") and hook["entry"].startswith("ruff check")


@pytest.mark.parametrize("form", ["bug", "method", "reproduction"])
def test_an_issue_form_is_one_that_github_accepts(form):
    tree = yaml.safe_load(read(f".github/ISSUE_TEMPLATE/{form}.yaml"))
    assert {"name", "description", "body"} <= tree.keys()
    fields = [field["id"] for field in tree["body"]]
    assert len(set(fields)) == len(fields) and any(field.get("validations", {}).get("required") for field in tree["body"])
    assert all(field["type"] in {"input", "textarea", "checkboxes"} for field in tree["body"])
    assert all(field["attributes"]["label"] for field in tree["body"])


def test_a_committed_score_file_has_the_form_that_the_schema_describes():
    validator = jsonschema.Draft202012Validator(json.loads(read("docs/score-file.schema.json")))
    files = [file for folder in ("reports", "scales/small/reports") for file in ROOT.glob(f"{folder}/runs/*/*.json")]
    assert len(files) > 100
    for file in files:
        validator.validate(json.loads(file.read_text(encoding="utf-8")))


def test_both_files_of_metadata_and_the_changelog_describe_the_same_release():
    citation, codemeta = yaml.safe_load(read("CITATION.cff")), json.loads(read("codemeta.json"))
    assert (codemeta["name"], codemeta["description"]) == (citation["title"], citation["abstract"])
    assert codemeta["license"] == f"https://spdx.org/licenses/{citation['license']}"
    assert codemeta["keywords"] == citation["keywords"]
    assert [author["name"] for author in codemeta["author"]] == [author["name"] for author in citation["authors"]]
    assert [(one["name"], one["datePublished"], one["url"]) for one in codemeta["referencePublication"]] == [
        (one["title"], str(one["year"]), one["url"]) for one in citation["references"]
    ]
    project = tomllib.loads(read("pyproject.toml"))
    assert project["project"]["license"] == citation["license"]
    newest = re.search(r"^## (\d+\.\d+\.\d+)", read("CHANGELOG.md"), re.MULTILINE)[1]
    assert newest == citation["version"] == codemeta["version"] == project["tool"]["hatch"]["version"]["fallback-version"]
    assert citation.get("date-released") == codemeta.get("dateModified")
