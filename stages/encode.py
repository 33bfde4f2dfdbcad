"""encode {lm,words,nmt}: data/corpus/ -> data/tokens/<name>/ (vocabulary, ids; of pieces also the model)."""

import sys
from pathlib import Path

from raretokens import config
from raretokens.subword import corpus


def main() -> None:
    name = sys.argv[1]
    parameters, into = config.load(), Path("data/tokens") / name
    if name == "words":
        words = parameters.words.vocabulary
        meta = corpus.encode_words(Path("data/corpus/lm"), words.size, words.tokenise, into, words.rows)
    else:
        meta = corpus.encode(name, Path("data/corpus") / name, parameters.task(name).vocabulary, into)
    print(
        f"encode {name}: {meta['vocabulary']} types;",
        ", ".join(f"{k} {v['tokens']:,}" for k, v in meta["splits"].items()),
    )


if __name__ == "__main__":
    config.main(main)
