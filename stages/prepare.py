"""Write the splits of a task as plain text: `python stages/prepare.py lm|nmt|similarity` -> data/corpus/<task>/."""

import sys
from pathlib import Path

from raretokens.config import UserError, load, main
from raretokens.corpora.registry import TASKS, prepare

RAW = Path("data/raw")


def run() -> None:
    if len(sys.argv) != 2 or sys.argv[1] not in TASKS:
        raise UserError(f"usage: python stages/prepare.py {'|'.join(TASKS)}")
    task, config = sys.argv[1], load()
    out = Path("data/corpus") / task
    if task == "similarity":
        prepare(task, "similarity", RAW, out)
    elif task == "lm":
        prepare(task, config.lm.corpus, RAW, out)
    else:
        prepare(task, config.nmt.corpus, RAW, out, tuple(config.nmt.extra_tests), processes=config.threads)


if __name__ == "__main__":
    main(run)
