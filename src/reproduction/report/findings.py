"""The findings that README and the end of a demo show: the main changes from maximum likelihood, beside those of baselines."""

from collections.abc import Iterable, Iterator

from raretokens.claims.comparison import Effect
from raretokens.claims.effect_text import change_text
from raretokens.claims.verdict import Outcome, Verdict
from reproduction.papers.claim import Claim
from reproduction.papers.decomposition_effects import Decomposition
from reproduction.papers.methods import Change
from reproduction.report.claims import change_cell, interval_cell
from reproduction.report.markdown import table

SELECTED = "agg-a001"  # AGG with the alpha that the validation perplexity selects
# Row -> the main claim with the effect, or the run whose decomposition has it; and the metric, if baselines are compared by it.
ROWS = {
    "AGG: rare-token perplexity": ("AGG: rare-token perplexity", "agg", "ppl.rare"),
    "AGG: total perplexity": ("AGG: total perplexity", "agg", "ppl.total"),
    "AGG: perplexity within the rare group": (None, "agg", "ppl_within.rare"),
    "AGPS, models of words: rare-token perplexity": ("AGPS: rare-word perplexity", None, None),
    "AGPS, subword tokens: rare-token perplexity": (None, "agps", "ppl.rare"),
    "AGPS, subword tokens: total perplexity": (None, "agps", "ppl.total"),
    "AGG: isotropy I(W)": ("AGG: I(W)", None, "isotropy.total"),
    "AGG: word similarity (MEN)": ("AGG: MEN (Spearman x 100)", None, "spearman.men"),
    "AGG: BLEU": ("AGG: BLEU", None, None),
    "AGPS: BLEU": ("AGPS: BLEU", None, None),
    "CosReg: BLEU": ("CosReg: BLEU", None, None),
    "FRAGE: BLEU": ("FRAGE: BLEU", None, None),
}
HEAD = ["change from maximum likelihood", "measured", "95 % interval", "paper", "logit bias", "AGG with alpha 0.01"]
NONE = "The main conclusions of the papers were not measured: their runs are not on the run sheet, or have no scores yet.\n"


def to_markdown(verdicts: Iterable[Verdict[Claim]], compared: Iterable[Change], split: Iterable[Decomposition]) -> str:
    """Return a table of the findings that were measured, without columns that no finding has."""
    main = {one.claim.main: one for one in verdicts if one.effect.value is not None}
    compared = list(compared)
    selected = {one.metric: one.effect for one in compared if one.run == SELECTED and one.effect.value is not None}
    bounds = {one.run: one.logit_bias for one in compared if one.logit_bias}
    rows = [*_rows(main, {one.run: one for one in split}, selected, bounds)]
    filled = [column for column in range(len(HEAD)) if column < 3 or any(row[column] for row in rows)]
    shown = ([row[column] for column in filled] for row in rows)
    return table([HEAD[column] for column in filled], shown) + "\n" if rows else NONE


def _rows(
    main: dict[str, Verdict[Claim]],
    split: dict[str, Decomposition],
    selected: dict[str, Effect],
    bounds: dict[str, float],
) -> Iterator[tuple[str, ...]]:
    for name, (claim, run, metric) in ROWS.items():
        verdict, parts = main.get(claim or ""), split.get(run or "")
        if claim and verdict:
            cells = _conclusion(verdict)
        elif not claim and metric and parts:
            cells = *_cells(parts.effects[metric]), ""
        else:
            continue
        other = selected.get(metric or "") if name.startswith("AGG") else None
        yield name, *cells, _logit_bias(parts, metric, bounds.get(run or "")), "{} ({})".format(*_cells(other)) if other else ""


def _conclusion(verdict: Verdict[Claim]) -> tuple[str, str, str]:
    value, interval = _cells(verdict.effect)
    mark = " (not testable)" if verdict.outcome == Outcome.NOT_TESTABLE else ""
    return value + mark, interval, change_cell(verdict.effect.kind, verdict.reported)


def _cells(effect: Effect) -> tuple[str, str]:
    return change_cell(effect.kind, effect.value), interval_cell(effect.kind, effect)


def _logit_bias(parts: Decomposition | None, metric: str | None, bound: float | None) -> str:
    """Return the change of a metric by a constant on all rare logits that gives rare types the run's mean P(rare).

    `bound`: the best known ratio of rare-token perplexity, where the baseline itself was not measured.
    """
    baseline = parts.main_baseline if parts else None
    ratios = {"ppl.rare": baseline.rare, "ppl.total": baseline.total} if baseline else {}
    ratios["ppl_within.rare"] = 1.0  # a constant on all rare logits cannot change it
    if parts and metric in ratios:
        return change_text("ratio", ratios[metric])
    return f"{change_text('ratio', bound)} or lower" if bound and metric == "ppl.rare" else ""
