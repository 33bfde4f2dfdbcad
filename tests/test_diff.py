"""The report diff in a real repository: what moved, out of which tolerance, and which parameter differs."""

import contextlib
import io
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
import yaml
from tiny.run_sheet import DECLARED

from reproduction.commands import main, scale_commands
from reproduction.papers.load import load_declarations

ROOT = Path(__file__).parents[1]
HEADER = "row,column,metric,reported,measured,spread,delta,runs,status,note\n"
TABLE = HEADER + "MLE,I(W),isotropy.total,0.293,0.700,,,mle,differs,\nMLE,PPL,ppl.total,20.77,100.00,,,mle,differs,\n"
HUMAN = HEADER + "Human,Uniq Rare,uniq.rare,300,295,,,human,differs,\n"
CLAIMS = """\
claim,metric,verdict,left,right,seeds_low,seeds_high
agg-raises-isotropy,isotropy.total,reproduced,0.97,0.68,0.28,0.30
agg-lowers-rare-perplexity,ppl.rare,reproduced,9,10,0.1,0.9
"""
FIGURE = "panel,run,group,x,y\n" + "".join(f"AGG,AGG,,{i},{1000 - i}\n" for i in range(100))
SWEEP = "panel,run,group,x,y\n(a) rare types,alpha 0.03,,0.03,1\n(a) rare types,alpha 0.04,,0.04,2\n"
EFFECT = "kind,measured,low,high,seeds_low,seeds_high,test_low,test_high"
MAIN = DECLARED.claims["agg-lowers-rare-perplexity"].statement
DERIVED = {
    "methods.csv": f"task,run,baseline,objective,metric,title,{EFFECT},verdict,seeds\n"
    "lm,agg,mle,agg,isotropy.total,I(W),difference,0.200,0.190,0.210,0.190,0.210,,,better,3\n",
    "decomposition.csv": f"run,objective,number,seeds,{EFFECT.removeprefix('kind,')}\n"
    "agg,agg,mass.rare,3,3.8,3.7,3.9,3.7,3.9,,\n",
    "main.csv": f"conclusion,paper,reported,measured,verdict\n{MAIN},AGG table 3,-83 %,-68 %,reproduced\n",
    "regimes.csv": f"quantity,setting,metric,mle,{EFFECT.replace('kind', 'seeds')}\n"
    "perplexity of all tokens,small,ppl.total,58.9,3,1.06,1.05,1.07,1.05,1.07,1.05,1.07\nI(W),32k,isotropy.total,,0,,,,,,,\n",
    "tables/agg-3-small.csv": HUMAN,
    "verdicts.csv": "paper,reproduced,inconclusive,claims\nAGG,57,15,72\n",
    "curves/lm/mle.csv": "update,nll,valid_nll\n" + "".join(f"{step},{8 - step / 100},\n" for step in range(0, 400, 100)),
    "runs/lm/mle.bootstrap.csv": "ppl.rare,uniq.rare\n100,50\n110,55\n",
    "runs/lm/mle.csv": "series,group,x,y\nnll,train,0,8\nnll,train,100,7\n",
}


declarations = cache(load_declarations)


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


def diff(folder: Path, *revision: str) -> subprocess.CompletedProcess[str]:
    """The command in this process, with one reading of the declarations: else these would cost more than all that is tested."""
    out, said, code = io.StringIO(), io.StringIO(), 0
    with pytest.MonkeyPatch.context() as patch, contextlib.chdir(folder):
        patch.setattr(sys, "argv", ["reproduction", "diff", *revision])
        patch.setattr(scale_commands, "load_declarations", declarations)
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(said):
            try:
                main()
            except SystemExit as end:
                code = int(end.code or 0)
    return subprocess.CompletedProcess([], code, out.getvalue(), said.getvalue())


@pytest.fixture
def world(request, tmp_path) -> Path:
    """Reports that are in git: at its top, or in the folder that a test has by `PLACES`."""
    folder = tmp_path / getattr(request, "param", ".")
    (folder / "reports/tables").mkdir(parents=True)
    (folder / "reports/figures").mkdir()
    tree = yaml.safe_load((ROOT / "params.yaml").read_text())
    (folder / "params.yaml").write_text(yaml.safe_dump({**tree, "root": str(ROOT)}))
    (folder / "reports/tables/agg-1.csv").write_text(TABLE)
    (folder / "reports/tables/agg-3.csv").write_text(HUMAN)
    (folder / "reports/claims.csv").write_text(CLAIMS)
    (folder / "reports/figures/agg-figure-4.csv").write_text(FIGURE)
    (folder / "reports/figures/agg-figure-5.csv").write_text(SWEEP)
    for name, text in DERIVED.items():
        (folder / "reports" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "reports" / name).write_text(text)
    for name in ("index.md", "runs/lm/mle.json"):
        (folder / "reports" / name).write_text("{}")
    run(tmp_path, "git", "init", "-q")
    run(tmp_path, "git", "add", "-A")
    run(tmp_path, "git", "-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-qm", "reports")
    return folder


