"""Every translation run beside the one that was trained by maximum likelihood: paired bootstrap."""

from pathlib import Path

from raretokens.metrics.paired import paired_bootstrap
from raretokens.scoring.layout import layout
from raretokens.scoring.score_files import write_json
from raretokens.tasks.nmt.bleu import paired_lines
from raretokens.tasks.nmt.job import Compare, Compared

Job = Compare


def compare(job: Compare, corpora: Path, hypotheses: Path, scores: Path) -> None:
    """Write paired.json: each run against the first maximum-likelihood run of its size, direction and text."""
    by_kind: dict[tuple, list[Compared]] = {}
    for one in job.runs:
        by_kind.setdefault((one.run.size, one.run.reverse, one.run.tokens), []).append(one)
    deltas, signatures = {}, []
    for runs in by_kind.values():
        baseline = next((one for one in runs if one.run.objective == "mle"), None)
        others = [one for one in runs if one is not baseline]
        if baseline is None or not others:
            continue
        texts = {one.run.name: _lines(one, corpora, hypotheses) for one in runs}
        own, truth, suffix = texts.pop(baseline.run.name)
        value, signature = paired_bootstrap(own, {name: text[0] for name, text in texts.items()}, truth)
        deltas |= value
        signatures += [[name, f"baseline:{baseline.run.name}|{signature}{suffix}"] for name in value]
    score = layout({"run": "paired", "task": job.task}, {})
    write_json(scores / "paired.json", {**score, "metrics": deltas, "signatures": signatures})


def _lines(one: Compared, corpora: Path, hypotheses: Path) -> tuple[list[str], list[str], str]:
    side = corpora / one.texts.corpus / f"test.{'source' if one.run.reverse else 'target'}"
    return paired_lines(one.texts.decoding, hypotheses / one.run.name / "test.txt", side)
