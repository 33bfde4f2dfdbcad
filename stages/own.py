"""Check and copy a file of one's own corpus: `python stages/own.py NAME` -> data/raw/own/NAME."""

import sys
from pathlib import Path

from raretokens.config import UserError, load, main
from raretokens.corpora.own import take


def run() -> None:
    if len(sys.argv) != 2:
        raise UserError("usage: python stages/own.py NAME, a key under own: in params.yaml")
    name, files = sys.argv[1], load().own
    if name not in files:
        raise UserError(f"own.{name}: not in params.yaml; there are {', '.join(files) or 'none'}")
    # Relative to the folder of params.yaml, which is the current one.
    take(name, Path(files[name]).expanduser(), Path("data/raw/own") / name)


if __name__ == "__main__":
    main(run)
