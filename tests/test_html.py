"""The page of the reports: whole and self-contained as text; in a browser (where there is one) it sorts, filters, enlarges."""

from collections import Counter
from pathlib import Path
from urllib.parse import unquote, urlparse

import pytest
from tiny.page import Page, make_scores, three_seeds
from tiny.run_sheet import DECLARED

from raretokens.pipeline.config import load
from raretokens.pipeline.jobs import run_sheet as sheet_of
from raretokens.report import build

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def reports(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("scale") / "reports"
    make_scores(folder)
    build.write(three_seeds(sheet_of(load(ROOT / "params.yaml"))), DECLARED, folder)
    return folder


@pytest.fixture(scope="module")
def page(reports) -> Page:
    return Page((reports / "index.html").read_text(encoding="utf-8"))


def test_the_page_is_well_formed_and_every_link_leads_somewhere(page, reports):
    assert page.open == []
    ids = page.all("id")
    assert [name for name, count in Counter(ids).items() if count > 1] == []
    for href in page.all("href"):
        target = urlparse(href)
        assert target.scheme in ("", "data"), href
        if target.scheme == "" and target.path:
            assert (reports / unquote(target.path)).is_file(), href
        elif target.scheme == "":
            assert unquote(target.fragment) in ids, href


def test_the_page_loads_nothing(page, reports):
    assert all(src.startswith("data:") for src in page.all("src"))
    text = (reports / "index.html").read_text(encoding="utf-8")
    assert "@import" not in text and "url(" not in text and "fetch(" not in text
    assert "<img src=http" not in text and "&lt;img src=http" in text  # what a run says is text
    assert len(text) < 2e6


def test_the_page_has_what_the_index_has(page, reports):
    ids = set(page.all("id"))
    assert {f"table-{name}" for name in DECLARED.tables} | {f"claim-{name}" for name in DECLARED.claims} <= ids
    assert {f"figure-{name}" for name in DECLARED.figures} <= ids
    assert {"run-lm-mle", "run-lm-mle-2", "run-lm-agg", "run-lm-freeze", "run-nmt-base-mle"} <= ids
    text = (reports / "index.html").read_text(encoding="utf-8")
    sections = {
        name: text.split(f'id="run-lm-{name}"')[1].split("</details>")[0] for name in ("agg", "freeze", "cosreg")
    }
    for said in (
        "x86_64, 2 threads",
        "f51e7ab",
        "1,124,864",
        "undeclared.by_anyone",
        "<polyline",
        '<th scope="row">ppl<',
    ):
        assert said in sections["agg"]
    assert "Trained in 1 min on x86_64" in sections["agg"]
    assert "Trained in 1 h 15 min on another machine; revision of the code: not recorded." in sections["freeze"]
    assert "Training time, machine and revision of the code: not recorded." in sections["cosreg"]
    assert "<polyline" not in sections["freeze"]
    filters = text.split('data-for="claims-table"')[1].split("</fieldset>")[0]
    assert all(f'value="{claim.paper}"' in filters for claim in DECLARED.claims.values())
    heads = [attrs for tag, attrs in page.tags if tag == "th"]
    assert all(attrs.get("scope") in ("col", "row") for attrs in heads)
    tags = Counter(tag for tag, _ in page.tags)
    assert tags["caption"] == tags["table"] and tags["main"] == tags["nav"] == tags["h1"] == 1


@pytest.fixture
def shown(browser, reports):
    """Opens the page in a window of some width and colours; what it complains of fails the test."""
    complaints, windows = [], []

    def show(width: int = 1280, scheme: str = "light"):
        window = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        windows.append(window)
        window.on("pageerror", lambda error: complaints.append(str(error)))
        window.on("console", lambda line: complaints.append(line.text) if line.type == "error" else None)
        window.on("request", lambda asked: complaints.append(asked.url) if asked.url.startswith("http") else None)
        window.goto((reports / "index.html").as_uri())
        return window

    yield show
    for window in windows:
        window.close()
    assert complaints == []


def column(window, table: str, index: int) -> list[str]:
    return window.eval_on_selector_all(
        f"#{table} tbody tr",
        f"rows => rows.map(row => row.cells[{index}].querySelector('.o')?.textContent.replaceAll(',', '') ?? '')",
    )


def test_a_heading_sorts_its_column_by_number_and_back(shown):
    window = shown()
    before = column(window, "table-agg-1", 3)
    heading = window.locator("#table-agg-1 thead th").nth(3)
    for state, sign in (("ascending", 1), ("descending", -1)):
        heading.locator("button").press("Enter")
        assert heading.get_attribute("aria-sort") == state
        after = column(window, "table-agg-1", 3)
        numbers = [float(text) for text in after if text]
        assert len(numbers) >= 3 and numbers == sorted(numbers, key=lambda number: sign * number)
        assert set(after[len(numbers) :]) == {""}  # what has no number stands last
    heading.locator("button").click()
    assert column(window, "table-agg-1", 3) == before


def test_filters_leave_what_was_asked_for(shown):
    window = shown()
    form = window.locator("form[data-for=tables]")
    form.locator("[value=AGG]").uncheck()
    papers = window.eval_on_selector_all("article:not([hidden])", "all => all.map(one => one.dataset.paper)")
    assert set(papers) == {"AGPS", "CosReg", "FRAGE"}
    form.locator("[value=AGG]").check()
    form.locator("[name=status]").select_option("other scale")
    form.locator("[name=metric]").select_option("ppl")
    kept = "article:not([hidden]) tbody tr:not([hidden])"
    rows = window.eval_on_selector_all(
        kept, "rows => rows.map(row => row.querySelectorAll('td.hit:not([hidden])').length)"
    )
    assert rows and all(rows)
    heads = window.eval_on_selector_all(
        "article:not([hidden]) th[data-m]:not([hidden])", "all => all.map(h => h.dataset.m)"
    )
    assert set(heads) == {"ppl"}
    form.locator("[name=metric]").select_option("")
    form.locator("[name=status]").select_option("")
    form.locator("[type=search]").fill("base-mle")  # in the title of no row
    rows = window.eval_on_selector_all('tr[data-runs~="base-mle"]', "rows => rows.map(row => row.hidden)")
    assert rows and not any(rows)
    form.locator("[type=search]").fill("no such word")
    assert form.locator("output").inner_text() == "0 tables, 0 rows"
    form.locator("[type=reset]").click()
    window.wait_for_function("document.querySelectorAll('article[hidden], article [hidden]').length === 0")
    claims = window.locator("form[data-for=claims-table]")
    claims.locator("[name=status]").select_option("holds")
    verdicts = window.eval_on_selector_all(
        "#claims-table tbody tr:not([hidden])", "rows => rows.map(row => row.dataset.s)"
    )
    assert set(verdicts) == {"holds"}


def test_a_cell_a_figure_and_a_claim_open_by_keyboard(shown):
    window = shown()
    cell = window.locator("#table-agg-1 td button").first
    cell.focus()
    cell.press("ArrowRight")
    window.keyboard.press("Enter")
    card = window.locator("#card")
    assert "ours less printed" in card.inner_text() and "ppl" not in card.inner_text()
    card.locator("a").first.click()
    window.locator("details[id=run-lm-mle][open]").wait_for()
    button = window.locator("figure .zoom").first
    button.press("Enter")
    assert window.locator("#zoom").is_visible()
    window.keyboard.press("Escape")
    assert not window.locator("#zoom").is_visible()
    assert button.evaluate("one => one === document.activeElement")
    window.evaluate("location.hash = 'claim-agg-lowers-rare-perplexity'")
    evidence = window.locator("#claim-agg-lowers-rare-perplexity details p").nth(1)
    evidence.wait_for(state="visible")
    assert "42000" in evidence.inner_text()


BACKGROUND = """one => { for (let part = one; part; part = part.parentElement) {
  const colour = getComputedStyle(part).backgroundColor;
  if (!/rgba\\(.*, 0\\)$/.test(colour)) return [getComputedStyle(one).color, colour]; } }"""


def contrast(colours: list[str]) -> float:
    """WCAG 2.2's ratio of two colours written as rgb(r, g, b)."""

    def luminance(colour: str) -> float:
        parts = [int(part) / 255 for part in colour[4:-1].split(",")]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    low, high = sorted(map(luminance, colours))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_readable_in_both_colours_and_on_a_small_screen(shown, scheme):
    window = shown(380, scheme)
    window.evaluate("for (const part of document.querySelectorAll('details')) part.open = true")
    assert window.evaluate("document.documentElement.scrollWidth") <= 380
    seen = ["p", ".lead", "td .o", "td .p", "td .m", "thead button", ".verdict", ".meta", "summary", "a", "nav a", "dd"]
    for selector in [*seen, "#claims-table b", ".effects small", ".note", "output", "figcaption", ".given dt"]:
        parts = window.locator(selector)
        ratios = [contrast(parts.nth(i).evaluate(BACKGROUND)) for i in range(min(parts.count(), 12))]
        assert ratios and min(ratios) >= 4.5, (selector, ratios)


@pytest.mark.parametrize(("width", "media"), [(1400, "screen"), (1047, "print")])  # A4 across, less the margins
def test_every_table_fits_a_window_and_a_printed_page(shown, width, media):
    window = shown(width)
    window.emulate_media(media=media)
    window.evaluate("for (const part of document.querySelectorAll('details')) part.open = true")
    widths = window.eval_on_selector_all(
        "table", "all => all.map(one => [one.caption.textContent, one.scrollWidth - one.parentElement.clientWidth])"
    )
    assert [found for found in widths if found[1] > 0] == []
