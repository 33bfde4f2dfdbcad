"""Split the perplexity of a language model into the probability of the target's group and the perplexity within the group.

p(target) = P(group of the target) x p(target | group), so perplexity of a group = perplexity within the group / P(group), where
P(group) is a geometric mean over the targets of the group. A constant on the logits of a group changes only P(group).

An objective such as AGG has a rare group of its own: the types whose mean count per training step is below a threshold. The
logit-bias baseline of such a run adds its constant to that group. But results of maximum likelihood must not depend on an option
of another objective. So its frontier has the constant on the rarest types of each of GROUP_SHARES, and the method is compared
with the group whose share is closest to its own.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from raretokens.loss.logits_objective import head_logits
from raretokens.loss.terms import PLAIN, Head
from raretokens.metrics import bootstrap
from raretokens.metrics.predictions import auc, perplexity
from raretokens.metrics.reading import windows
from raretokens.metrics.score_files import Metrics, Replicates, layout, write_bootstrap, write_json, write_rows
from raretokens.vocabulary import EOS, GROUP_NAMES, RARE, SPECIALS, VOCABULARY, Vocabulary
from reproduction.corpora.tokenization.token_files import tokens
from reproduction.tasks.evaluation.job_specs import DecompositionJob, LanguageModelEvaluation
from reproduction.training.models.registry import build, load_weights

TOKENS_AT_ONCE = 4096  # tokens per forward pass; affects speed only
# Slopes of the logit bias, per nat of log frequency.
SLOPES = np.array([-0.5, -0.25, -0.15, -0.1, -0.05, 0, 0.05, 0.1, 0.15, 0.25, 0.5, 0.75, 1])
CONSTANTS = np.linspace(-6.0, 6.0, 25)  # nats on the logits of all rare types
GROUP_SHARES = np.arange(1, 51) / 100  # of the types, rarest first; further groups that the constant acts on
# Numbers in <run>.logit-bias.csv: the mean probability of the group that the constant acts on, and perplexities.
BIASED = {"valid": ("mass", "total", "rare"), "test": ("mass", "total", *GROUP_NAMES)}
BIAS_COLUMNS = ("share", "slope", "constant", *(f"{split}_{name}" for split, names in BIASED.items() for name in names))


class GroupPredictions(NamedTuple):
    """Teacher-forced predictions of a text of T tokens. All logarithms are natural, all arrays float64."""

    logprob: np.ndarray  # T: log-probability of each token
    groups: np.ndarray  # T x 3: log total probability of the types of each frequency group
    tilted: np.ndarray  # T x slopes x 2: log of the sum of p(v) f(v)^-slope over the types v that are not rare, and that are
    nested: np.ndarray  # T x G: log total probability of the types of further groups


def decompose(job: DecompositionJob, folder: Path, trained: Path, scores: Path) -> None:
    """Write <run>.decomposition.json, <run>.decomposition.bootstrap.csv and <run>.logit-bias.csv to `scores`."""
    run, vocabulary = job.run, Vocabulary.read(folder / VOCABULARY)
    groups = vocabulary.frequency_groups(job.groups)
    model = build(run.architecture, run.shape, len(vocabulary), max(job.evaluation.window, job.evaluation.block))
    load_weights(model, trained / "model.safetensors")
    model = model.to("cuda" if torch.cuda.is_available() else "cpu").eval()
    frequency = log_frequency(vocabulary.counts)
    slopes = SLOPES if job.logit_bias else SLOPES[:0]
    nested = nested_groups(vocabulary)
    shares = nested.sum(0) / _may_be_rare(vocabulary).sum()
    texts = {split: np.asarray(tokens(folder, split)) for split in ("valid", "test")}
    head = Head(softcap=run.options.get("softcap"))
    found = {
        split: masses(model, text, job.evaluation, groups, frequency, slopes, nested, head) for split, text in texts.items()
    }
    reach = {"window": job.evaluation.window, "context": job.evaluation.context, "unit": job.unit}
    metrics, replicates = decomposition(found["test"], texts["test"], groups, reach)
    metrics |= validation(found["valid"], texts["valid"], groups, reach)
    if job.threshold is not None:
        share = own_share(job.threshold, vocabulary, trained)
        metrics |= own_group(job.threshold, share, shares, found["valid"])
    tree = layout({"run": run.name, "task": run.task, "objective": run.objective, "seed": run.seed}, metrics)
    tree["parameters_hash"] = job.parameters_hash
    biases: list[tuple[float | None, ...]] = [(None, slope, at) for slope in slopes.tolist() for at in CONSTANTS.tolist()]
    biased = {split: logit_bias(found[split], texts[split], groups, frequency, slopes) for split in texts}
    if job.logit_bias:
        biases += [(share, 0.0, constant) for share in shares.tolist() for constant in CONSTANTS.tolist()]
        biased = {split: rows + nested_bias(found[split], texts[split], groups, nested) for split, rows in biased.items()}
    rows = [
        [*bias, *(biased[split][index][name] for split, names in BIASED.items() for name in names)]
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


def _may_be_rare(vocabulary: Vocabulary) -> np.ndarray:
    """Return whether each id may be in the rare group of an objective (N, bool). Special and filler ids may not."""
    ids = np.arange(len(vocabulary))
    return (ids >= len(SPECIALS)) & (ids < vocabulary.types)


def own_share(threshold: float, vocabulary: Vocabulary, trained: Path) -> float:
    """Return the share of the types below a threshold, as AGG counts them over the whole text.

    As in the log of a training, the share is of the types that can be rare, which excludes special tokens.

    Args:
        threshold: mean count per training step.
        vocabulary: that of the text.
        trained: folder of the trained model, whose training.json has the training steps per epoch.
    """
    steps = json.loads((trained / "training.json").read_text(encoding="utf-8"))["updates_per_epoch"]
    return float((vocabulary.target_counts / steps < threshold)[_may_be_rare(vocabulary)].mean())


def nested_groups(vocabulary: Vocabulary) -> np.ndarray:
    """Return the rarest types (N x G, bool) by their count as targets, up to each of GROUP_SHARES.

    Types with equal counts are in the same group, so a group may be smaller than its share. Equal and empty groups are left out.
    """
    may, counts = _may_be_rare(vocabulary), vocabulary.target_counts
    ordered = np.sort(counts[may])
    ends = np.unique(ordered[(GROUP_SHARES * len(ordered)).astype(int)])
    found = (counts[:, None] < ends) & may[:, None]
    return found[:, found.any(0)]


@torch.no_grad()
def masses(
    model: nn.Module,
    text: np.ndarray,
    settings: LanguageModelEvaluation,
    groups: np.ndarray,
    frequency: np.ndarray,
    slopes: np.ndarray,
    nested: np.ndarray,
    head: Head = PLAIN,
) -> GroupPredictions:
    """Predict a text with the windows of perplexity, and sum the probabilities of groups of types at each position.

    Args:
        model: A model of models/, in evaluation mode.
        text: Token ids, T.
        groups: Frequency group of each id, N.
        frequency: log_frequency(), N.
        slopes: Slopes of the logit-bias baseline; may be empty.
        nested: Further groups of types, N x G, bool.
        head: What the model makes of its logits.
    """
    embedding, rare = model.embedding, groups == RARE
    members = np.stack([groups == code for code in GROUP_NAMES.values()], 1).astype(float)
    factors = np.exp(-np.outer(frequency, slopes))
    parts = np.stack([factors * ~rare[:, None], factors * rare[:, None]], 2).reshape(len(groups), -1)
    weights = torch.from_numpy(np.concatenate([members, parts, nested], 1)).float().to(embedding.device)
    logprob, sums = np.empty(len(text)), np.empty((len(text), weights.shape[1]))
    for start, first, inputs in _inputs(text, settings):
        hidden = model(torch.from_numpy(inputs).to(embedding.device))[:, first:]
        logs = head_logits(hidden, embedding, head).log_softmax(-1)
        for row, begin in zip(logs, start + first, strict=True):
            end = min(begin + len(row), len(text))
            row = row[: end - begin]
            targets = torch.from_numpy(text[begin:end].astype(np.int64)).to(row.device)
            logprob[begin:end] = row.gather(1, targets[:, None])[:, 0].double().cpu()
            sums[begin:end] = (row.exp() @ weights).double().log().cpu()
    first, last = len(GROUP_NAMES), len(GROUP_NAMES) + parts.shape[1]
    return GroupPredictions(logprob, sums[:, :first], sums[:, first:last].reshape(len(text), len(slopes), 2), sums[:, last:])


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
    found: GroupPredictions, targets: np.ndarray, groups: np.ndarray, reach: dict[str, int | str]
) -> tuple[Metrics, Replicates]:
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


def validation(found: GroupPredictions, targets: np.ndarray, groups: np.ndarray, reach: dict[str, int | str]) -> Metrics:
    """Return `valid_ppl` and the arithmetic mean of P(rare), `valid_rare_mass`, by which the logit-bias baseline is chosen."""
    value, signature = perplexity(found.logprob, targets, groups, **reach, split="valid")
    mass = float(np.exp(found.groups[:, GROUP_NAMES["rare"]]).mean())
    return {"valid_ppl": (value, signature), "valid_rare_mass": ({"total": mass}, "of:rare-types|split:valid")}


def own_group(threshold: float, share: float, shares: np.ndarray, found: GroupPredictions) -> Metrics:
    """Return `own_group`, which says what the rare group of the objective of a run is, and which group its baseline acts on.

    `threshold` and `share` of the types are those of the objective. `baseline_share` is that of the baseline's group, and
    `valid_mass` the mean probability of that group. Both are None if no group is within 1 % of the types.

    Args:
        shares: shares of the types of nested_groups(), G.
        found: predictions of the validation text, with nested_groups().
    """
    values: dict[str, float | None] = {"threshold": threshold, "share": share, "baseline_share": None, "valid_mass": None}
    index = int(np.abs(shares - share).argmin()) if len(shares) else None
    if index is not None and abs(shares[index] - share) <= np.diff(GROUP_SHARES).max() + 1e-9:
        values |= {"baseline_share": float(shares[index]), "valid_mass": float(np.exp(found.nested[:, index]).mean())}
    return {"own_group": (values, "of:types-below-the-threshold|split:valid")}


def _of_targets(logs: np.ndarray, targets: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Return the log-probability of the target's group at each position; 0 where the target is in no group."""
    group = groups[targets]
    return np.where(group < 0, 0.0, np.take_along_axis(logs, np.maximum(group, 0)[:, None].astype(int), 1)[:, 0])


