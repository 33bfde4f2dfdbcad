"""Fetch one source of src/raretokens/corpora/table: `python stages/fetch.py SOURCE` -> data/raw/SOURCE/."""

import os
import sys
from pathlib import Path

from raretokens.config import UserError, load, main
from raretokens.corpora.download import fetch


def run() -> None:
    if len(sys.argv) != 2:
        raise UserError("usage: python stages/fetch.py SOURCE")
    name, config = sys.argv[1], load()
    # An environment variable too, because the folder is a matter of the machine and not of the result.
    mirror = os.environ.get("RARETOKENS_MIRROR") or config.mirror
    fetch(name, Path("data/raw") / name, Path(mirror).expanduser() if mirror else None)


if __name__ == "__main__":
    main(run)
