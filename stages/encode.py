"""encode TASK: data/corpus/<task>/ -> data/tokens/<task>/ (SentencePiece model, vocabulary, ids)."""

import sys
from pathlib import Path

from raretokens import config
from raretokens.subword.corpus import encode


def main() -> None:
    task = sys.argv[1]
    parameters = config.load()
    meta = encode(task, Path("data/corpus") / task, parameters.task(task).vocabulary, Path("data/tokens") / task)
    print(
        f"encode {task}: {meta['vocabulary']} types;",
        ", ".join(f"{k} {v['tokens']:,}" for k, v in meta["splits"].items()),
    )


if __name__ == "__main__":
    config.main(main)