def logit_bias(
    found: GroupPredictions, targets: np.ndarray, groups: np.ndarray, frequency: np.ndarray, slopes: np.ndarray
) -> list[dict[str, float | None]]:
    """Return mean P(rare) and perplexities by group after adding a bias to the logits, for all slopes and CONSTANTS.

    The bias of type v is constant x [v is rare] - slope x log f(v). A slope of 0 leaves one constant on all rare types. Slopes
    are logit adjustment (Menon et al. 2021).
    """
    rare, rows = groups[targets] == RARE, []
    for index, slope in enumerate(slopes):
        tilted = found.logprob - slope * frequency[targets]
        rows += _with_constants(tilted, *found.tilted[:, index].T, rare, targets, groups)
    return rows


def nested_bias(
    found: GroupPredictions, targets: np.ndarray, groups: np.ndarray, nested: np.ndarray
) -> list[dict[str, float | None]]:
    """Return what logit_bias() returns at slope 0, with the constant on each of the groups of nested_groups() instead."""
    rows = []
    for index, inside in enumerate(found.nested.T):
        outside = np.log1p(-np.minimum(np.exp(inside), 1 - 1e-12))
        rows += _with_constants(found.logprob, outside, inside, nested[targets, index], targets, groups)
    return rows


def _with_constants(
    logprob: np.ndarray, outside: np.ndarray, inside: np.ndarray, member: np.ndarray, targets: np.ndarray, groups: np.ndarray
) -> list[dict[str, float | None]]:
    """Return the mean probability of a group, and perplexities by frequency group, for each of CONSTANTS on its logits.

    Args:
        logprob: T, log of the weights of the targets, before normalisation.
        outside: T, log of the sum of the weights outside the group.
        inside: T, log of the sum inside.
        member: T, whether the target belongs to the group.
        targets: ids, T.
        groups: frequency group of each id, N.
    """
    rows = []
    for constant in CONSTANTS:
        norm = np.logaddexp(outside, inside + constant)
        values, _ = perplexity(logprob + constant * member - norm, targets, groups, window=0, context=0)
        rows.append({"mass": float(np.exp(inside + constant - norm).mean()), **values})
    return rows
