"""Numbers that explanations of claims quote, against the score files and the verdicts of the small scale."""

import re
from collections.abc import Iterator
from itertools import permutations
from statistics import geometric_mean

import pytest
from tiny.run_sheet import DECLARED, SMALL, committed

from raretokens.csv_files import read_csv
from reproduction.papers.claim import Claim

METRICS = {  # what a sentence names -> the metrics whose numbers it quotes
    r"I\(W\)": [f"isotropy.{group}" for group in ("total", "freq", "med", "rare")],
    "IsoScore": ["iso_score.total"],
    "mean cosine": ["mean_cosine", *(f"cosine.mean.{group}" for group in ("freq", "med", "rare"))],
    "mean length": ["norm.popular", "norm.rare"],
    "singular value divided": ["singular_value.2"],
    r"perplexity of \d": ["ppl.total"],
    "effective rank": ["effective_rank.total"],
    "[Ff]requency-probe accuracy falls": ["frequency_probe.accuracy"],
    "xcluding rare types": [f"ppl_excluding_rare.{group}" for group in ("total", "freq", "med")],
}
RUNS = {"CosReg": "cosreg", "AGPS": "agps", "Freeze": "freeze", "Freeze (b)": "freeze-b", "AGG": "agg",
        "smallest alpha": "agg-a001"}  # fmt: skip
ELSEWHERE = re.compile(r"paper|translation|counted|at least|in seed|none of the last", re.IGNORECASE)
NUMBER = re.compile(r"(?<![\w.])([+-]?\d+\.\d+)(?!\d)")
FEWER = re.compile(r"(?P<count>\d+) (?P<way>more|fewer) (?P<group>rare|medium|frequent) types")
GROUPS = {"rare": "rare", "medium": "med", "frequent": "freq"}
SEEDS = {"one": "1", "two": "2", "three": "3", "five": "5"}
CLAIMS = {name: claim for name, claim in DECLARED.claims.items() if claim.task == "lm" and (claim.why or claim.but)}


def quoted(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each number of a text that stands in a sentence with a metric's name, with the metrics of that name."""
    for sentence in re.split(r"(?<=\.) (?=[A-Z])", text):
        metrics = [metric for name, own in METRICS.items() if re.search(name, sentence) for metric in own]
        if metrics and not ELSEWHERE.search(sentence):
            yield from ((number, metrics) for number in NUMBER.findall(sentence))


def known(claim: Claim, text: str, metrics: list[str]) -> list[float]:
    """Return the metrics of the runs that a text is about, and their differences and ratios."""
    scores = committed()["lm"]
    runs = {run for side in claim.sides.values() if (run := scores.choose(side.runs, data=side.data))} | {"mle"}
    runs |= {run for name, run in RUNS.items() if name in text}
    runs |= {f"wiki-{run}" for run in runs if f"wiki-{run}" in scores.lines}  # the setting in which they are judged
    found = []
    for metric in metrics:
        values = [value for run in sorted(runs) if (value := scores.value(run, metric))]
        found += [value.mean for value in values]
        found += [one.mean - other.mean for one, other in permutations(values, 2)]
        positive = [geometric_mean(value.values) for value in values if min(value.values) > 0]
        found += [one / other for one, other in permutations(positive, 2)]
    return found


@pytest.mark.parametrize("name", [name for name, claim in CLAIMS.items() if list(quoted(claim.why + " " + claim.but))])
def test_a_number_beside_the_name_of_a_metric_is_in_the_score_files(name):
    claim = CLAIMS[name]
    text = f"{claim.why} {claim.but}"
    for number, metrics in quoted(text):
        step = 10.0 ** -len(number.partition(".")[2])
        near = [abs(abs(value) - abs(float(number))) for value in known(claim, text, metrics)]
        assert min(near) <= 0.501 * step, f"{number} is none of {', '.join(metrics)}"


@pytest.mark.parametrize("name", [name for name, claim in CLAIMS.items() if FEWER.search(claim.why + claim.but)])
def test_a_number_of_more_or_fewer_types_is_the_difference_of_the_two_runs(name):
    claim, scores = CLAIMS[name], committed()["lm"]
    for count, way, group in FEWER.findall(claim.why + claim.but):
        left, right = (scores.value(scores.choose(side.runs), f"uniq.{GROUPS[group]}") for side in claim.sides.values())
        assert abs(left.mean - right.mean - (int(count) if way == "more" else -int(count))) <= 0.501


def test_a_number_of_seeds_is_that_of_the_claim():
    """A study, or a run that the claim does not compare (alpha 0.02), has seeds of its own."""
    rows = read_csv(SMALL / "reports/claims.csv")
    seeds = dict(zip(rows["claim"], rows["seeds"], strict=True))
    wrong = [
        f"{name}: {sentence}"
        for name, claim in DECLARED.claims.items()
        for sentence in re.split(r"(?<=\.) (?=[A-Z])", f"{claim.why} {claim.but}")
        for count in re.findall(r"\b(one|two|three|five) seeds?\b", sentence)
        if SEEDS[count] != seeds[name] and not re.search(r"studies/|at 0\.02|, 200 words", sentence)
    ]
    assert wrong == []
