"""Names that changed since a scale was verified, so that `adopt` recognises equal content under another name.

The tables are empty unless names changed. After a renaming, fill them, adopt every scale, and empty them again.
"""

import json
import re
from pathlib import PurePath
from typing import Any

# Former word -> present word in job files, commands, stage names, paths, headers, score files and tensors of saved states. Words
# contain letters, digits, underscores and hyphens: "updates" is a word of "training.updates", but not of "save_updates".
NAMES: dict[str, str] = {}
# Keys of jobs that only the former or only the present code writes, and that change no output.
OPTIONAL: tuple[str, ...] = ()


def present(text: str) -> str:
    """Replace former names in a text by present names."""
    return _replaced(text, NAMES)


def former(text: str) -> str:
    """Replace present names in a text by former names."""
    return _replaced(text, {new: old for old, new in NAMES.items()})


def _replaced(text: str, names: dict[str, str]) -> str:
    # A longer name takes precedence over names that are words of it.
    words = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    return re.sub(rf"(?<![\w-])({words})(?![\w-])", lambda found: names[found[0]], text) if names else text


def present_content(name: str, content: bytes) -> bytes:
    """Replace former names in a JSON, CSV or TSV file. Other kinds of files are returned unchanged."""
    return present(content.decode()).encode() if PurePath(name).suffix in (".json", ".csv", ".tsv") else content


def same_content(name: str, old: bytes, new: bytes) -> bool:
    """Return whether two files have equal bytes, or after replacing names equal text, in JSON apart from the parameter hash."""
    translated = present_content(name, old)
    return translated == new or (PurePath(name).suffix == ".json" and parsed(translated) == parsed(new))


def parsed(content: bytes) -> Any:
    """Parse JSON with floats as text, so that their digits are compared. With renames, omit parameter hashes."""
    omitted = "parameters_hash" if NAMES or OPTIONAL else None

    def kept(tree: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in tree.items() if key != omitted}

    return json.loads(content, parse_float=str, object_hook=kept)
