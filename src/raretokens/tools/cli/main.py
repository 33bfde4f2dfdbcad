"""The parser of all commands."""

import argparse
import sys
from importlib import import_module

from raretokens.ending import one_line

# Files of this folder, each of which adds its commands; and the extra whose libraries it needs.
PARTS = {
    "measure": "",
    "export": "pipeline",
    "plan": "pipeline",
    "alpha": "pipeline",
    "cluster": "pipeline",
    "reports": "pipeline",
    "stages": "pipeline",
}


def main() -> None:
    """Run the command that the arguments name; a user's mistake is one line and exits 1."""
    asked = sys.argv[1] if sys.argv[1:] else ""
    arguments = parser([asked] if asked in PARTS else list(PARTS)).parse_args()
    try:
        with one_line():
            arguments.act(arguments)
    except ModuleNotFoundError as error:
        if (error.name or "raretokens").startswith("raretokens"):
            raise
        sys.exit(f"error: {error.name} is not installed: pip install 'raretokens[pipeline]'")


def parser(parts: list[str]) -> argparse.ArgumentParser:
    """The commands of some parts; those whose libraries are missing are named with the extra that they need."""
    made = argparse.ArgumentParser(
        prog="raretokens",
        description="Measure and train models whose rare tokens matter. All commands but measure work in the folder of a scale.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = made.add_subparsers(required=True, metavar="COMMAND")
    missing = []
    for part in parts:
        try:
            import_module(f"raretokens.tools.cli.{part}").add(commands)
        except ModuleNotFoundError as error:
            if (error.name or "raretokens").startswith("raretokens"):
                raise
            missing.append(f"{part}: pip install 'raretokens[{PARTS[part]}]'")
    if missing:
        made.epilog = "Not installed:\n  " + "\n  ".join(missing)
    return made