PLACES = pytest.mark.parametrize("world", [".", "scales/small"], indirect=True)


def edit(world: Path, name: str, old: str, new: str) -> None:
    path = world / name
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


@PLACES
def test_unchanged_reports_pass(world):
    done = diff(world)
    assert done.returncode == 0, done.stderr
    assert "0 cells moved" in done.stdout


@pytest.mark.parametrize(
    ("name", "old", "new", "code", "said"),
    [
        ("tables/agg-1.csv", "0.700", "0.720", 0, "1 cells moved, 0 of them out"),
        ("tables/agg-1.csv", "0.700", "0.740", 1, "| MLE | I(W) | 0.700 | 0.740 | +0.04 | 0.03 abs | **out** |"),
        ("tables/agg-1.csv", "100.00", "101.50", 0, "0.02 rel"),
        ("tables/agg-1.csv", "100.00", "103.00", 1, "**out**"),
        ("tables/agg-1.csv", ",100.00,", ",,", 1, "| MLE | PPL | 100.00 |  |"),
        ("tables/agg-1.csv", "20.77", "20.78", 1, "| MLE | PPL (reported) | 20.77 | 20.78 | +0.01 | exact | **out** |"),
        ("tables/agg-1.csv", "MLE,PPL,ppl.total,20.77,100.00,,,mle,differs,\n", "", 1, "| MLE | PPL | present |  |"),
        ("tables/agg-3.csv", ",295,", ",296,", 1, "| Human | Uniq Rare | 295 | 296 | +1 | exact | **out** |"),
        ("claims.csv", "reproduced", "inconclusive", 1, "| verdict | reproduced | inconclusive |"),
        (
            "claims.csv",
            "reproduced,0.97,",
            "inconclusive,0.96,",
            0,
            "| verdict | reproduced | inconclusive |  | both sides within theirs |",
        ),
        (
            "claims.csv",
            "reproduced,9,10,0.1,0.9",
            "inconclusive,9,10,-0.1,1.1",
            0,
            "| verdict | reproduced | inconclusive |  | intervals within 2 times their width |",
        ),
        ("claims.csv", "reproduced,9,10,0.1,0.9", "inconclusive,9,10,-0.5,1.2", 1, "| verdict | reproduced | inconclusive |"),
        ("claims.csv", "reproduced,9,10,0.1,0.9", "inconclusive,9,10,,", 1, "| verdict | reproduced | inconclusive |"),
        ("claims.csv", "reproduced,9,10,0.1,0.9", "contradicted,9,10,0.2,0.9", 1, "| reproduced | contradicted |"),
        ("claims.csv", "reproduced,0.97,", "inconclusive,0.90,", 1, "| left | 0.97 | 0.90 | -0.07 | 0.03 abs | **out** |"),
        ("figures/agg-figure-4.csv", "AGG,AGG,,99,901\n", "", 1, "| 100 points | 99 points |"),
        ("figures/agg-figure-4.csv", "AGG,AGG,,50,950", "AGG,AGG,,50,951", 0, "mean shift / range"),
        ("figures/agg-figure-5.csv", "0.03,1", "0.03,2", 0, "| (a) rare types alpha 0.03 | y | 1 | 2 | +1 |"),
        ("figures/agg-figure-5.csv", "0.03,1", "0.03,90", 1, "8 abs | **out** |"),
        ("tables/agg-1.csv", "0.700", "nan", 1, "| MLE | I(W) | 0.700 | nan | +nan | 0.03 abs | **out** |"),
        ("tables/agg-1.csv", "100.00", "inf", 1, "**out**"),
        ("claims.csv", "reproduced,0.97,", "reproduced,nan,", 1, "| left | 0.97 | nan |"),
        ("figures/agg-figure-4.csv", "AGG,AGG,,50,950", "AGG,AGG,,50,nan", 1, "| mean shift / range | 0 | nan |"),
        ("figures/agg-figure-5.csv", "0.03,1", "0.03,nan", 1, "8 abs | **out** |"),
    ],
)
def test_a_moved_cell_is_judged_by_its_metric_s_tolerance(world, name, old, new, code, said):
    edit(world, f"reports/{name}", old, new)
    done = diff(world)
    assert said in done.stdout, done.stdout + done.stderr
    assert done.returncode == code


