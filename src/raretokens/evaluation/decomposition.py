"""Split the perplexity of a language model into the probability of the target's group and the perplexity within the group.

p(target) = P(group of the target) x p(target | group), so perplexity of a group = perplexity within the group / P(group), where
P(group) is a geometric mean over the targets of the group. A constant on the logits of a group changes only P(group).
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from pydantic import PositiveInt
from scipy.stats import rankdata
from torch import nn

from raretokens.evaluation.config import LanguageModelEvaluation
from raretokens.evaluation.language_model import windows
from raretokens.evaluation.metrics import bootstrap
from raretokens.evaluation.metrics.predictions import perplexity
from raretokens.evaluation.score_files import Metrics, layout, write_bootstrap, write_json, write_rows
from raretokens.models.registry import build, load_weights
from raretokens.run import Run
from raretokens.schema import Section
from raretokens.tokenization.config import Groups
from raretokens.tokenization.token_files import tokens
from raretokens.tokenization.vocabulary import EOS, GROUP_NAMES, RARE, VOCABULARY, Vocabulary

TOKENS_AT_ONCE = 4096  # tokens per forward pass; affects speed only
# Slopes of the logit bias, per nat of log frequency.
SLOPES = np.array([-0.5, -0.25, -0.15, -0.1, -0.05, 0, 0.05, 0.1, 0.15, 0.25, 0.5, 0.75, 1])
CONSTANTS = np.linspace(-6.0, 6.0, 25)  # nats on the logits of all rare types
BIASED = {"valid": ("total", "rare"), "test": ("total", *GROUP_NAMES)}  # perplexities in <run>.logit-bias.csv
BIAS_COLUMNS = (
    *("slope", "constant"),
    *(f"{split}_{name}" for split, names in BIASED.items() for name in ("rare_mass", *names)),
)


class DecompositionJob(Section):
    """Job spec of decomposing the perplexity of a language model."""

    run: Run
    groups: Groups
    evaluation: LanguageModelEvaluation
    unit: str  # unit of a token: `piece` (subword token) or `word`
    threads: PositiveInt
    logit_bias: bool  # whether the run is a baseline that constants are added to
    parameters_hash: str


class Masses(NamedTuple):
    """Teacher-forced predictions of a text of T tokens. All logarithms are natural, all arrays float64."""

    logprob: np.ndarray  # T: log-probability of each token
    groups: np.ndarray  # T x 3: log total probability of the types of each frequency group
    tilted: np.ndarray  # T x slopes x 2: log of the sum of p(v) f(v)^-slope over the types v that are not rare, and that are


def decompose(job: DecompositionJob, folder: Path, trained: Path, scores: Path) -> None:
    """Write <run>.decomposition.json, <run>.decomposition.bootstrap.csv and <run>.logit-bias.csv.

    Args:
        folder: Folder of the token files.
        trained: Folder of the trained model.
        scores: Output folder.
    """
    run, vocabulary = job.run, Vocabulary.read(folder / VOCABULARY)
    groups = vocabulary.frequency_groups(job.groups)
    model = build(run.architecture, run.shape, len(vocabulary), max(job.evaluation.window, job.evaluation.block))
    load_weights(model, trained / "model.safetensors")
    model = model.to("cuda" if torch.cuda.is_available() else "cpu").eval()
    frequency = log_frequency(vocabulary.counts)
    slopes = SLOPES if job.logit_bias else SLOPES[:0]
    texts = {split: np.asarray(tokens(folder, split)) for split in ("valid", "test")}
    found = {split: masses(model, text, job.evaluation, groups, frequency, slopes) for split, text in texts.items()}
    reach = {"window": job.evaluation.window, "context": job.evaluation.context, "unit": job.unit}
    metrics, replicates = decomposition(found["test"], texts["test"], groups, reach)
    metrics |= validation(found["valid"], texts["valid"], groups, reach)
    tree = layout({"run": run.name, "task": run.task, "objective": run.objective, "seed": run.seed}, metrics)
    tree["parameters_hash"] = job.parameters_hash
    biases = [(slope, constant) for slope in slopes.tolist() for constant in CONSTANTS.tolist()]
    biased = {split: logit_bias(found[split], texts[split], groups, frequency, slopes) for split in texts}
    rows = [
        [*bias, *(biased[split][index][name] for split, names in BIASED.items() for name in ("rare_mass", *names))]
        for index, bias in enumerate(biases)
    ]
    write_bootstrap(scores / f"{run.name}.decomposition.bootstrap.csv", replicates)
    write_rows(scores / f"{run.name}.logit-bias.csv", BIAS_COLUMNS, rows)
    write_json(scores / f"{run.name}.decomposition.json", tree)
    print(f"decompose {run.name}: P(rare) {metrics['mass'][0]['rare']:.3g}, perplexity within the rare group "
          f"{metrics['ppl_within'][0]['rare']:.4g}")  # fmt: skip


def log_frequency(counts: np.ndarray) -> np.ndarray:
    """Return the centred natural log frequency of each type (N). Types that do not occur count as if they occurred once."""
    logs = np.log(np.maximum(counts, 1))
    return logs - logs.mean()


@torch.no_grad()
def masses(
    model: nn.Module,
    text: np.ndarray,
    settings: LanguageModelEvaluation,
    groups: np.ndarray,
    frequency: np.ndarray,
    slopes: np.ndarray,
) -> Masses:
    """Predict a text with the windows of perplexity, and sum the probabilities of groups of types at each position.

    Args:
        model: A model of models/, in evaluation mode.
        text: Token ids, T.
        groups: Frequency group of each id, N.
        frequency: log_frequency(), N.
        slopes: Slopes of the logit-bias baseline; may be empty.
    """
    embedding, rare = model.embedding, groups == RARE
    members = np.stack([groups == code for code in GROUP_NAMES.values()], 1).astype(float)
    factors = np.exp(-np.outer(frequency, slopes))
    parts = np.stack([factors * ~rare[:, None], factors * rare[:, None]], 2).reshape(len(groups), -1)
    weights = torch.from_numpy(np.concatenate([members, parts], 1)).float().to(embedding.device)
    logprob, sums = np.empty(len(text)), np.empty((len(text), weights.shape[1]))
    for start, first, inputs in _inputs(text, settings):
        hidden = model(torch.from_numpy(inputs).to(embedding.device))[:, first:]
        logs = (hidden @ embedding.T).float().log_softmax(-1)
        for row, begin in zip(logs, start + first, strict=True):
            end = min(begin + len(row), len(text))
            row = row[: end - begin]
            targets = torch.from_numpy(text[begin:end].astype(np.int64)).to(row.device)
            logprob[begin:end] = row.gather(1, targets[:, None])[:, 0].double().cpu()
            sums[begin:end] = (row.exp() @ weights).double().log().cpu()
    count = len(GROUP_NAMES)
    return Masses(logprob, sums[:, :count], sums[:, count:].reshape(len(text), len(slopes), 2))


def _inputs(text: np.ndarray, settings: LanguageModelEvaluation) -> Iterator[tuple[np.ndarray, int, np.ndarray]]:
    """Yield batches of windows: start positions, the first position of a window that is scored, and input ids.

    The input of a position is the token before it. The first input is </s>, which also fills windows beyond the text.
    """
    before = np.concatenate(([EOS], text, np.full(settings.window, EOS))).astype(np.int64)
    for window, starts in windows(len(text), settings).items():
        if window.scored is None:
            continue
        step = max(TOKENS_AT_ONCE // window.length, 1)
        for index in range(0, len(starts), step):
            batch = np.array(starts[index : index + step])
            yield batch, window.scored, before[batch[:, None] + np.arange(window.length)]


def decomposition(
    found: Masses, targets: np.ndarray, groups: np.ndarray, reach: dict[str, int | str]
) -> tuple[Metrics, bootstrap.Replicates]:
    """Return the metrics of a test text and their bootstrap replicates, by frequency group of the target.

    `ppl_within`: exp of the mean of -log p(target | group). `mass`: geometric mean of P(group) over the targets of the group.
    `ppl` = `ppl_within` / `mass`, also in total. `auc.rare`: area under the ROC curve of P(rare) as a prediction that the
    target is rare; ties count half.
    """
    own = _of_targets(found.groups, targets, groups)
    within, signature = perplexity(found.logprob - own, targets, groups, **reach)
    inverse, _ = perplexity(own, targets, groups, **reach)
    mass = {name: None if value is None else 1 / value for name, value in inverse.items()}
    of_rare, rare = found.groups[:, GROUP_NAMES["rare"]], groups[targets] == RARE
    metrics: Metrics = {
        "ppl_within": (within, f"{signature}|within:frequency-group"),
        "mass": (mass, f"{signature}|mean:geometric"),
        "auc": ({"rare": auc(of_rare, rare)}, "of:P(rare)|positive:rare-targets|split:test"),
    }
    replicates = bootstrap.perplexity(found.logprob - own, targets, groups)
    masses_of = bootstrap.perplexity(own, targets, groups)
    return metrics, {
        **{f"ppl_within.{name}": values for name, values in replicates.items()},
        **{f"mass.{name}": 1 / values for name, values in masses_of.items()},
    }


def validation(found: Masses, targets: np.ndarray, groups: np.ndarray, reach: dict[str, int | str]) -> Metrics:
    """Return `valid_ppl` and the arithmetic mean of P(rare), `valid_rare_mass`, by which the logit-bias baseline is chosen."""
    value, signature = perplexity(found.logprob, targets, groups, **reach, split="valid")
    mass = float(np.exp(found.groups[:, GROUP_NAMES["rare"]]).mean())
    return {
        "valid_ppl": (value, signature),
        "valid_rare_mass": ({"total": mass}, "of:rare-types|split:valid"),
    }


def _of_targets(logs: np.ndarray, targets: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Return the log-probability of the target's group at each position; 0 where the target is in no group."""
    group = groups[targets]
    return np.where(group < 0, 0.0, np.take_along_axis(logs, np.maximum(group, 0)[:, None].astype(int), 1)[:, 0])


