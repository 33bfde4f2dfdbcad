"""What is written of verdicts: the main claims, the counts, the page, and claims.csv, which is read back."""

from dataclasses import replace
from pathlib import Path

from tiny.claims import AGAINST, judged, three
from tiny.run_sheet import DECLARED

from raretokens.evidence.intervals import Interval
from raretokens.evidence.scores import Scores
from raretokens.evidence.verdict import Outcome, Verdict, judge
from raretokens.report.claims import in_words, main_claims, read_csv, to_csv, to_markdown, verdict_counts


def changed(verdict: Verdict, **effect) -> Verdict:
    return replace(verdict, effect=replace(verdict.effect, **effect))


def test_the_main_claims_show_effect_interval_and_what_the_verdict_rests_on(tmp_path):
    verdict = judged(tmp_path, AGAINST, three("a", [0.9, 0.8, 0.85]) | three("b", [0.5, 0.5, 0.5]))
    main = AGAINST.replaced(paper="P", main="m")
    verdict = changed(replace(verdict, claim=main, reported=0.5), seed_interval=Interval(0.1, 0.6))
    inconclusive = replace(verdict, outcome=Outcome.INCONCLUSIVE, reason="why")
    ratio, value = (replace(verdict, claim=main.replaced(effect=kind)) for kind in ("ratio", "value"))
    rows = [
        verdict,
        replace(verdict, claim=AGAINST),
        changed(verdict, seeds=1),
        changed(inconclusive, seed_interval=None, seeds=1, test_interval=Interval(0.2, 0.5)),
        changed(replace(ratio, reported=None), seed_interval=Interval(0.5, 2), value=1.25),
        changed(replace(value, outcome=Outcome.NOT_RUN), value=None),
    ]
    assert main_claims(rows).split("\n") == [
        "conclusion,paper,reported,measured,95 % interval,verdict",
        "s,P table 3,+0.5,+0.35,+0.1 to +0.6 (seeds),reproduced",
        's,P table 3,+0.5,+0.35,+0.1 to +0.6 (pooled seed variance),"reproduced, one seed"',
        "s,P table 3,+0.5,+0.35,+0.2 to +0.5 (test set),inconclusive: why",
        "s,P table 3,,x 1.25,x 0.5 to x 2 (seeds),reproduced",
        "s,P table 3,0.5,,0.1 to 0.6 (seeds),not run",
        "",
    ]


def test_the_page_counts_verdicts_and_goes_paper_by_paper():
    empty = Scores("lm", {}, Path("nowhere"))
    text = to_markdown([judge(n, c, empty, DECLARED) for n, c in DECLARED.claims.items()], DECLARED)
    count, ours = len(DECLARED.claims), sum(claim.is_ours for claim in DECLARED.claims.values())
    none = "0 contradicted, 0 not testable, {} not run, 0 inconclusive, 0 reproduced"
    apart = f"{none.format(count - ours)}; of {ours} our interpretations, controls and experiments {none.format(ours)}"
    assert f"\n{count} claims; of the papers' own conclusions {apart}.\n" in text
    headings = [line for line in text.split("\n") if line.startswith("## ")]
    assert headings == [f"## {paper}" for paper in dict.fromkeys(claim.paper for claim in DECLARED.claims.values())]
    assert "| *drawn in figure 2* |" in text


def test_verdicts_are_counted_for_each_paper_and_all(tmp_path):
    one = judged(tmp_path, AGAINST, three("a", [0.9, 0.8, 0.85]) | three("b", [0.5, 0.5, 0.5]))
    conclusion = {name: AGAINST.replaced(paper=name) for name in "AB"}
    many = [replace(one, claim=declared, outcome=Outcome(outcome)) for declared, outcome in
            ((conclusion["B"], "reproduced"), (conclusion["B"].replaced(kind="interpretation"), "reproduced"),
             (conclusion["A"], "not run"),
             (conclusion["B"], "inconclusive"), (conclusion["B"], "reproduced"))]  # fmt: skip
    assert verdict_counts(many).split("\n") == [
        "paper,contradicted,not testable,not run,inconclusive,reproduced,claims", "B,0,0,0,1,2,3", "A,0,0,1,0,0,1",
        '"our interpretations, controls and experiments",0,0,0,0,1,1', "all,0,0,1,1,3,5", "",
    ]  # fmt: skip


def test_the_counts_name_every_verdict_and_what_fails_first(tmp_path):
    verdict = judged(tmp_path, AGAINST, three("a", [0.5, 0.5, 0.5]) | three("b", [0.9, 0.8, 0.85]))
    assert in_words([verdict]) == "1 contradicted, 0 not testable, 0 not run, 0 inconclusive, 0 reproduced"
    few = changed(replace(verdict, outcome=Outcome.REPRODUCED), seeds=2)
    assert in_words([few, verdict]).endswith("1 reproduced (1 of one seed or two)")
    text = to_markdown([few, verdict], DECLARED)
    ratio, difference = (
        to_markdown([replace(verdict, claim=AGAINST.replaced(effect=kind))], DECLARED)
        for kind in ("ratio", "difference")
    )
    assert f"| {AGAINST.effect} of I(W)" in text and "(0 to 1)" in difference and "(0 to 1)" not in ratio
    assert text.index("| **contradicted** |") < text.index("| **reproduced**<br>two seeds |")


def test_verdicts_are_read_back_as_they_were_written(tmp_path):
    first, second, *_ = DECLARED.claims
    values = three("agg", [0.9, 0.8, 0.85]) | three("mle", [0.5] * 3)
    found = judged(tmp_path, DECLARED.claims["agg-raises-isotropy"], values)
    other = replace(found, name=second, claim=DECLARED.claims[second], reason="why", runs=())
    verdicts = [replace(found, name=first, claim=DECLARED.claims[first]), changed(other, value=None)]
    (tmp_path / "claims.csv").write_text(to_csv(verdicts))
    assert to_csv(list(read_csv(tmp_path / "claims.csv", DECLARED).values())) == to_csv(verdicts)
