"""diff [REVISION]: the reports of this folder against those of a git revision (default HEAD), as Markdown.

Exits 1 when a cell moved out of its metric's tolerance, 2 when there is nothing to compare with.
"""

import sys
from pathlib import Path

from raretokens import config
from raretokens.tables import declarations, diff


def main() -> None:
    parameters = config.load()
    try:
        revision = diff.Revision(sys.argv[1] if len(sys.argv) > 1 else "HEAD")
    except config.UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    moves = diff.compare(revision, declarations.read(Path(parameters.root) / "data/paper"))
    print(diff.to_markdown(revision, moves, diff.parameters(revision)))
    sys.exit(any(move.out for move in moves))


if __name__ == "__main__":
    config.main(main)
