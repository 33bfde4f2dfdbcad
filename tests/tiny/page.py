"""Scores of few runs, made up, and a reader of the page that is made of them."""

import json
import math
from html.parser import HTMLParser
from pathlib import Path

from raretokens.evidence.run_sheet import Sheet

HOSTILE = "log:e|<img src=http://x.invalid/><script>alert(1)</script>"
VOID = {"meta", "link", "img", "input", "br", "line", "polyline"}


def score(task: str, run: str, seed: int, factor: float) -> dict:
    groups = {"total": 110.5, "freq": 70.25, "med": 13000.0, "rare": 60000.0}
    metrics = {"lm": {"ppl": {k: v * factor for k, v in groups.items()}, "undeclared": {"by_anyone": 7}}}
    metrics["nmt"] = {"bleu": {"tokenised": 9.5 * factor, "sacrebleu": 9.0 * factor}}
    geometry = {"isotropy": {"total": 0.7 / factor, "rare": 0.5 / factor, "freq": 0.9}, "mean_cosine": 0.09 * factor}
    geometry["training"] = {"nll_to_uniform": 0.5, "epochs": 2.0}
    about = {"run": run, "task": task, "objective": run.split("-")[-1], "model": "demo", "seed": seed}
    signatures = [["ppl", HOSTILE], ["isotropy", "sign:sum>=0"]]
    facts = {"parameters": [["layers", 2], ["parameters", 1124864]], "options": [["alpha", 0.03]], "neighbours": []}
    return {**about, "metrics": metrics[task] | geometry, "signatures": signatures, **facts}


def three_seeds(sheet: Sheet) -> Sheet:
    """A run sheet with a third seed of maximum likelihood and of AGG."""
    unmarked = {
        task: {name: line.replaced(parameters_hash="") for name, line in part.items()} for task, part in sheet.runs.items()
    }
    lines = unmarked["lm"]
    third = {f"{name}-3": lines[name].replaced(seed=3) for name in ("mle", "agg")}
    return sheet.replaced(runs={**unmarked, "lm": {**lines, **third}})


def make_scores(folder: Path) -> None:
    """Fill reports/: one run has a loss and a time, one a time of another machine; all else has no scores.

    Maximum likelihood and AGG have three seeds, which decide claims.
    """
    factors = {"mle": 1.0, "mle-2": 1.1, "mle-3": 1.05, "agg": 0.7, "agg-2": 0.75, "agg-3": 0.75, "cosreg": 0.7}
    factors["freeze"] = 0.15  # 9000 < 42000, but not as words
    for task, run, factor in [*(("lm", *one) for one in factors.items()), ("nmt", "base-mle", 1.0)]:
        seed = int(run[-1]) if run[-1].isdigit() else 1
        (folder / "runs" / task).mkdir(parents=True, exist_ok=True)
        (folder / f"runs/{task}/{run}.json").write_text(json.dumps(score(task, run, seed, factor)))
    loss = [f"nll,train,{update},{8 * math.exp(-update / 50)}" for update in range(1, 101)]
    points = ["series,group,x,y", *loss, "nll,valid,50,4.5", "nll,valid,100,2.5", "isotropy,rare,0,0.9"]
    (folder / "runs/lm/agg.csv").write_text("\n".join(points) + "\n")
    times = folder.parent / "data/scratch/timing"
    times.mkdir(parents=True)
    time = {"seconds": 72.4, "machine": "x86_64, 2 threads", "revision": "f51e7ab"}
    (times / "lm-agg.json").write_text(json.dumps(time))
    kept = "lm,agg,9.000,elsewhere,0.1,0a0a0a0\nlm,freeze-b,,,,\nlm,freeze,1.250,another machine,0.6,\n"
    (folder.parent / "trained.csv").write_text("task,run,hours,machine,peak_gb,revision\n" + kept)


class Page(HTMLParser):
    def __init__(self, text: str):
        super().__init__()
        self.tags: list[tuple[str, dict]] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def all(self, attribute: str) -> list[str]:
        return [attrs[attribute] for _, attrs in self.tags if attribute in attrs]
