"""probe TASK RUN: data/runs/<task>/<run>/ -> data/probes/<task>/<run>/ (the table; language models: what they predict)."""

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
        probed = probe.language_model(parameters, run, checkpoint, Path("data/tokens") / run.tokens)
        for what, values in probed._asdict().items():
            np.save(into / f"{what}.npy", values)
        nll = -probed.logprob.mean(dtype=float)
        print(f"probe {task}/{name}: {len(probed.logprob):,} test tokens, mean NLL {nll:.4f}")


if __name__ == "__main__":
    config.main(main)
