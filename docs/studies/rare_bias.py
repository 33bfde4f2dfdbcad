"""Does one constant on the logits of all rare types do as much as a method?

    cd scales/small && python ../../docs/studies/rare_bias.py agg-2 agg-3 freeze-b-2 freeze-b-3 agps-2 agps-3

Methods that limit the gradient of rare rows leave more probability on rare types. This alone lowers the perplexity of rare
targets. The logit-bias baseline adds a constant to the rare logits of maximum likelihood, without any training. The constant
is chosen on the same test text. It gives rare types the same total probability as the method, or it costs the same total
perplexity. A method has learnt more about rare types only if it is better than both baselines.

The study prints a line for each run and each baseline, and writes rare-bias-<scale>.csv. It has the mean total
probability of rare types, and perplexities as ratios to maximum likelihood of the same seed.
"""

import sys
from collections.abc import Iterator

import numpy as np
from scipy.optimize import brentq, minimize_scalar
from shared import print_table, read_vocabulary, write_table

from raretokens.metrics.predictions import perplexity
from raretokens.vocabulary import GROUP_NAMES, RARE
from reproduction.corpora.tokenization.token_files import tokens as stream
from reproduction.paths import predictions, tokens
from reproduction.pipeline.parameters_file import load

KINDS = ("total", *GROUP_NAMES)
COLUMNS = ["run", "beside", "what", "constant", "rare share", *KINDS]
LARGEST = 20.0  # nats
Predicted = tuple[np.ndarray, np.ndarray]  # log-probability of the target, and of all rare types together, one for each position


def biased(predicted: Predicted, rare: np.ndarray, constant: float) -> Predicted:
    """Return predictions with the constant added to the logits of all rare types. `rare`: whether the target is rare."""
    logprob, of_rare = predicted
    norm = np.logaddexp(np.log1p(-np.exp(np.minimum(of_rare, -1e-12))), of_rare + constant)
    return logprob + constant * rare - norm, of_rare + constant - norm


def matched_constants(baseline: Predicted, method: Predicted, rare: np.ndarray) -> Iterator[tuple[str, float]]:
    """Yield what the baseline shares with the method, and its constant. Yield nothing where no constant above 0 achieves this."""

    def share(predicted: Predicted) -> float:
        return float(np.exp(predicted[1]).mean())

    def nll(predicted: Predicted) -> float:
        return float(-predicted[0].mean())

    cheapest = minimize_scalar(lambda constant: nll(biased(baseline, rare, constant)), bounds=(0.0, LARGEST)).x
    for what, number, start in (("same rare share", share, 0.0), ("same total", nll, cheapest)):
        aim = number(method)
        if number(biased(baseline, rare, start)) < aim:
            yield what, brentq(lambda constant: number(biased(baseline, rare, constant)) - aim, start, LARGEST)  # noqa: B023


def cells(predicted: Predicted, baseline: Predicted, targets: np.ndarray, groups: np.ndarray) -> list[str]:
    own, plain = (perplexity(one[0], targets, groups, window=0, context=0)[0] for one in (predicted, baseline))
    return [f"{np.exp(predicted[1]).mean():.4f}", *(f"{own[kind] / plain[kind]:.3f}" for kind in KINDS)]


def main(*runs: str) -> None:
    parameters, rows = load(), []
    for name in runs:
        run = parameters.run("lm", name)
        beside = "mle" if run.seed == 1 else f"mle-{run.seed}"
        (_, groups), targets = read_vocabulary(run.tokens, parameters), stream(tokens(run.tokens), "test")
        method, baseline = read(name), read(beside)
        rows.append([name, beside, "the run", "", *cells(method, baseline, targets, groups)])
        rare = groups[targets] == RARE
        for what, constant in matched_constants(baseline, method, rare):
            with_constant = biased(baseline, rare, constant)
            rows.append([name, beside, what, f"{constant:.3f}", *cells(with_constant, baseline, targets, groups)])
    print_table(COLUMNS, rows, width=15)
    write_table(f"rare-bias-{parameters.scale}", COLUMNS, rows)


def read(run: str) -> Predicted:
    return tuple(np.load(predictions("lm", run) / f"{part}.npy").astype(np.float64) for part in ("logprob", "rare"))


if __name__ == "__main__":
    main(*sys.argv[1:])
