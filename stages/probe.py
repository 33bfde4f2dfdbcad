"""probe TASK RUN: data/runs/<task>/<run>/ -> data/probes/<task>/<run>/ (the table; of language models also predictions)."""

import sys
from pathlib import Path

import numpy as np

from raretokens import config
from raretokens.decoding import probe


def main() -> None:
    task, name = sys.argv[1:]
    parameters = config.load()
    run = parameters.run(task, name)
    folder, into = Path("data/runs") / task / name, Path("data/probes") / task / name
    into.mkdir(parents=True, exist_ok=True)
    checkpoint = folder / "model.safetensors"
    np.save(into / "table.npy", probe.table(checkpoint))
    if task == "lm":
        logprob, prediction = probe.language_model(parameters, run, checkpoint, Path("data/tokens/lm"))
        np.save(into / "logprob.npy", logprob)
        np.save(into / "prediction.npy", prediction)
        print(f"probe {task}/{name}: {len(logprob):,} test tokens, mean NLL {-logprob.mean(dtype=float):.4f}")


if __name__ == "__main__":
    config.main(main)
