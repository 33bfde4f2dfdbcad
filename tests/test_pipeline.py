"""The whole pipeline on a tiny world of one's own text: built, rebuilt, changed, killed and resumed."""

import csv
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
import yaml
from tiny import served
from tiny.world import ROOT, create, environment, run, served_environment

from reproduction.pipeline import jobs
from reproduction.pipeline.code import Code
from reproduction.pipeline.parameters_file import load

RUNNING = re.compile(r"Running stage '([^']+)'")


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    """As `make demo` builds it, which leaves the clone as it was, and committed as docs/reproduce.md says before experiments."""
    folder = create(tmp_path_factory.mktemp("world"))
    run(folder, "stages/parallel", "2")
    assert run(folder, "git", "status", "--porcelain").stdout == "?? dvc.lock\n"
    run(folder, "git", "add", "--force", "dvc.lock", "reports")
    run(folder, "git", "commit", "-qm", "built")
    return folder


def test_a_second_time_starts_nothing(built):
    assert run(built, "stages/parallel", "2").stdout.startswith("Nothing has changed")


def test_every_run_is_scored_and_in_the_tables(built):
    for name in (
        "lm/mle",
        "lm/agg",
        "lm/word-mle",
        "lm/human",
        "nmt/base-mle",
        "nmt/reverse-mle",
        "nmt/copy",
    ):
        assert json.loads((built / "reports/runs" / f"{name}.json").read_text())["metrics"]
    scored = json.loads((built / "reports/runs/lm/mle.json").read_text())["metrics"]["ppl"]
    cells = list(csv.DictReader((built / "reports/tables/agg-3.csv").read_text().splitlines()))
    shown = {cell["metric"]: cell["measured"] for cell in cells if cell["row"] == "MLE"}
    assert {name: float(shown[f"ppl.{name}"]) for name in scored} == pytest.approx(scored, abs=0.01)
    assert (built / "reports/index.md").exists()
    # Its model `base` is not that of the small scale, which has settings.
    assert {line["setting"] for line in read(built / "reports/claims.csv")} == {""}


def test_a_summary_has_the_findings_and_what_moved(built):
    summary = " ".join(run(built, "python", "-m", "reproduction", "summary").stdout.split())
    tables = len(list((built / "reports/tables").glob("*.csv")))
    assert f"Reports: {tables} tables and " in summary and "0 cells moved, 0 of them out of tolerance" in summary
    measured = {row[1].removesuffix(" (not testable)") for row in table_rows(built / "reports/findings.md")}
    assert measured and all(f" by {number}" in summary for number in measured)


def table_rows(file: Path) -> list[list[str]]:
    head, _, *rows = [line.strip("| \n").split(" | ") for line in file.read_text(encoding="utf-8").splitlines()]
    assert head[:3] == ["change from maximum likelihood", "measured", "95 % interval"]
    return rows


def percent(ratio: str):
    """A ratio of a CSV file with four digits as a change in percent with two."""
    return pytest.approx(100 * (float(ratio) - 1), rel=0.05, abs=0.06)


def numbers(cell: str) -> list[float]:
    return [float(number) for number in re.findall(r"[-+][\d.]+", cell)]


def read(file: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(file.read_text(encoding="utf-8").splitlines()))


