"""diff [REVISION]: the reports of this folder against those of a git revision (default HEAD), as Markdown.

Exits 1 when a cell moved out of its metric's tolerance, 2 with one line when there is nothing to compare with.
"""

import sys
from pathlib import Path

from raretokens import config
from raretokens.errors import UserError
from raretokens.reporting.declarations import reading
from raretokens.reporting.diff.comparison import compare
from raretokens.reporting.diff.moves_markdown import to_markdown
from raretokens.reporting.diff.revision import Revision


def main() -> None:
    try:
        parameters = config.load()
        revision = Revision(sys.argv[1] if len(sys.argv) > 1 else "HEAD")
        moves = compare(revision, reading.read(Path(parameters.root) / "data/paper"))
        print(to_markdown(revision, moves, revision.parameters()))
    except UserError as error:  # 1 means that something moved
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    sys.exit(any(move.out for move in moves))


if __name__ == "__main__":
    config.main(main)
