"""probe RUN: data/runs/lm/<run>/ and data/tokens/ -> data/probes/<run>/ (what a language model says of the test text)."""

import sys
from pathlib import Path

import numpy as np

from raretokens import config
from raretokens.decoding import probe


def main() -> None:
    parameters = config.load()
    run = parameters.run("lm", sys.argv[1])
    checkpoint, into = Path("data/runs/lm") / run.name / "model.safetensors", Path("data/probes") / run.name
    probed = probe.language_model(parameters, run, checkpoint, Path("data/tokens") / run.tokens)
    into.mkdir(parents=True, exist_ok=True)
    for what, values in probed._asdict().items():
        np.save(into / f"{what}.npy", values)
    nll = -probed.logprob.mean(dtype=float)
    print(f"probe {run.name}: {len(probed.logprob):,} test tokens, mean NLL {nll:.4f}")


if __name__ == "__main__":
    config.main(main)