@pytest.mark.parametrize("scale", ["scales/small", ""])
def test_findings_are_the_numbers_of_the_main_conclusions_and_of_the_decomposition(built, scale):
    """Those of AGG are of one setting, the nearest to the paper's."""
    reports = ROOT / scale / "reports" if scale else built / "reports"
    main = {line["conclusion"]: line for line in read(reports / "main.csv")}
    split = {(line["run"], line["number"]): line for line in read(reports / "decomposition.csv")}
    rows = {row[0]: row[1:] for row in table_rows(reports / "findings.md")}
    for name, conclusion in (
        ("AGG: rare-token perplexity", "AGG lowers the perplexity of rare targets"),
        ("AGG: isotropy I(W)", "AGG makes the embedding matrix more isotropic"),
        ("AGG: BLEU", "AGG improves the BLEU of the base Transformer"),
    ):
        line = main[conclusion]
        if line["measured"]:
            measured = line["measured"] + " (not testable)" * (line["verdict"] == "not testable")
            assert rows[name][:3] == [measured, line["95 % interval"], line["reported"]]
    agg = "wiki-agg" if scale else "agg"
    within, bias = split[agg, "ppl_within.rare"], split[agg, "logit bias, 1 parameter, equal mean P(rare)"]
    assert numbers(rows["AGG: perplexity within the rare group"][0]) == [percent(within["measured"])]
    for kind, column in (("rare-token", "measured"), ("total", "total")):
        assert numbers(rows[f"AGG: {kind} perplexity"][3]) == [percent(bias[column])]
    if scale:
        titles = {name: row[-2] for name, row in rows.items() if name.startswith("AGG") and "BLEU" not in name}
        assert {*titles.values()} == {"Wikipedia in GPT-2's subword tokens"} and len(titles) == 5


ALONE = ("prepare@lm", "similarity", "encode@nmt", "align@nmt", "baseline@lm", "baseline@nmt", "train-lm@agg",
         "predict-lm@agg", "score-lm@agg", "decompose-lm@agg", "train-nmt@base-mle", "translate@base-mle", "score-nmt@base-mle",
         "recall-nmt@base-mle", "report")  # fmt: skip
# Imported at the top of the stages, which is no part of them; and where Python looks for `reproduction.tasks` first.
AROUND = {
    *("raretokens/__init__.py", "raretokens/public.py", "reproduction/__init__.py", "reproduction/paths.py"),
    *(f"reproduction/pipeline/{name}.py" for name in ("stages", "surroundings", "job_file")),
}
# For a corpus that asks for it, and for the command `table --latex`.
LATE = {"reproduction/corpora/moses.py", "reproduction/report/templates/table.tex"}


@pytest.fixture(scope="module")
def alone(built, tmp_path_factory) -> Path:
    """A folder a stage, in which it ran with nothing but what dvc.yaml says that it reads: no params.yaml, no other data."""
    folder, asked = tmp_path_factory.mktemp("alone"), []
    for name in ALONE:
        for path in paths(built, name, "deps"):
            (folder / name / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / name / path).symlink_to(built / path)
        asked.append([str(folder / name), *shlex.split(locked(built, name)["cmd"])[2:]])
    command, variables = ["python", "-m", "tiny.alone", built / "src"], {**environment(), "PYTHONPATH": str(ROOT / "tests")}
    subprocess.run(command, input=json.dumps(asked), text=True, check=True, env=served.environment(variables))
    return folder


def locked(built: Path, name: str) -> dict:
    return yaml.safe_load((built / "dvc.lock").read_text())["stages"][name]


def paths(built: Path, name: str, what: str) -> list[str]:
    return [row["path"] for row in locked(built, name)[what]]


def files(place: Path) -> list[Path]:
    """The file, or all below the folder; less the page for people, which also says how long each run took."""
    found = [place, *place.rglob("*")]
    return [path for path in found if path.is_file() and path.suffix != ".html"]


@pytest.mark.parametrize("name", ALONE)
def test_a_stage_runs_on_what_it_declares_alone(built, alone, name):
    """Its job and its data: the same bytes come out."""
    assert not json.loads((alone / name / "seen.json").read_text())["error"]
    for path in paths(built, name, "outs"):
        for file in files(built / path):
            assert (alone / name / file.relative_to(built)).read_bytes() == file.read_bytes(), file


@pytest.mark.parametrize("name", ALONE)
def test_a_job_counts_the_code_that_its_stage_runs(built, alone, name):
    """Every function of the package that it called and every file of data that it read; no file that it did not import."""
    code, seen = Code(built / "src"), json.loads((alone / name / "seen.json").read_text())
    roots, told = job(built, name)
    assert len(seen["called"]) > 5
    files = {*code.of_files(*roots)} - AROUND
    assert {file for file, _ in seen["called"]} - AROUND <= files
    assert {*seen["read"]} <= files
    if name != "report":  # a report's files also import, inside functions, what only the stage `jobs` calls
        assert files - {*seen["imported"], *seen["read"], *seen["before"]} <= LATE
    listed = code.of_files(*roots) if name.startswith("train-") else code.of_packages(*roots)
    assert told["code"] == listed


