"""The regime table: what maximum likelihood and AGG give in each setting of language models, beside the reported numbers."""

from collections.abc import Iterator
from typing import NamedTuple

from raretokens import csv_files
from raretokens.claims.comparison import Comparison, Effect
from raretokens.claims.effect_text import EFFECT_COLUMNS, change_text, number_text
from raretokens.claims.expectation import EffectKind
from reproduction.papers.declarations import Declarations
from reproduction.papers.task_scores import TaskScores
from reproduction.report.markdown import render

TASK, MLE, METHOD = "lm", "mle", "agg"


class Quantity(NamedTuple):
    """A row of the table."""

    title: str
    metric: str
    kind: EffectKind
    digits: int  # significant digits of the number of maximum likelihood
    reported: tuple[str, str, str] | None = None  # file, column and group


QUANTITIES = (
    Quantity("perplexity of all tokens", "ppl.total", "ratio", 3, ("agg_table3", "PPL", "Total")),
    Quantity("perplexity of rare tokens", "ppl.rare", "ratio", 3, ("agg_table3", "PPL", "Rare")),
    Quantity("P(rare) at rare targets", "mass.rare", "ratio", 2),
    Quantity("perplexity within the rare group", "ppl_within.rare", "ratio", 3),
    Quantity("I(W)", "isotropy.total", "difference", 2, ("agg_table3", "I(W)", "Total")),
    Quantity("I(W) at root-mean-square row length 1", "isotropy_unit_rms.total", "difference", 2),
    Quantity("mean cosine of the rows", "mean_cosine", "difference", 2),
    Quantity("word similarity (MEN)", "spearman.men", "difference", 3, ("agg_table5", "Spearman", "MEN")),
    Quantity("MEN, pairs of words of one token", "spearman_one_token.men", "difference", 3),
    Quantity("MEN, all other pairs", "spearman_not_one_token.men", "difference", 3),
)
COLUMNS = ["quantity", "setting", "metric", "mle", "seeds", *EFFECT_COLUMNS]


class Entry(NamedTuple):
    """A cell of the table: the number of maximum likelihood, and what the method changes, over the same seeds."""

    quantity: Quantity
    mle: float | None
    effect: Effect | None
    seeds: int

    @property
    def text(self) -> str:
        if self.mle is None:
            return "not recorded"
        before = f"{float(number_text(self.mle, self.quantity.digits)):,.10g}"
        if self.effect is None:
            return before
        ends = self.effect.interval
        around = f" ({' to '.join(change_text(self.quantity.kind, end) for end in ends)})" if ends else ""
        return f"{before}, {change_text(self.quantity.kind, self.effect.value)}{around}"


def entries(declared: Declarations, scores: TaskScores) -> dict[str, list[Entry]]:
    """Return setting -> its column, for the settings whose maximum likelihood is scored."""
    found = {}
    for name, setting in declared.settings.items():
        view = scores.in_setting(setting)
        mle, method = view.choose([MLE]), view.choose([METHOD])
        if setting.task == TASK and mle and scores.scored(mle) and scores.lines[mle].model in setting.models:
            has_method = method is not None and scores.scored(method)
            found[name] = [_entry(one, mle, method if has_method else None, scores) for one in QUANTITIES]
    return found


def _entry(quantity: Quantity, mle: str, method: str | None, scores: TaskScores) -> Entry:
    value = scores.value(mle, quantity.metric)
    effect = Comparison.of_runs(quantity.kind, quantity.metric, method, mle, scores).effect if method else None
    if effect is None or effect.value is None:
        return Entry(quantity, value.mean if value else None, None, len(value.seeds) if value else 0)
    return Entry(quantity, effect.right, effect, effect.seeds)


def to_csv(found: dict[str, list[Entry]]) -> str:
    rows = (_row(setting, entry) for setting, column in found.items() for entry in column)
    return csv_files.to_csv([[row.get(name, "") for name in COLUMNS] for row in rows], COLUMNS)


def _row(setting: str, entry: Entry) -> dict[str, str]:
    row = {"quantity": entry.quantity.title, "setting": setting, "metric": entry.quantity.metric, "mle": number_text(entry.mle)}
    row["seeds"] = str(entry.seeds or "")
    return row | {name: show(entry.effect) for name, show in EFFECT_COLUMNS.items() if entry.effect}


def to_markdown(found: dict[str, list[Entry]], declared: Declarations) -> str:
    """Return the table as Markdown: a row for each recorded quantity, a column for the paper and for each setting."""
    recorded = [at for at in range(len(QUANTITIES)) if any(column[at].mle is not None for column in found.values())]
    rows = [
        [QUANTITIES[at].title, _reported(QUANTITIES[at], declared), *(column[at].text for column in found.values())]
        for at in recorded
    ]
    about = [*_about(found, declared)]
    return render("regimes.md", titles=[declared.settings[name].title for name in found], about=about, rows=rows)


def _reported(quantity: Quantity, declared: Declarations) -> str:
    if quantity.reported is None:
        return ""
    file, column, group = quantity.reported
    mle, method = (declared.reported(file).mean(row, column, group) for row in ("MLE", "AGG"))
    if mle is None or method is None:
        return ""
    change = method / mle if quantity.kind == "ratio" else method - mle
    return f"{mle:,.10g}, {change_text(quantity.kind, change)}"


def _about(found: dict[str, list[Entry]], declared: Declarations) -> Iterator[list[str]]:
    """Yield the rows that describe the paper's setting and the others."""
    properties = [declared.reported_settings[TASK], *(declared.settings[name].properties for name in found)]
    shares, counts = ([getattr(one, name) for one in properties] for name in ("rare_targets", "per_rare_type"))
    rows = {
        "rare types among the target tokens": ["" if share is None else f"{share:g} %" for share in shares],
        "training tokens of a rare type, mean": [number_text(count, 3) for count in counts],
    }
    for title, (paper, *own) in rows.items():
        yield [title, f"{paper} (implied)", *own]
    seeds = (max(entry.seeds for entry in column) for column in found.values())
    yield ["seeds", "1", *map(str, seeds)]  # AGG appendix B
