"""Results by method as CSV and as a page: improved metrics, degraded metrics and cost."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from raretokens import csv_files
from raretokens.claims.effect_text import EFFECT_COLUMNS, change_text, effect_text, number_text
from reproduction.papers.declarations import Declarations
from reproduction.papers.load import load_searches
from reproduction.papers.methods import LEAST, Change
from reproduction.papers.setting import TASKS
from reproduction.report.markdown import render

ISOTROPY = "isotropy.total"
VERSUS = {  # run compared with the logit-bias baseline -> end of a sentence
    "better": "The run is better.",
    "not better": "The run is not better.",
    "inconclusive": "Which is lower is inconclusive.",
}
NOT_RECORDED = "not recorded"
FIRST_TASKS = ("lm", "nmt")  # tasks whose runs the first table prefers
ALSO = {"ppl.med"}  # metrics of the first table that do not summarise a task: the types that pay for rare ones
SLOWER = 1.02  # shortest training step, divided by maximum likelihood's, that the first table lists; less is within the noise
COSTS = "demo/lm/demo"  # the rows of benchmarks/step-cpu.csv that are shown
COLUMNS: dict[str, Callable[[Change], str]] = {
    "task": lambda change: change.task,
    "run": lambda change: change.run,
    "baseline": lambda change: change.baseline,
    "objective": lambda change: change.objective,
    "metric": lambda change: change.metric,
    "title": lambda change: change.title,
    "kind": lambda change: change.effect.kind,
    **{name: (lambda change, show=show: show(change.effect)) for name, show in EFFECT_COLUMNS.items()},
    "verdict": lambda change: change.verdict,
    "seeds": lambda change: str(change.effect.seeds),
    "logit_bias_baseline": lambda change: number_text(change.logit_bias),
}


def to_csv(found: list[Change]) -> str:
    rows = ([show(change) for show in COLUMNS.values()] for change in found)
    return csv_files.to_csv(rows, list(COLUMNS))


def to_markdown(found: list[Change], declared: Declarations) -> str:
    """Return the page of methods: a table of gain, cost and when to choose each, then all runs of each method."""
    methods: dict[str, dict[tuple[str, str], list[Change]]] = {}  # objective -> task and run -> changes
    for change in found:
        methods.setdefault(change.objective, {}).setdefault((change.task, change.run), []).append(change)
    costs = _costs(declared)
    ordered = sorted(methods, key=[*declared.methods, *methods].index)
    return render(
        "methods.md",
        summary=" ".join(_summary(found)),
        rows=[_row(one, methods[one], costs.get(one, {}), declared) for one in ordered],
        methods={objective: methods[objective].values() for objective in ordered},
        declared=declared.methods,
        costs=costs,
        searches=_searches(declared),
        listed=_listed,
        ratio=lambda value: effect_text("ratio", value),
        versus=VERSUS,
    )


def _row(
    objective: str, runs: dict[tuple[str, str], list[Change]], cost: dict[str, str], declared: Declarations
) -> list[str]:
    """Return the line of a method in the first table, with its run of the most seeds in the first of its tasks."""
    tasks = sorted({task for task, _ in runs}, key=[*FIRST_TASKS, *TASKS].index)
    (task, run), changes = max(
        (one for one in runs.items() if one[0][0] == tasks[0]), key=lambda one: max(change.effect.seeds for change in one[1])
    )
    shown = {number.metric for number in TASKS[task].headline.values()} | ALSO
    settings = (one.title for one in declared.settings.values() if one.task == task and changes[0].model in one.models)
    where = next(settings, TASKS[task].title.lower())
    own = [change for change in changes if change.metric in shown and change.share >= LEAST]
    gains, losses = ("; ".join(_certain(own, verdict)) for verdict in ("better", "worse"))
    time = cost.get("time_to_mle", "")
    slower = f"step time {change_text('ratio', float(time))}" if time and float(time) >= SLOWER else ""
    name = "" if run == objective.replace("_", "-") else f" (`{run}`)"
    return [
        f"[`{objective}`](#{objective}), {where}{name}",
        gains or "nothing certain",
        "; ".join(filter(None, (losses, slower))) or "nothing certain",
        declared.methods[objective].choose if objective in declared.methods else "",
    ]


def _certain(changes: Iterable[Change], verdict: str) -> Iterator[str]:
    """Yield the changes of a verdict in words. A gain that the logit-bias baseline also has is followed by the baseline's."""
    for one in changes:
        if one.verdict == verdict and one.effect.value is not None:
            bias = one.logit_bias if verdict == "better" and one.compared_with_bias != "better" else None
            also = f" (logit bias: {change_text('ratio', bias)})" if bias is not None else ""
            yield f"{one.title} {change_text(one.effect.kind, one.effect.value)}{also}"


def _summary(found: list[Change]) -> list[str]:
    """Return sentences on all runs: rare-token perplexity against the logit-bias baseline, and isotropy."""
    versus = Counter(filter(None, (one.compared_with_bias for one in found)))
    isotropy = Counter(one.verdict for one in found if one.metric == ISOTROPY)
    sentences = []
    if versus:
        sentences.append(
            f"In rare-token perplexity, {versus['better']} of {versus.total()} runs {_be(versus['better'])} certainly better "
            f"than the logit-bias baseline. Of the others, {versus['not better']} {_be(versus['not better'])} not better, "
            f"and {versus['inconclusive']} {_be(versus['inconclusive'])} inconclusive."
        )
    if isotropy:
        sentences.append(
            f"The isotropy I(W) of {isotropy['better']} of {isotropy.total()} runs is higher than under maximum likelihood, and "
            f"that of {isotropy['worse']} runs is lower."
        )
    return sentences


def _be(count: int) -> str:
    return "is" if count == 1 else "are"


def _costs(declared: Declarations) -> dict[str, dict[str, str]]:
    """Return objective -> its line of benchmarks/step-cpu.csv. Empty if the repository has no such benchmark."""
    file = declared.folder.absolute().parents[1] / "benchmarks/step-cpu.csv"
    rows = csv_files.read_csv(file).to_dict("records") if file.is_file() else []
    return {row["objective"]: row for row in rows if row["size"] == COSTS}


def _searches(declared: Declarations) -> list[list[str]]:
    """Return a row for each declared choice of options: the methods, tasks and options, the search, its trials and its rule."""
    return [
        [
            ", ".join(one.objectives) or "all",
            ", ".join(one.tasks) or "all",
            ", ".join(f"`{option}`" for option in one.options) or "all",
            one.bounds or NOT_RECORDED,
            NOT_RECORDED if one.trials is None else str(one.trials),
            one.rule or NOT_RECORDED,
            f"`{one.source}`",
        ]
        for one in load_searches(declared.folder).values()
    ]


def _listed(changes: Iterable[Change]) -> str:
    """Return the changes in words, the largest first."""
    ordered = sorted(changes, key=lambda change: -change.share)
    return "; ".join(f"{one.title} {effect_text(one.effect.kind, one.effect.value)}" for one in ordered) or "nothing certain"