def job(built: Path, name: str) -> tuple[tuple[str, ...], dict]:
    """Where the code of a stage begins, and its file."""
    stage, _, key = name.partition("@")
    key = key or "all"
    parameters = load(built / "params.yaml")
    section = next(found for kind, other, found in jobs.all_jobs(parameters) if (kind, other) == (stage, key))
    return jobs.code_roots(stage, section), json.loads((built / f"data/jobs/{stage}/{key}.json").read_text())


def test_nothing_changed_does_nothing(built):
    """But `jobs`, which looks at the code. Comments, docstrings and blank lines in it change nothing that is in git."""
    for file in (built / "src").rglob("*.py"):
        text = file.read_text()
        opened = text.replace('"""', '"""Well: ', 1) if text.startswith('"""') else text
        file.write_text(f"# A comment.\n\n{opened}\n\n    # Another comment, indented.\n")
    assert RUNNING.findall(run(built, "dvc", "repro").stdout) == ["jobs"]
    run(built, "git", "checkout", "-q", "src")
    assert not run(built, "git", "status", "--porcelain").stdout


def test_a_mistake_that_makes_nothing_run_is_refused_all_the_same(built):
    """No stage that is built depends on the key, and yet `dvc repro` says so and is not up to date."""
    params = built / "params.yaml"
    text = params.read_text()
    for edited, said in (
        (f"{text}alpah: 0.04\n", "alpah: unknown key (value 0.04); the nearest is alpha"),
        (re.sub(r"^mirror:.*\n", "", text, flags=re.M), "mirror: missing"),
    ):
        params.write_text(edited)
        done = run(built, "dvc", "repro", check=False)
        assert done.returncode and f"error: params.yaml: {said}" in done.stderr
        assert RUNNING.findall(done.stdout) == ["jobs"]
    run(built, "git", "checkout", "-q", ".")
    run(built, "dvc", "checkout")