@pytest.mark.parametrize(
    ("name", "old", "new", "out"),
    [
        ("methods.csv", "0.200", "0.230", False),  # both runs may move by 0.03
        ("methods.csv", "0.200", "0.270", True),
        ("methods.csv", "0.200,0.190", "0.201,0.130", False),
        ("methods.csv", "0.200,0.190", "0.201,0.120", True),
        ("methods.csv", "0.200,0.190,0.210,0.190,0.210,,,better", "0.201,,,,,,,inconclusive", False),
        ("methods.csv", "better", "worse", True),
        ("methods.csv", ",3\n", ",5\n", True),
        ("decomposition.csv", "mass.rare,3,3.8", "mass.rare,3,4.8", False),
        ("decomposition.csv", "mass.rare,3,3.8", "mass.rare,3,6.0", True),
        ("main.csv", "-68 %", "-78 %", True),  # without its claim
        ("verdicts.csv", "57,15", "58,14", True),
        ("regimes.csv", "58.9", "59.5", False),
        ("regimes.csv", "58.9", "61.5", True),
        ("regimes.csv", "1.06,1.05", "1.10,1.05", False),
        ("regimes.csv", "1.06,1.05", "1.20,1.05", True),
        ("regimes.csv", "58.9,3", "58.9,2", True),
        ("tables/agg-3-small.csv", "295", "296", True),  # of the human text, as in agg-3
        ("curves/lm/mle.csv", "0,8.0,", "0,8.1,", False),
        ("curves/lm/mle.csv", "0,8.0,", "0,18.0,", True),
        ("curves/lm/mle.csv", "0,8.0,", "0,8.0,5", True),
        ("curves/lm/mle.csv", "100,7.0,\n", "", True),
        ("runs/lm/mle.bootstrap.csv", "100,", "102,", False),
        ("runs/lm/mle.bootstrap.csv", "100,", "300,", True),
        ("runs/lm/mle.csv", "0,8\n", "0,8.1\n", False),
        ("runs/lm/mle.csv", "nll,train,100,7\n", "nll,valid,100,7\n", True),
    ],
)
def test_every_csv_file_of_the_reports_is_compared(world, name, old, new, out):
    edit(world, f"reports/{name}", old, new)
    done = diff(world)
    assert f"| {name} |" in done.stdout, done.stdout + done.stderr
    assert done.returncode == out, done.stdout


def test_what_follows_from_a_claim_may_change_with_it(world):
    """A verdict, its count and the row of the main claims change with a number that moved within its tolerance."""
    edit(world, "reports/claims.csv", "reproduced,9,10,0.1,0.9", "inconclusive,9.1,10,0.1,1.1")
    edit(world, "reports/main.csv", "-68 %,reproduced", "-67 %,inconclusive")
    edit(world, "reports/verdicts.csv", "57,15", "56,16")
    done = diff(world)
    assert done.returncode == 0 and "0 of them out" in done.stdout, done.stdout
    edit(world, "reports/verdicts.csv", "56,16", "54,18")
    assert diff(world).returncode == 1


def test_counts_and_derived_columns_may_change_with_an_extent_and_a_pooled_interval(world):
    """The interval of a claim with few seeds appears when other rows move; a count of extents moves with the claims."""
    header = CLAIMS.splitlines()[0] + ",measured,extent,fraction_low,q\n"
    lines = "a,isotropy.total,reproduced,0.97,0.68,,,0.29,{},{},{}\nb,isotropy.total,reproduced,0.98,0.68,0.29,0.31,{},,,\n"
    (world / "reports/claims.csv").write_text(header + lines.format("direction", "", "", "0.300"))
    (world / "reports/verdicts.csv").write_text("paper,direction,claims\nAGG,57,72\n")
    run(world, "git", "add", "-A")
    run(world, "git", "-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-qm", "reports")
    (world / "reports/claims.csv").write_text(header + lines.format("direction", "0.7", "0.01", "0.301"))
    done = diff(world)
    assert done.returncode == 0 and "3 cells moved, 0 of them out" in done.stdout, done.stdout
    edit(world, "reports/verdicts.csv", "57,72", "56,72")
    assert diff(world).returncode == 1  # without a claim whose verdict or extent moved
    edit(world, "reports/claims.csv", "0.29,direction", "0.30,size")
    assert "| verdicts.csv | AGG | direction | 57 | 56 | -1 | 1 abs |  |" in diff(world).stdout


def test_a_table_that_the_revision_lacks_is_out(world):
    (world / "reports/extra.csv").write_text("a\n1\n")
    assert "| extra.csv |  |  |  | present |" in diff(world).stdout


@pytest.mark.parametrize(
    "name", ["tables/agg-1.csv", "figures/agg-figure-4.csv", "claims.csv", "index.md", "runs/lm/mle.json"]
)
def test_a_report_that_is_gone_is_out(world, name):
    (world / "reports" / name).unlink()
    done = diff(world)
    assert done.returncode == 1 and f"| {name} |  |  | present |  |  |  | **out** |" in done.stdout, done.stderr
    assert "1 cells moved, 1 of them out" in done.stdout


