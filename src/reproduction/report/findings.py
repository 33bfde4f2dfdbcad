"""The findings that README and the end of a demo show: the main changes from maximum likelihood, beside those of baselines."""

from collections.abc import Iterable

from raretokens.claims.effect_text import change_text
from raretokens.claims.verdict import Outcome, Verdict
from reproduction.papers.claim import Claim
from reproduction.papers.logit_bias import Decomposition
from reproduction.papers.methods import Change
from reproduction.papers.setting import Setting
from reproduction.papers.task_scores import TaskScores
from reproduction.report.claims import change_cell, interval_cell
from reproduction.report.markdown import table

# Row -> the main claim with the effect, or nothing where a decomposition has it; the run and the metric of the logit bias.
AGG = "AGG: rare-token perplexity"
ROWS = {
    AGG: (AGG, "agg", "ppl.rare"),
    "AGG: total perplexity": ("AGG: total perplexity", "agg", "ppl.total"),
    "AGG: perplexity within the rare group": ("", "agg", "ppl_within.rare"),
    "AGPS, models of words: rare-token perplexity": ("AGPS: rare-word perplexity", "word-agps", "ppl.rare"),
    "AGPS, subword tokens: rare-token perplexity": ("", "agps", "ppl.rare"),
    "AGPS, subword tokens: total perplexity": ("", "agps", "ppl.total"),
    "AGG: isotropy I(W)": ("AGG: I(W)", "", ""),
    "AGG: word similarity (MEN)": ("AGG: MEN (Spearman x 100)", "", ""),
    "AGG: BLEU": ("AGG: BLEU", "", ""),
    "AGPS: BLEU": ("AGPS: BLEU", "", ""),
    "CosReg: BLEU": ("CosReg: BLEU", "", ""),
    "FRAGE: BLEU": ("FRAGE: BLEU", "", ""),
}
HEAD = ["change from maximum likelihood", "measured", "95 % interval", "paper", "logit bias", "setting", "seeds"]
NONE = "The main conclusions of the papers were not measured: their runs are not on the run sheet, or have no scores yet.\n"


def to_markdown(
    verdicts: Iterable[Verdict[Claim]],
    compared: Iterable[Change],
    split: Iterable[Decomposition],
    settings: dict[str, Setting],
    scores: TaskScores,
) -> str:
    """Return a table of the findings that were measured, without columns that no finding has.

    Args:
        settings: by name.
        scores: of language models.
    """
    main = {one.claim.main: one for one in verdicts if one.claim.main and one.effect.value is not None}
    bounds = {one.run: one.logit_bias for one in compared if one.logit_bias}
    parts = {one.run: one for one in split}
    models = {model: name for name, one in settings.items() for model in one.models}
    runs = {"agg": main[AGG].runs[0] if AGG in main else "agg"}  # in the setting in which the claim is judged
    rows = []
    for name, (claim, short, metric) in ROWS.items():
        run = runs.get(short, short)
        verdict, part = main.get(claim), parts.get(run)
        if verdict:
            effect, setting, reported = verdict.effect, verdict.setting, verdict.reported
        elif part and not claim:
            effect, setting, reported = part.effects[metric], models.get(scores.lines[run].model, ""), None
        else:
            continue
        mark = " (not testable)" if verdict and verdict.outcome == Outcome.NOT_TESTABLE else ""
        value, ends = change_cell(effect.kind, effect.value) + mark, interval_cell(effect.kind, effect)
        title = settings[setting].title if setting in settings else ""
        bias = _logit_bias(part, metric, bounds.get(run))
        rows.append([name, value, ends, change_cell(effect.kind, reported), bias, title, str(effect.seeds or "")])
    return _table(rows) if rows else NONE


def _table(rows: list[list[str]]) -> str:
    filled = [column for column in range(len(HEAD)) if column < 3 or any(row[column] for row in rows)]
    return table([HEAD[column] for column in filled], ([row[column] for column in filled] for row in rows)) + "\n"


def _logit_bias(part: Decomposition | None, metric: str, bound: float | None) -> str:
    """Return the change of a metric by a constant on all rare logits that gives rare types the run's mean P(rare).

    `bound`: the best known ratio of rare-token perplexity, where the baseline itself was not measured.
    """
    if part and metric == "ppl_within.rare":
        return change_text("ratio", 1.0)  # a constant on all rare logits cannot change it
    baseline = part.main_baseline if part else None
    ratios = {"ppl.rare": baseline.rare, "ppl.total": baseline.total} if baseline else {}
    if metric in ratios:
        return change_text("ratio", ratios[metric])
    return f"{change_text('ratio', bound)} or lower" if bound and metric == "ppl.rare" else ""
