"""Fixtures of several test files."""

import gc
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from accelerate.state import AcceleratorState

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"]
FLAGS += ["--disable-background-networking", "--disable-component-update"]


gc.disable()  # until all is imported, because importing makes no garbage worth a search


def pytest_collection_finish() -> None:
    gc.enable()


# Reasons that RARETOKENS_ALL_TESTS accepts.
LARGE = ("RARETOKENS_MIRROR", "RARETOKENS_MODELS", "a reference is asked of", "the time that merges take")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo) -> Iterator[None]:
    """Where RARETOKENS_ALL_TESTS is set, as in CI, a test that lacks a package or a program fails instead of being skipped."""
    report = yield
    if report.skipped and "RARETOKENS_ALL_TESTS" in os.environ and not hasattr(report, "wasxfail"):
        reason = str(report.longrepr)
        report.outcome = "skipped" if any(one in reason for one in LARGE) else "failed"
    return report


@pytest.fixture(scope="module", autouse=True)
def kept_modules() -> None:
    """What earlier files imported stays. Each training of transformers collects garbage, and searched all of it in vain."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Token files for tiny.trainer, whose runs change the type that tensors have."""
    from tiny.trainer import write_tokens  # which the library's own tests do without

    write_tokens(tmp_path)
    yield tmp_path
    torch.set_default_dtype(torch.float32)


@pytest.fixture
def other_accelerator() -> Iterator[None]:
    """Accelerate keeps its settings, such as the precision, for the whole process."""
    AcceleratorState._reset_state(True)
    yield
    AcceleratorState._reset_state(True)


@pytest.fixture
def float64() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture
def in_tmp_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def mirror() -> Path:
    """The folder with the real corpora, which are too large to fetch for a test; a corpus missing in it fails the test."""
    folder = os.environ.get("RARETOKENS_MIRROR")
    if not folder:
        pytest.skip("real corpora: name a folder with them in RARETOKENS_MIRROR")
    return Path(folder)


@pytest.fixture(scope="session")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="no playwright: no page is tried in a browser")
    if CHROMIUM is None:
        pytest.skip("no chromium on this machine: no page is tried in a browser")
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield opened
        opened.close()
