"""What is written of verdicts: the main claims, the counts, the page, and claims.csv."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from tiny.claims import AGAINST, claim, judged, three
from tiny.run_sheet import DECLARED, committed

from raretokens.claims.effect_text import change_text, effect_text, finding_text
from raretokens.claims.intervals import Interval
from raretokens.claims.verdict import Outcome, Verdict
from reproduction.papers.claim import Claim
from reproduction.papers.task_scores import AllScores, TaskScores
from reproduction.papers.verdicts import counted, judge, judge_all, with_counts
from reproduction.report.claims import (
    in_words,
    main_claims,
    medians_in_words,
    other_counts,
    seeds_in_words,
    verdict_counts,
)
from reproduction.report.forest import fraction_rows, left_out
from reproduction.report.paper_pages import pages
from reproduction.run_sheet import Sheet

NAMED = ("cosreg-improves-big-bleu", "cosreg-improves-reverse-bleu", "mle-degenerates-with-steps")
UNTRAINED = AllScores(Sheet(scale="small", corpora={}, baselines={}, runs={}), Path("nowhere"))


@pytest.fixture
def one(tmp_path) -> Verdict:
    """The verdict on AGAINST, with an effect of 0.35 over three seeds."""
    return judged(tmp_path, AGAINST, three("a", [0.9, 0.8, 0.85]) | three("b", [0.5, 0.5, 0.5]))


def changed(verdict: Verdict, **effect) -> Verdict:
    effect = {"interval": effect["seed_interval"], **effect} if "seed_interval" in effect else effect
    return replace(verdict, effect=replace(verdict.effect, **effect))


def test_the_main_claims_show_effect_interval_and_what_the_verdict_rests_on(one):
    main = AGAINST.replaced(paper="P", main="m")
    known = {"reported": 0.5, "q": 0.0123, "unit_length": None, "counted_with": one.name}
    verdict = changed(replace(one, claim=main, **known), seed_interval=Interval(0.1, 0.6))
    inconclusive = replace(verdict, outcome=Outcome.INCONCLUSIVE, reason="why")
    ratio, value = (replace(verdict, claim=main.replaced(effect=kind)) for kind in ("ratio", "value"))
    rows = [
        verdict,
        replace(verdict, claim=main.replaced(hardly_fails="of its objective"), reported=0.8, counted_with=""),
        replace(verdict, counted_with="another claim"),
        replace(verdict, claim=AGAINST),
        changed(verdict, seeds=1, seed_interval=Interval(0.1, 0.4)),
        changed(inconclusive, seed_interval=None, seeds=1, test_interval=Interval(0.2, 0.5)),
        changed(replace(ratio, reported=None), seed_interval=Interval(0.5, 2), value=1.25),
        changed(replace(value, outcome=Outcome.NOT_RUN), value=None),
    ]
    card = ",papers/p.md#claim-c"
    assert main_claims(rows).replace(card, "").split("\n") == [
        "conclusion,paper,reported,measured,95 % interval,q,verdict,size,unit_length,card",
        's,P table 3,+0.5,+0.35,+0.1 to +0.6,0.012,"reproduced, direction and size",interval includes the reported effect,',
        's,P table 3,+0.8,+0.35,+0.1 to +0.6,0.012,"reproduced, direction only, can hardly fail",smaller than reported,',
        's,P table 3,+0.5,+0.35,+0.1 to +0.6,0.012,"reproduced, direction and size, counted with another",'
        "interval includes the reported effect,",
        's,P table 3,+0.5,+0.35,+0.1 to +0.4,0.012,"reproduced, direction and size, one seed",smaller than reported,',
        "s,P table 3,+0.5,+0.35,+0.2 to +0.5 (test set alone),0.012,"
        '"inconclusive, one seed without a seed variance",interval includes the reported effect,',
        's,P table 3,,+25 %,-50 % to +100 %,0.012,"reproduced, direction only",no reported number,',
        "s,P table 3,0.5,,0.1 to 0.6,0.012,not run,,",
        "",
    ]
    assert main_claims(rows).count(card) == len(rows) - 1
    assert seeds_in_words(rows[:5]) == "" and finding_text(rows[0]) == "+0.35 (95 % CI +0.1 to +0.6; paper: +0.5)"
    assert seeds_in_words(rows).startswith("Of the 6 main conclusions that could be tested, 1 has fewer than three seeds, ")
    assert finding_text(rows[5]) == "+0.35 (95 % CI of the test set alone: +0.2 to +0.5; paper: +0.5)"


def test_a_ratio_is_rounded_once_so_that_pages_agree():
    assert (effect_text("ratio", 1.18496), change_text("ratio", 1.18496)) == ("x 1.18", "+18 %")


def test_a_forest_plot_counts_the_conclusions_that_it_leaves_out(one):
    shown, unreported = replace(one, reported=0.8), replace(one, reported=None)
    assert left_out([shown], fraction_rows([shown])) == ""
    both = [shown, unreported]
    assert left_out(both, fraction_rows(both)).startswith("1 of 2 conclusions has no row: ")


def test_the_size_of_an_effect_is_its_fraction_of_the_reported_one(one):
    ratio = replace(one, claim=AGAINST.replaced(effect="ratio", expect="lower"), reported=0.25)
    assert ratio.fraction(0.5) == pytest.approx(0.5) and ratio.fraction(4.0) == pytest.approx(-1)
    assert changed(ratio, value=0.1, seed_interval=Interval(0.05, 0.2)).size == "larger than reported"
    assert changed(ratio, value=0.25, seed_interval=Interval(0.2, 0.3)).size == "interval includes the reported effect"
    assert changed(ratio, value=0.5, seed_interval=Interval(0.4, 0.6)).size == "smaller than reported"
    assert changed(ratio, value=2.0, seed_interval=Interval(1.5, 3)).size == "opposite to the reported effect"
    assert changed(ratio, value=0.5, seed_interval=Interval(0.25, 1.0)).fraction_interval == pytest.approx((0.0, 1.0))
    for end in (Interval(0.25, 0.9), Interval(0.1, 0.25)):  # a closed interval includes the reported effect at its end
        assert changed(ratio, value=0.25, seed_interval=end).size == "interval includes the reported effect"
    assert changed(ratio, value=1.5, seed_interval=Interval(1.0, 2.0)).size == "smaller than reported"
    same = replace(ratio, claim=ratio.claim.replaced(expect="same", margin=0.01))
    assert (same.fraction(0.5), same.size) == (None, "claim of no change")
    # A mean cosine of 0.05, where the paper reports 0.2 and expects less than 0.3, is more than reproduced, not a quarter of it.
    low = replace(changed(one, value=0.05), claim=claim(AGAINST.left.model_dump(), effect="value", expect="lower", than=0.3))
    low = replace(low, reported=0.2)
    assert (low.fraction(0.05), low.extent, low.size) == (None, "direction only", "claim on one number")
    assert replace(low, reported=None).size == "no reported number"


@pytest.mark.parametrize(
    ("claim", "effect", "threshold", "seeds"),
    [
        ({"than": -0.1, "expect": "lower"}, {"seeds": 3, "seed_interval": Interval(-0.2, -0.15)}, "below -0.1", "3"),
        ({"margin": 0.05, "expect": "same"}, {"seeds": 3, "seed_interval": Interval(0, 0.01)}, "between -0.05 and 0.05", "3"),
        ({}, {"seeds": 1, "interval": None, "test_interval": Interval(0.1, 0.2)}, "above 0", "one seed (test set alone)"),
        ({}, {"seeds": 2, "seed_interval": Interval(0.1, 0.2), "test_interval": None}, "above 0", "two seeds (pooled alone)"),
    ],
)
def test_a_claim_shows_its_threshold_and_the_variance_of_few_seeds(one, claim, effect, threshold, seeds):
    one = changed(replace(one, claim=AGAINST.replaced(paper="AGG", **claim)), **effect)
    text = pages([one], DECLARED, "small", UNTRAINED, {})["agg.md"]
    (row,) = (line for line in text.splitlines() if line.startswith("| [s]("))
    assert [cell.strip() for cell in row.split("|")[1:-1]][7] == seeds
    assert f"The claim is reproduced if the difference is {threshold}." in text and f"**seeds** {seeds} " in text


def test_a_card_has_the_number_of_each_run_with_a_link_to_its_scores():
    scores, name = committed(), "agg-lowers-rare-perplexity"
    verdict = judge(name, DECLARED.claims[name], scores["lm"], DECLARED)
    page = pages([verdict], DECLARED, "small", scores, {})["agg.md"]
    card = page.split(f'<details id="claim-{name}">')[1].split("</details>")[0]
    assert "| first | perplexity of rare targets (`ppl.rare`) | [wiki-agg](../runs/lm/wiki-agg.json) 99034.9 (seed 1), " in card
    assert f"**setting** {DECLARED.settings['wiki'].title}" in card
    assert "`setting`: `small` became `wiki`. The verdict was reproduced before and reproduced after." in card
    assert "**measured** x 0.131" in card and "**reported** x 0.172" in card and "Caveat: " in card


def test_a_main_claim_is_decided_only_among_the_claims_of_its_paper(one, monkeypatch):
    """Of four claims with p 0.01, 0.04, 0.2 and 0.9, q is 0.04, 0.08, 0.27 and 0.9.

    Another paper and another kind of metric have families of their own, and a claim that can hardly fail has none.
    """
    ps = {"m": 0.01, "n": 0.04, "o": 0.2, "p": 0.9, "other": 0.05, "text": 0.03, "hardly": 1e-9, "untested": None}
    names = {"other": "Q"}
    claims = {name: AGAINST.replaced(paper=names.get(name, "P"), main=name) for name in ps}
    claims["text"] = claims["m"].replaced(left=AGAINST.left.replaced(metric="uniq.total"))
    claims["hardly"] = claims["m"].replaced(hardly_fails="r")
    found = {name: replace(one, name=name, claim=claims[name], p=p) for name, p in ps.items()}
    monkeypatch.setattr("reproduction.papers.verdicts.judge_alone", lambda name, *_: found[name])
    verdicts = {one.name: one for one in judge_all(DECLARED.model_copy(update={"claims": claims}), {"lm": None})}
    q = {name: verdict.q and round(verdict.q, 3) for name, verdict in verdicts.items()}
    assert q == {"m": 0.04, "n": 0.08, "o": 0.267, "p": 0.9, "other": 0.05, "text": 0.03, "hardly": None, "untested": None}
    assert [name for name, verdict in verdicts.items() if verdict.outcome == "inconclusive"] == ["n", "o", "p"]
    assert verdicts["n"].reason == "q is 0.08 in the family P geometry, and a main claim needs 0.05"


def test_conclusions_of_the_papers_are_counted_once_and_others_apart(one):
    agg, again = (AGAINST.replaced(paper=name) for name in ("AGG", "FRAGE"))
    other = agg.replaced(margin=None, than=0.1, tables=[5])
    outcomes = [(agg, "reproduced"), (again, "reproduced"), (other, "not run"), (agg.replaced(kind="control"), "reproduced"),
                (agg.replaced(paper="Ember"), "inconclusive"),
                (agg.replaced(hardly_fails="r", tables=[1], than=9.0), "reproduced")]  # fmt: skip
    many = [replace(one, name=str(place), claim=own, outcome=Outcome(outcome)) for place, (own, outcome) in enumerate(outcomes)]
    many = with_counts(many, DECLARED)
    head = "paper,reproduced,direction and size,direction only,inconclusive,not run,not testable,contradicted,claims"
    assert verdict_counts(many).split("\n") == [head, "AGG,1,0,1,0,1,0,0,2", "all,1,0,1,0,1,0,0,2", ""]
    assert other_counts(many).split("\n") == [
        head, "conclusions on an effect that is counted already,1,0,1,0,0,0,0,1", "our controls,1,0,1,0,0,0,0,1",
        "conclusions of later papers,0,0,0,1,0,0,0,1", "conclusions that can hardly fail,1,0,1,0,0,0,0,1",
        "all,3,0,3,1,0,0,0,4", "",
    ]  # fmt: skip
    words = in_words(many, DECLARED)
    assert words.startswith(
        "The 4 papers draw 2 conclusions that can fail, where conclusions on one effect count once, with the weakest verdict. "
        "Of these, 1 could be tested. 1 is reproduced, 0 are contradicted"
    )
    assert words.endswith(
        "The counts exclude 1 conclusions that can hardly fail, and 1 conclusions on an effect that is counted already. They "
        "exclude 1 of our own interpretations, controls and experiments, and 1 conclusions of later papers."
    )


def test_conclusions_on_one_effect_count_as_the_weakest_that_was_tested(one):
    """As those on single frequency groups, or with another threshold. Another pair, direction or table counts apart."""

    def group(name: str, **more) -> Claim:
        sides = {side: own.replaced(metric=f"isotropy.{name}") for side, own in AGAINST.sides.items()}
        return AGAINST.replaced(paper="AGG", **sides, **more)

    other = AGAINST.left.replaced(runs=["c"])
    claims = {
        "total": (group("total"), "reproduced"),
        "rare": (group("rare"), "contradicted"),
        "med": (group("med"), "inconclusive"),
        "doubled": (group("total", effect="ratio", than=2.0), "not testable"),
        "hardly": (group("freq", hardly_fails="r"), "contradicted"),
        "pair": (group("total").replaced(right=other), "reproduced"),
        "falls": (group("total", expect="lower"), "reproduced"),
        "elsewhere": (group("total", than=0.1, tables=[4]), "reproduced"),  # the same comparison twice would count once
    }
    verdicts = [replace(one, name=name, claim=own, outcome=Outcome(outcome)) for name, (own, outcome) in claims.items()]
    assert [own.name for own in counted(verdicts)] == ["rare", "pair", "falls", "elsewhere"]
    marked = {own.name: own.counted_with for own in with_counts(verdicts, DECLARED)}
    assert marked == dict.fromkeys(["total", "rare", "med", "doubled"], "rare") | {"hardly": ""} | {
        name: name for name in ("pair", "falls", "elsewhere")
    }
    declared = DECLARED.model_copy(update={"claims": {"rare": group("rare")}})
    page = pages(with_counts(verdicts, DECLARED), declared, "small", UNTRAINED, {})
    cells = Counter(line.split("|")[-2].strip() for line in page["agg.md"].splitlines() if line.startswith("| [s]("))
    assert cells == {"with another": 3, "yes": 4, "can hardly fail": 1}
    assert "The claim can hardly fail, and no count has it: r." in page["agg.md"] and "It is counted with *s*." in page["agg.md"]


def test_the_counts_say_what_is_reproduced_in_size_and_what_all_tested_effects_are(one):
    """Fractions 0.9 and 0.5 agree in size, 0.2 in direction; with -0.5 and -1 of two others the median over all is 0.2."""
    effects = [("reproduced", 0.9, 1.1), ("reproduced", 0.5, 0.7), ("reproduced", 0.2, 0.4), ("inconclusive", -0.5, 1.5),
               ("contradicted", -1.0, -0.8), ("not testable", 3.0, 4.0)]  # fmt: skip
    agg = AGAINST.replaced(paper="AGG")
    many = [
        changed(
            replace(one, outcome=Outcome(outcome), reported=1.0, claim=agg.replaced(tables=[place], than=-place)),
            value=value, seeds=3, seed_interval=Interval(2 * value - high, high),
        )
        for place, (outcome, value, high) in enumerate(effects, 1)
    ]  # fmt: skip
    many += [replace(many[0], reported=None, claim=agg.replaced(tables=[9], than=-9.0))]
    many = with_counts([replace(one, name=str(place)) for place, one in enumerate(many)], DECLARED)
    assert [verdict.extent for verdict in many] == [*["direction and size"] * 2, "direction only", *[None] * 3, "direction only"]
    assert (
        "Of the 4 reproduced conclusions, 2 agree in direction and size, because the measured effect is at least half of the "
        "reported one. The other 2 agree in direction only, because the effect is smaller or the paper reports none. Of the "
        "tested conclusions, 5 have a reported effect to compare with. Over all of these, the median measured effect is 0.2 of "
        "the reported one, and 2 have the opposite sign. Over the 3 that are reproduced, the median is 0.5. The intervals of 2 "
        "of the 5 include the reported effect."
    ) in in_words(many, DECLARED)
    assert medians_in_words(many) == (
        "Of the 6 tested conclusions, 5 have a reported effect. Measured divided by reported, their median is 0.2 (AGG 0.2). "
        "2 have the opposite sign: 1 contradicted and 1 inconclusive ones. The 3 reproduced ones have a median of 0.5.\n"
    )


def test_the_counts_say_what_more_seeds_could_decide_and_what_effects_are_excluded(one):
    one = replace(one, claim=AGAINST.replaced(paper="AGG"), outcome=Outcome.INCONCLUSIVE, reported=0.5)
    intervals = [(3, -0.1, 0.4), (3, -0.9, -0.1), (3, -0.1, 0.6), (2, -0.1, 0.4), (1, -0.1, 0.6)]
    claims = [one.claim.replaced(than=-2.0 - n, tables=[n]) for n in range(5)]  # equal ones would count once
    many = [
        changed(replace(one, name=str(own.tables), claim=own), seeds=seeds, seed_interval=Interval(*ends))
        for own, (seeds, *ends) in zip(claims, intervals, strict=True)
    ]
    words = in_words(with_counts(many, DECLARED), DECLARED)
    assert "Of the 5 inconclusive conclusions, 2 have fewer than three seeds. The intervals of 2 of the other 3 exclude" in words


def test_a_page_of_a_paper_starts_with_five_sentences_and_has_every_claim_once():
    empty = TaskScores({}, task="lm", folder=Path("nowhere"))
    verdicts = [judge(name, claim, empty, DECLARED) for name, claim in DECLARED.claims.items()]
    found = pages(verdicts, DECLARED, "small", UNTRAINED, {})
    for paper in DECLARED.papers:
        text = found[f"{paper.lower()}.md"]
        assert len([line for line in text.split("\n## ")[0].split("\n") if line.startswith("* ")]) == 5
        own = {name: claim.statement for name, claim in DECLARED.claims.items() if claim.paper == paper}
        rows = [line for line in text.split("\n") if line.startswith("| [") and "#claim-" in line]
        assert len(rows) == text.count("<details id=") == len(own)
        for name, statement in own.items():
            assert f"| [{statement}]({paper.lower()}.md#claim-{name}) |" in text
            assert f'<details id="claim-{name}"><summary>{statement}</summary>' in text
    assert all(f".md#claim-{name}) |" in found["claims.md"] for name in DECLARED.claims)


def test_a_page_says_in_which_models_the_claims_were_tested():
    scores = committed()
    names = ("agps-hides-frequency", "freeze-parts-frequent-rows", "agps-lowers-rare-word-perplexity")
    verdicts = [judge(name, claim := DECLARED.claims[name], scores[claim.task], DECLARED) for name in names]
    text = pages(verdicts, DECLARED, "small", scores, {})["agps.md"]
    assert [line for line in text.split("\n## ")[1].split("\n") if line.startswith("| ")][2:] == [
        "| Translation | `base-1k` | 0.37 | 1 | 0 | 0 | 0 |",
        "| Translation | `base` | 0.061 | 1 | 0 | 0 | 0 |",
        "| Language models | `word` | 0.32 | 1 | 0 | 0 | 0 |",
    ]
    (row,) = (line for line in text.split("\n") if line.startswith(f"| [{DECLARED.claims[names[0]].statement}]("))
    assert row.split("|")[2].strip() == "`base-1k`"
    verdicts = [judge(name, claim := DECLARED.claims[name], scores[claim.task], DECLARED) for name in NAMED]
    text = pages(verdicts, DECLARED, "small", scores, {})["cosreg.md"]
    assert "| Translation | `big` | 0.036 |" in text and "| Translation | `base` reversed | 0.058 |" in text
    assert "| `base-1k` / `base-4k` |" in text


def test_a_page_shows_reason_and_caveat_at_the_scale_that_they_are_about(tmp_path):
    name = "agg-lowers-rare-perplexity"
    empty = judge(name, DECLARED.claims[name], TaskScores({}, task="lm", folder=Path("nowhere")), DECLARED)
    one = changed(replace(empty, outcome=Outcome.REPRODUCED), value=0.3, seeds=3, seed_interval=Interval(0.2, 0.4))
    small, demo = (pages([one], DECLARED, scale, UNTRAINED, {})["agg.md"] for scale in ("small", "demo"))
    assert "Caveat: " in small and "Caveat: " not in demo
    row = f"| [{one.claim.statement}](agg.md#claim-{name}) |  | x 0.3 | x 0.2 to x 0.4 |  | x 0.172 | smaller than reported | 3 |"
    assert f"{row} table 3 | later paper |" in demo
