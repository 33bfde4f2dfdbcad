"""The documentation site, from docs/ and the small scale's reports: no warning, no dead link, nothing loaded from elsewhere."""

import os
import re
import subprocess
import sys
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import unquote, urlparse

import pytest
import torch

ROOT = Path(__file__).parents[1]
RARE_CLAIM = "results/small/agg/index.html#claim-agg-lowers-rare-perplexity"


class Page(HTMLParser):
    """Identifiers and addresses of a page."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.headings = 0  # of the first level
        self.links: list[str] = []
        self.sources: list[str] = []
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.headings += tag == "h1"
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            elif name == "href" and value and tag in ("a", "link"):
                (self.sources if tag == "link" else self.links).append(value)
            elif name == "src" and value:
                self.sources.append(value)


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """Fails where Sphinx warns."""
    folder = tmp_path_factory.mktemp("site")
    options = ["-q", "-W", "--keep-going", "-D", "scales=small", "-d", folder / "doctrees"]  # a user's demo is left out
    command = [sys.executable, "-m", "sphinx", *options, "docs", folder / "html"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder / "html"


@pytest.fixture(scope="module")
def pages(site) -> dict[Path, Page]:
    return {file: Page(file) for file in site.rglob("*.html")}


def test_every_link_leads_somewhere(site, pages):
    for file, page in pages.items():
        for link in page.links:
            target = urlparse(link)
            if target.scheme:
                continue
            path = (file.parent / unquote(target.path)).resolve() if target.path else file
            assert path.exists(), (file, link)
            if target.fragment and path in pages and path.name not in ("genindex.html", "search.html"):
                assert unquote(target.fragment) in pages[path].ids, (file, link)


def test_the_page_for_language_models_is_at_the_root_and_its_snippet_runs(site):
    text = (site / "llms.txt").read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert len(links) > 5 and all((site / link).exists() for link in links)
    (snippet,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    model = torch.nn.Linear(4, 8, bias=False)
    names = {"counts": torch.arange(1, 9), "d": 4, "k": 2, "model": model, "embedding": model.weight}
    exec(snippet, names | {"hidden": torch.randn(3, 4), "targets": [torch.tensor([1, 2, 3])]})
    assert model.weight.grad is not None


def test_no_page_needs_the_network(pages):
    for file, page in pages.items():
        assert [source for source in page.sources if urlparse(source).scheme not in ("", "data")] == [], file


def test_every_table_figure_and_claim_has_its_place_once(site, pages):
    small, reports = site / "results/small", ROOT / "scales/small/reports"
    for file in (reports / "tables").glob("*.md"):  # also those of other settings
        paper, number, *setting = file.stem.split("-", 2)
        page = "-".join(["text" if number == "text" else f"table-{number}", *setting])
        assert small / f"{paper}/{page}.html" in pages, file
    inside = [page for file, page in pages.items() if file.is_relative_to(small)]
    shown = {Path(source).stem for page in inside for source in page.sources}
    for file in (reports / "figures").glob("*.csv"):  # Sphinx adds a number to a name that both scales have
        assert any(re.fullmatch(rf"{file.stem}\d*", name) for name in shown), file
    rows = (reports / "claims.csv").read_text().splitlines()[1:]
    found = Counter(name for page in inside for name in page.ids if name.startswith("claim-"))
    assert found == {f"claim-{row.split(',')[0]}": 1 for row in rows}


def test_files_that_a_report_names_are_links(site, pages):
    """To the page of the site if there is one, else to the file in the repository."""
    file = site / "results/small/methods.html"
    links = {(file.parent / urlparse(link).path).resolve() for link in pages[file].links if not urlparse(link).scheme}
    assert {site / "glossary.html", site / "objectives.html", site / "parameters.html", site / "studies.html"} <= links
    names = ("benchmarks/step-cpu.csv", "data/paper/searches.yaml", "docs/studies/rare-bias-small.csv")
    assert {ROOT / name for name in names} <= links


def test_the_page_of_a_table_links_to_its_other_settings_and_its_claims(site, pages):
    table = pages[site / "results/small/agg/table-3.html"]
    assert "table-3-32k.html" in table.links and "index.html#claim-agg-lowers-rare-perplexity" in table.links


def test_links_of_the_start_page_lead_to_pages(site, pages):
    """Not to the Markdown that a page was made from, nor to a folder of the same name. Scripts and CITATION.cff are no pages."""
    parsed = [urlparse(link) for link in pages[site / "index.html"].links]
    links = {link.path for link in parsed if link.path and not link.scheme and not link.path.endswith((".py", ".cff"))}
    assert len(links) > 20
    for link in links:
        assert link.endswith(".html") and pages[(site / link).resolve()].headings == 1, link


@pytest.fixture
def shown(browser, site):
    """Open a page in a window of some width and colours. What the page complains of fails the test."""
    complaints, windows = [], []

    def show(page: str, width: int = 1400, scheme: str = "light"):
        window = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        windows.append(window)
        window.on("pageerror", lambda error: complaints.append(str(error)))
        window.on("console", lambda line: complaints.append(line.text) if line.type == "error" else None)
        window.on("request", lambda asked: complaints.append(asked.url) if asked.url.startswith("http") else None)
        window.goto(f"{site.as_uri()}/{page}")
        return window

    yield show
    for window in windows:
        window.close()
    assert complaints == []


def test_a_heading_sorts_its_column_and_a_cell_finds_its_sources(shown):
    window = shown("results/small/agg/table-3.html")
    heading = window.locator(".grid thead th").nth(3)
    heading.locator(".dt-column-order").wait_for()
    for direction in ("ascending", "descending"):
        while heading.get_attribute("aria-sort") != direction:
            heading.click()
            window.wait_for_timeout(200)
        read = "rows => rows.map(row => parseFloat(row.cells[3].textContent.replace(',', ''))).filter(one => !isNaN(one))"
        numbers = window.eval_on_selector_all(".grid tbody tr", read)
        assert len(numbers) > 3 and numbers == sorted(numbers, reverse=direction == "descending")
    rows = window.locator("#sources-of-each-cell tbody tr")
    cell = ".grid tbody tr:has(td:first-child p:text-is('{}')) td:nth-child(4)"
    window.locator(cell.format("AGG")).click()
    assert rows.count() == 1 and "wiki-agg wiki-agg-2" in rows.inner_text().replace("\xa0", " ")
    window.locator(cell.format("MLE")).press("Enter")
    assert rows.count() == 1 and "wiki-mle wiki-mle-2" in rows.inner_text().replace("\xa0", " ")


def test_filters_leave_what_was_asked_for(shown):
    window = shown("results/small/claims.html")
    window.locator(".dtsp-searchPane >> text=/^FRAGE$/").first.click()
    read = "rows => rows.map(row => row.cells[3].textContent.trim())"
    papers = window.eval_on_selector_all(".filtered table.docutils tbody tr", read)
    assert papers and set(papers) == {"FRAGE"}


def test_the_counts_of_readme_are_those_that_the_filter_of_the_claims_leaves(shown):
    window = shown("results/small/claims.html")
    window.locator(".dtsp-searchPane >> text=/^yes$/").first.click()
    *_, total = (ROOT / "scales/small/reports/verdicts.csv").read_text().splitlines()[-1].split(",")
    assert f"of {total} entries" in window.locator(".dt-info").first.inner_text()
    assert f"| {total} |" in (ROOT / "README.md").read_text()


def test_an_address_opens_its_claim_and_its_run(shown):
    window = shown(RARE_CLAIM)
    card = window.locator("details[id=claim-agg-lowers-rare-perplexity][open]")
    card.wait_for()
    assert "99034.9" in card.inner_text()
    card.locator("a").first.click()
    run = window.locator("details[id=run-wiki-agg][open]")
    run.wait_for()
    assert "0.03" in run.locator(".facts").inner_text()
    window.locator(".chart").scroll_into_view_if_needed()
    window.locator(".plot svg.marks").wait_for()


BACKGROUND = """one => { for (let part = one; part; part = part.parentElement) {
  const colour = getComputedStyle(part).backgroundColor;
  if (!/rgba\\(.*, 0\\)$/.test(colour)) return [getComputedStyle(one).color, colour]; } }"""


def contrast(colours: list[str]) -> float:
    """WCAG 2.2's ratio of two colours written as rgb(r, g, b)."""

    def luminance(colour: str) -> float:
        parts = [float(part) / 255 for part in colour[colour.index("(") + 1 : -1].split(",")[:3]]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    low, high = sorted(map(luminance, colours))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("page", ["index.html", RARE_CLAIM, "results/small/claims.html", "results/small/methods.html"])
