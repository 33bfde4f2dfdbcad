"""probe TASK RUN: data/runs/<task>/<run>/ -> data/probes/<task>/<run>/ (the table; language models: what they predict)."""

import sys
from pathlib import Path

import numpy as np
from safetensors import safe_open

from raretokens import config


def main() -> None:
    task, name = sys.argv[1:]
    parameters = config.load()
    run = parameters.run(task, name)
    checkpoint, into = Path("data/runs") / task / name / "model.safetensors", Path("data/probes") / task / name
    into.mkdir(parents=True, exist_ok=True)
    with safe_open(checkpoint, framework="numpy") as weights:
        np.save(into / "table.npy", weights.get_tensor("table"))
    if task == "lm":
        language_model(parameters, run, checkpoint, into)


def language_model(parameters: config.Parameters, run: config.Run, checkpoint: Path, into: Path) -> None:
    from raretokens.decoding import probe  # imports torch, which a table alone does not need

    probed = probe.language_model(parameters, run, checkpoint, Path("data/tokens") / run.tokens)
    for what, values in probed._asdict().items():
        np.save(into / f"{what}.npy", values)
    nll = -probed.logprob.mean(dtype=float)
    print(f"probe lm/{run.name}: {len(probed.logprob):,} test tokens, mean NLL {nll:.4f}")


if __name__ == "__main__":
    config.main(main)
