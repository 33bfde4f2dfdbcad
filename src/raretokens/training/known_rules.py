"""Which optimizer rules there are, read from their files without importing them."""

from pathlib import Path
from typing import Any

from raretokens.declared import literal

FOLDER = Path(__file__).with_name("rules")


def known_rules() -> dict[str, dict[str, Any]]:
    """Name -> option -> default."""
    files = sorted(FOLDER.glob("*.py"))
    return {path.stem: options for path in files if (options := literal(path, "OPTIONS")) is not None}