@pytest.mark.slow
def test_pages_are_readable_in_both_colours_and_on_a_phone(shown, page, scheme):
    window = shown(page, 380, scheme)
    window.wait_for_load_state("networkidle")
    assert window.evaluate("document.documentElement.scrollWidth") <= 380
    for selector in ("p", "td", "th", "[data-verdict]", ".facts dt", "article a"):
        parts = window.locator(f"[role=main] {selector}")
        ratios = [contrast(parts.nth(i).evaluate(BACKGROUND)) for i in range(min(parts.count(), 12))]
        assert not ratios or min(ratios) >= 4.5, (selector, ratios)


def test_figures_are_legible_on_a_phone_and_methods_have_charts(shown):
    """The smallest letters of a figure are drawn with about 10 px, so it must not shrink below three quarters."""
    window = shown("index.html", 420)
    read = "all => all.map(one => one.getBoundingClientRect().width / one.naturalWidth)"
    scales = window.eval_on_selector_all("[role=main] img", read)
    assert len(scales) > 2 and min(scales) > 0.75
    window = shown("results/small/methods.html", 420, "dark")
    window.locator(".chart").first.scroll_into_view_if_needed()
    window.locator(".plot svg .mark-symbol path").first.wait_for()


def test_print_shows_what_is_folded(shown):
    window = shown(RARE_CLAIM)
    window.emulate_media(media="print")
    window.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert window.evaluate("[...document.querySelectorAll('article details')].every(one => one.open)")
    assert not window.locator(".sidebar-drawer").is_visible()


def test_the_list_of_versions_has_a_link_on_a_published_site_alone(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs")
    from _extension import link_versions

    shown = {}
    for address in ("", "https://example.org/blob/main/"):
        source = [(ROOT / "docs/versioning.md").read_text(encoding="utf-8")]
        link_versions(SimpleNamespace(config=SimpleNamespace(repository_files=address)), "versioning", source)
        shown[address] = 'href="../versions.html"' in source[0]
    assert list(shown.values()) == [False, True]