def auc(score: np.ndarray, positive: np.ndarray) -> float | None:
    """Return the area under the ROC curve (Mann-Whitney U / pairs), or None where one class is empty."""
    count, others = int(positive.sum()), int((~positive).sum())
    if not count or not others:
        return None
    return float((rankdata(score)[positive].sum() - count * (count + 1) / 2) / (count * others))


def logit_bias(
    found: Masses, targets: np.ndarray, groups: np.ndarray, frequency: np.ndarray, slopes: np.ndarray
) -> list[dict[str, float | None]]:
    """Return mean P(rare) and perplexities by group after adding a bias to the logits, for all slopes and CONSTANTS.

    The bias of type v is constant x [v is rare] - slope x log f(v). A slope of 0 leaves one constant on all rare types. Slopes
    are logit adjustment (Menon et al. 2021).
    """
    rare, rows = groups[targets] == RARE, []
    for index, slope in enumerate(slopes):
        others, of_rare = found.tilted[:, index, 0], found.tilted[:, index, 1]
        tilted = found.logprob - slope * frequency[targets]
        for constant in CONSTANTS:
            norm = np.logaddexp(others, of_rare + constant)
            values, _ = perplexity(tilted + constant * rare - norm, targets, groups, window=0, context=0)
            mass = float(np.exp(of_rare + constant - norm).mean())
            rows.append({"rare_mass": mass, **values})
    return rows
