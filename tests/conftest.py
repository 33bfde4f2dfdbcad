"""Fixtures of several test files."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from accelerate.state import AcceleratorState


@pytest.fixture
def other_accelerator() -> Iterator[None]:
    """Accelerate keeps its settings, such as the precision, for the whole process."""
    AcceleratorState._reset_state(True)
    yield
    AcceleratorState._reset_state(True)


@pytest.fixture(scope="session")
def mirror() -> Path:
    """The folder with the real corpora, which are too large to fetch for a test; a corpus missing in it fails the test."""
    folder = os.environ.get("RARETOKENS_MIRROR")
    if not folder:
        pytest.skip("real corpora: name a folder with them in RARETOKENS_MIRROR")
    return Path(folder)
