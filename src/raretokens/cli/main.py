"""The parser of all commands."""

import argparse
import sys
from importlib import import_module

from raretokens.errors import UserError

PARTS = ("plan", "alpha", "reports")  # files of this folder, each of which adds its commands


def main() -> None:
    """Run the command that the arguments name; a user's mistake is one line and exits 1."""
    parser = argparse.ArgumentParser(prog="python -m raretokens", description="Run from the folder of a scale.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for part in PARTS:
        import_module(f"raretokens.cli.{part}").add(commands)
    arguments = parser.parse_args()
    try:
        arguments.act(arguments)
    except UserError as error:
        sys.exit(f"error: {error}")