@pytest.fixture(scope="module")
def clone(built, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("cloned") / "clone"
    run(folder.parent, "git", "clone", "-q", str(built), folder.name)
    return folder


def test_a_clone_trains_an_objective_of_one_s_own_which_is_one_file_and_one_line(clone):
    """As docs/add-an-objective.md says: only that run trains, and its row is in every table of its task.

    Its lock does not have that run. Scores of others come with git, their weights do not.
    """
    run(clone, "dvc", "repro", "-s", "jobs")
    assert not run(clone, "git", "status", "--porcelain").stdout
    shutil.copy(ROOT / "docs/examples/centred.py", clone / "src/raretokens/objectives")
    params = clone / "params.yaml"
    tree = yaml.safe_load(params.read_text())
    tree["runs"]["lm"]["centred"] = {"tokens": "lm", "model": "demo", "objective": "centred"}
    params.write_text(yaml.safe_dump(tree, sort_keys=False))
    run(clone, "stages/parallel", "2", "--allow-missing")
    for folder in ("runs/lm", "predictions/lm"):
        assert [path.name for path in (clone / "data" / folder).iterdir()] == ["centred"]
    assert not (clone / "data/runs/nmt").exists()
    assert not run(clone, "git", "diff", "--name-only", "reports/runs").stdout
    for table in ("agg-1", "agg-3", "agg-7"):
        assert "| centred |" in (clone / f"reports/tables/{table}.md").read_text()


def test_the_main_conclusions_are_made_without_the_other_runs(clone):
    run(clone, "git", "checkout", "-q", ".")
    run(clone, "git", "clean", "-qfd", "src")
    run(clone, "git", "clean", "-qfdx", "reports")
    shutil.rmtree(clone / "data/runs", ignore_errors=True)
    for given, said in (
        (["2", "--main", "--ones"], "--ones: unknown; allowed: --allow-missing, --main, --one-seed"),
        (["--main"], "--main: not a number of jobs: parallel [JOBS [OPTION...]]"),
    ):
        assert run(clone, "stages/parallel", *given, check=False).stderr == f"error: {said}\n"
    run(clone, "stages/parallel", "2", "--main", "--one-seed")
    assert {path.name for path in (clone / "data/runs/lm").iterdir()} == {"mle", "agg"}
    assert not (clone / "data/runs/nmt").exists()
    assert not run(clone, "git", "status", "--porcelain", "reports").stdout


def test_an_experiment_retrains_only_what_depends_on_its_parameter(built):
    done = run(built, "dvc", "exp", "run", "-n", "four", "-S", "alpha=4.0")
    again = ["jobs", "train-lm@agg", "predict-lm@agg", "score-lm@agg", "decompose-lm@agg", "report"]
    assert RUNNING.findall(done.stdout) == again, done.stdout
    assert "alpha" in run(built, "dvc", "params", "diff").stdout
    assert "AGG: total perplexity [%; paper 0]" in run(built, "dvc", "metrics", "diff").stdout
    assert "failed" not in run(built, "dvc", "plots", "diff").stderr
    assert "4.0" in run(built, "dvc", "exp", "show", "--csv").stdout
    diff = run(built, "python", "-m", "reproduction", "diff", check=False)
    assert "| alpha | 0.03 | 4.0 |" in diff.stdout
    made = {path: path.read_bytes() for path in files(built / "reports")}
    run(built, "git", "checkout", "-q", ".")
    run(built, "dvc", "checkout")
    assert {path: path.read_bytes() for path in files(built / "reports")} != made
    run(built, "dvc", "exp", "apply", "four")
    assert {path: path.read_bytes() for path in files(built / "reports")} == made
    run(built, "git", "checkout", "-q", ".")
    run(built, "dvc", "checkout")


def train(folder: Path, variables: dict[str, str]) -> subprocess.Popen:
    command = ["stages/run", "1", "train", "lm", "agg"]
    return subprocess.Popen(command, cwd=folder, env=variables, stdout=subprocess.PIPE, text=True)


def test_a_killed_run_resumes_to_the_same_bytes(built):
    model = built / "data/runs/lm/agg/model.safetensors"
    machine = built / "data/scratch/machine.yaml"
    machine.parent.mkdir(parents=True, exist_ok=True)
    machine.write_text("save_updates: 1\nmicro_batch: 128\nreport_seconds: 0.0\n")
    assert train(built, served_environment()).wait() == 0
    expected = model.read_bytes()
    os.chmod(model, 0o644)
    model.unlink()
    process = train(built, environment())  # the process itself, not a client of the server
    for line in process.stdout:
        if "step 6/" in line:
            process.send_signal(signal.SIGKILL)
            break
    process.wait()
    assert not model.exists()
    resumed = train(built, served_environment())
    output = resumed.stdout.read()
    assert resumed.wait() == 0
    assert "step 5/" not in output  # it did not start over
    assert model.read_bytes() == expected


def test_a_stage_stops_when_its_parent_is_gone(built):
    """A killed `dvc` leaves its training process behind; that must not go on writing."""
    machine = built / "data/scratch/machine.yaml"
    machine.write_text("save_updates: 1\nreport_seconds: 0.0\n")
    told = built / "data/jobs/train-lm/mle.json"
    text = told.read_text()
    told.write_text(text.replace('"steps": 12,', '"steps": 100000,'))
    script = "stages/run 1 train lm mle > mle.log 2>&1 & echo $!; sleep 60"
    shell = subprocess.Popen(["bash", "-c", script], cwd=built, env=environment(), stdout=subprocess.PIPE, text=True)
    child, log = int(shell.stdout.readline()), built / "mle.log"
    deadline = time.monotonic() + 60
    while not (log.exists() and "step 3/" in log.read_text()) and time.monotonic() < deadline:
        time.sleep(0.1)
    shell.kill()
    while Path(f"/proc/{child}").exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    alive = Path(f"/proc/{child}").exists()
    if alive:
        os.kill(child, signal.SIGKILL)
    told.write_text(text)
    assert not alive
    kept = r"its state after step \d+ is kept in \S+"
    assert re.search(f"the process that started this run is gone; {kept}; start again to resume", log.read_text())
