"""Fixtures of several test files."""

from collections.abc import Iterator

import pytest
from accelerate.state import AcceleratorState


@pytest.fixture
def other_accelerator() -> Iterator[None]:
    """Accelerate keeps its settings, such as the precision, for the whole process."""
    AcceleratorState._reset_state(True)
    yield
    AcceleratorState._reset_state(True)