@pytest.mark.parametrize("name", ["tables/agg-1.csv", "figures/agg-figure-4.csv", "claims.csv"])
@pytest.mark.parametrize(
    ("edited", "said"),
    [
        (
            lambda text: b"<<<<<<< HEAD\n" + text + b"=======\n" + text + b">>>>>>> other\n",
            "line 1 is a conflict marker of an unresolved",
        ),
        (lambda text: text.decode().encode("utf-16"), "not written by any known version: 'utf-8' codec can't decode"),
        (
            lambda text: text.replace(b"metric", b"metrik").replace(b"panel", b"panl").replace(b"verdict", b"verd"),
            "no column",
        ),
        (lambda text: b"", "not written by any known version: No columns"),
        (lambda text: text + b'"never closed', "not written by any known version"),
    ],
    ids=["merge", "utf-16", "column", "empty", "quote"],
)
def test_a_report_that_cannot_be_read_is_an_error_and_no_move(world, name, edited, said):
    path = world / "reports" / name
    path.write_bytes(edited(path.read_bytes()))
    done = diff(world)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stdout + done.stderr
    assert done.stderr.startswith(f"error: {name}: {said}")


@pytest.fixture
def demo(world) -> Path:
    """The same reports, which git ignores, and their copy in git."""
    run(world, "git", "rm", "-rq", "--cached", "reports")
    (world / ".gitignore").write_text("/reports/\n")
    assert diff(world, "--accept").stdout.startswith("expected: ")
    run(world, "git", "add", "-A")
    run(world, "git", "-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-qm", "expected")
    return world


@PLACES
def test_reports_that_git_ignores_are_compared_with_their_expected_copy(demo):
    done = diff(demo)
    assert done.returncode == 0 and "0 cells moved" in done.stdout, done.stderr
    edit(demo, "reports/tables/agg-1.csv", "100.00", "101.50")
    (demo / "reports/curves/lm/mle.csv").unlink()  # what tables and figures are made of has no copy
    assert "1 cells moved, 0 of them out" in diff(demo).stdout
    edit(demo, "reports/tables/agg-1.csv", "101.50", "103.00")
    (demo / "reports/decomposition.csv").unlink()
    (demo / "reports/extra.csv").write_text("a\n1\n")
    assert "3 cells moved, 3 of them out" in diff(demo).stdout
    assert "| curves/lm/mle.csv |  |  | present |" in diff(demo, "HEAD~").stdout  # whose reports are in git
    shutil.rmtree(demo / "reports")
    done = diff(demo)
    assert (done.returncode, done.stderr) == (2, "error: reports: has no tables; dvc repro makes them\n")


def test_reports_that_are_in_git_have_no_expected_copy(world):
    done = diff(world, "--accept")
    assert done.returncode == 2 and done.stderr.startswith("error: reports: in git, so --accept has nothing to do")
    assert not (world / "expected").exists()


@PLACES
def test_verdicts_and_headline_metrics_come_before_other_cells(world):
    edit(world, "reports/figures/agg-figure-5.csv", "0.03,1", "0.03,90")  # out of tolerance
    edit(world, "reports/decomposition.csv", "mass.rare,3,3.8", "mass.rare,3,4.8")
    edit(world, "reports/tables/agg-1.csv", "0.700", "0.720")
    edit(world, "reports/methods.csv", "0.200", "0.270")
    edit(world, "reports/main.csv", "-68 %", "-67 %")
    first, others = diff(world).stdout.split("### Other cells")
    shown = [line.split(" | ")[0] for line in first.split("### Verdicts and headline metrics")[1].splitlines() if ".csv" in line]
    assert shown == ["| main.csv", "| methods.csv", "| tables/agg-1.csv"]
    assert others.index("figures/agg-figure-5.csv") < others.index("decomposition.csv")


@PLACES
def test_a_parameter_that_differs_is_named(world):
    edit(world, "params.yaml", "alpha: 0.03", "alpha: 0.04")
    done = diff(world)
    assert "| alpha | 0.03 | 0.04 |" in done.stdout
    assert done.returncode == 0


def test_nothing_to_compare_with_is_an_error(world, tmp_path_factory):
    done = diff(world, "no-such-revision")
    assert done.returncode == 2
    assert done.stderr == "error: no-such-revision: no such revision\n"
    outside = tmp_path_factory.mktemp("outside")
    (outside / "params.yaml").write_text((world / "params.yaml").read_text())
    assert diff(outside).returncode == 2
    (outside / "params.yaml").unlink()
    done = diff(outside)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
