"""translate RUN: data/runs/nmt/<run>/ and data/tokens/nmt/ -> data/hypotheses/<run>/ (text and how it was decoded)."""

import json
import sys
from pathlib import Path

from raretokens import config
from raretokens.decoding.translate import translate


def main() -> None:
    parameters = config.load()
    run = parameters.run("nmt", sys.argv[1])
    checkpoint, tokens = Path("data/runs/nmt") / run.name / "model.safetensors", Path("data/tokens/nmt")
    into = Path("data/hypotheses") / run.name
    into.mkdir(parents=True, exist_ok=True)
    tests = ("test", *parameters.nmt.extra_tests)
    for test, lines in translate(parameters, run, checkpoint, tokens, tests):
        (into / f"{test}.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        print(f"translate {run.name}: {test}, {len(lines)} sentences", flush=True)
    meta = {**parameters.nmt.decoding.model_dump(), "keep": parameters.nmt.training.keep}
    (into / "meta.json").write_text(json.dumps(meta, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    config.main(main)
