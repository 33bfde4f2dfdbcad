"""Scripts and the first stage, wherever they are started: environment.sh with an installer that is faked, and stages/*."""

import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest
from tiny.world import served_environment

from raretokens.errors import UserError
from reproduction.pipeline.surroundings import check_folder, git

ROOT = Path(__file__).parents[1]
# What environment.sh calls. `-m venv` makes an environment whose scripts name it by its path, as the real one does.
PYTHON = r"""#!/bin/sh
here=$(cd "$(dirname "$0")" && pwd -P)
case "$*" in
"-c "*) exit 0 ;;
"-m venv "*)
    mkdir -p "$3/bin" "$3/lib/python3.11/site-packages"
    cp "$0" "$3/bin/python"
    echo "VIRTUAL_ENV=\"$(cd "$3" && pwd -P)\"" > "$3/bin/activate" ;;
"-m pip config list") ;;
"-m pip install "*)
    [ "${PIP_USER:-0}" = 0 ] || { echo "Can not perform a '--user' install" >&2; exit 1; }
    cp "$FAKES/uv" "$here/uv" ;;
"-I -c "*) [ "$(cat "$here/../lib/python3.11/site-packages/raretokens.pth" 2>/dev/null)" = "$(pwd -P)" ] ;;
*) exit 9 ;;
esac
"""
UV = r"""#!/bin/sh
packages=$(dirname "$0")/../lib/python3.11/site-packages
echo "$*" >> "$FAKES/calls"
case "$*" in
*editable*) pwd -P > "$packages/raretokens.pth" ;;
*"-r requirements.lock"*) [ -d "$packages"/torch-*.dist-info ] || mkdir -p "$packages/torch-2.13.0.dist-info" ;;
*+cpu*) [ ! -e "$FAKES/no-cpu-build" ] && rm -rf "$packages"/torch-* && mkdir -p "$packages/torch-2.13.0+cpu.dist-info" ;;
*cublas*) [ ! -e "$FAKES/no-cublas" ] && mkdir -p "$packages/nvidia_cublas_cu12-12.9.dist-info" ;;
*--torch-backend=cpu*) [ ! -e "$FAKES/no-cpu-build" ] ;;
*"--reinstall-package torch"*) rm -rf "$packages"/torch-*; mkdir -p "$packages/torch-2.13.0.dist-info" ;;
esac
"""


def script(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    fakes, made = tmp_path / "fakes", tmp_path / "checkout"
    fakes.mkdir()
    (made / ".ci").mkdir(parents=True)
    script(fakes / "python", PYTHON)
    script(fakes / "uv", UV)
    for file in (".ci/environment.sh", "requirements.lock"):
        shutil.copy(ROOT / file, made / file)
    monkeypatch.setenv("FAKES", str(fakes))
    monkeypatch.setenv("PYTHON", str(fakes / "python"))
    for name in ("VENV", "UV_FIND_LINKS", "UV_DEFAULT_INDEX", "PIP_USER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", f"{fakes}:/usr/bin:/bin")
    return made


def made(checkout: Path) -> tuple[str, str, list[str]]:
    """Call environment.sh; return standard output, standard error, and the installations."""
    calls = Path(os.environ["FAKES"]) / "calls"
    calls.unlink(missing_ok=True)
    done = subprocess.run([checkout / ".ci/environment.sh"], capture_output=True, text=True, cwd="/")
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr, calls.read_text().splitlines() if calls.exists() else []


def test_an_environment_that_matches_is_left_alone(checkout):
    assert "creating or completing .venv" in made(checkout)[0]
    assert made(checkout) == ("", "", [])
    with open(checkout / "requirements.lock", "a") as lock:
        lock.write("# newer\n")
    assert any("-r requirements.lock" in call for call in made(checkout)[2])
    assert made(checkout) == ("", "", [])


@pytest.mark.parametrize("move", [shutil.copytree, shutil.move])
def test_a_checkout_that_was_copied_or_moved_gets_its_own_environment(checkout, move):
    made(checkout)
    other = checkout.with_name("checkout-2")
    move(str(checkout), str(other), **({"symlinks": True} if move is shutil.copytree else {}))
    said, _, calls = made(other)
    assert "made in another folder" in said and any("--editable ." in call for call in calls)
    assert str(other / ".venv") in (other / ".venv/bin/activate").read_text()
    assert made(other) == ("", "", []) and not (other / ".venv.part").exists()


def test_a_copy_keeps_its_environment_where_no_other_can_be_made(checkout, monkeypatch):
    made(checkout)
    other = Path(shutil.copytree(checkout, checkout.with_name("checkout-2"), symlinks=True))
    script(Path(os.environ["FAKES"]) / "uv", "#!/bin/sh\nexit 2\n")
    done = subprocess.run([other / ".ci/environment.sh"], capture_output=True, text=True)
    assert done.returncode == 2
    assert str(checkout / ".venv") in (other / ".venv/bin/activate").read_text()


@pytest.mark.parametrize("missing", ["no-cpu-build", "no-cublas"])
def test_what_could_not_be_installed_is_tried_again(checkout, missing):
    fakes = Path(os.environ["FAKES"])
    (fakes / missing).touch()
    if missing == "no-cublas":
        script(fakes / "nvidia-smi", "#!/bin/sh\n")
    for _ in range(2):
        assert "; the next call tries again" in made(checkout)[1]
    (fakes / missing).unlink()
    said = made(checkout)
    assert said[1] == "" and any("+cpu" in call or "cublas" in call for call in said[2])
    assert made(checkout) == ("", "", [])


def test_a_gpu_that_comes_later_gets_the_cuda_build(checkout):
    made(checkout)
    script(Path(os.environ["FAKES"]) / "nvidia-smi", "#!/bin/sh\n")
    assert any("--reinstall-package torch" in call for call in made(checkout)[2])
    assert made(checkout) == ("", "", [])


@pytest.mark.parametrize(
    ("name", "value"), [("PIP_USER", "1"), ("CDPATH", "/tmp:/"), ("PYTHONPATH", "/nowhere"), ("PIP_TARGET", "/nowhere")]
)
def test_settings_of_the_caller_stop_nothing(checkout, monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    made(checkout)
    assert made(checkout) == ("", "", [])


def test_dvc_does_without_git_only_as_long_as_git_does_not_work(tmp_path, monkeypatch):
    """git refuses a repository of another owner; it has a variable for tests of that."""
    for name in ("Makefile", ".dvc/config", "scales/small/.dvc/config"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / ".ci").mkdir()
    script(tmp_path / ".ci/environment.sh", "#!/bin/sh\n")
    monkeypatch.setenv("PATH", f"{ROOT}/.venv/bin:{os.environ['PATH']}")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    local = [tmp_path / folder / ".dvc/config.local" for folder in (".", "scales/small")]

    def environment() -> tuple[str, list[bool]]:
        done = subprocess.run(["make", "-s", "environment"], cwd=tmp_path, capture_output=True, text=True, check=True)
        return done.stderr, [file.exists() and "no_scm = true" in file.read_text() for file in local]

    assert environment() == ("", [True, True])  # no repository, as in a ZIP
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    assert environment() == ("", [False, False])
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    said, without = environment()
    assert said.startswith("environment: DVC does without git until git works here: fatal: detected dubious ownership in ")
    assert said.count("\n") == 1 and "safe.directory" in said and without == [True, True]
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="^git status: fatal: detected dubious ownership .* --add safe.directory"):
        git("status")


@pytest.mark.parametrize("name", ["run", "cluster", "parallel"])
def test_stages_start_their_own_checkout_whatever_cdpath_is(tmp_path, name):
    """A relative path to the script is looked up in CDPATH by `cd`, which prints where it went."""
    (tmp_path / "else/stages").mkdir(parents=True)
    (tmp_path / "params.yaml").write_text("seed: [")
    (tmp_path / "bin").mkdir()
    script(tmp_path / "bin/dvc", "#!/bin/sh\nexit 3\n")
    (tmp_path / "stages").mkdir()
    for one in (ROOT / "stages").iterdir():
        shutil.copy(one, tmp_path / "stages")
    (tmp_path / "src").symlink_to(ROOT / "src")
    variables = served_environment() | {"CDPATH": f"{tmp_path}/else"}
    variables["PATH"] = f"{tmp_path}/bin:{variables['PATH']}"
    arguments = {"run": ["1", "jobs"], "cluster": ["--print"], "parallel": []}[name]
    done = subprocess.run([f"stages/{name}", *arguments], cwd=tmp_path, env=variables, capture_output=True, text=True)
    if name == "parallel":
        assert (done.returncode, done.stdout, done.stderr) == (3, "", "")
    else:
        assert done.stderr.startswith("error: params.yaml: not YAML: ") and done.stdout == ""


def parallel_on_stubs(folder: Path, dvc: str, jobs: int = 1, gpus: int = 0) -> subprocess.Popen:
    """Start stages/parallel on three runs, of which the last continues another, with these lines as `dvc`."""
    for name in ("stages", "bin"):
        (folder / name).mkdir()
    shutil.copy(ROOT / "stages/parallel", folder / "stages")
    (folder / "params.yaml").touch()
    script(folder / "bin/nvidia-smi", f"#!/bin/sh\nfor n in $(seq {gpus}); do echo GPU $n; done\n")
    script(folder / "bin/python", """#!/bin/sh
case $4 in --shared) echo encode ;; --continued) echo train-lm@3 score-lm@3 ;;
*) printf '%s\\n' 'train-lm@1 score-lm@1' 'train-lm@2 score-lm@2' ;; esac
""")  # fmt: skip
    script(folder / "bin/dvc", f'#!/bin/sh\n[ $1 = status ] && echo {{}} && exit\necho "$*" >> calls\n{dvc}')
    variables = os.environ | {"PATH": f"{folder}/bin:{os.environ['PATH']}"}
    command = ["stages/parallel", f"{jobs}"]
    return subprocess.Popen(command, cwd=folder, env=variables, stdout=-1, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize(("gpus", "seen"), [(2, {"0", "1"}), (1, {"0"}), (0, {""})])
def test_more_jobs_than_gpus_share_them(tmp_path, monkeypatch, gpus, seen):
    """Runs of a third of a second each, two at a time: no run gets a GPU that is not there."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    dvc = 'case "$*" in *" train"*) echo "$CUDA_VISIBLE_DEVICES" >> devices; sleep 0.3 ;; esac\n'
    started = parallel_on_stubs(tmp_path, dvc, jobs=2, gpus=gpus)
    started.communicate(timeout=60)
    assert started.returncode == 0 and {*(tmp_path / "devices").read_text().splitlines()} == seen


def test_each_run_is_a_line_and_what_it_prints_is_a_file(tmp_path):
    output, errors = parallel_on_stubs(tmp_path, 'echo "much of $*"\n').communicate(timeout=60)
    counted = re.findall(r"^ *(\d) of 3  (train-lm@\d) +0:00:\d\d, about 0:0\d:\d\d left$", output, re.M)
    assert counted == [("1", "train-lm@1"), ("2", "train-lm@2"), ("3", "train-lm@3")]
    assert not errors and "much of --wait-for-lock" not in output
    logs = {path.stem: path.read_text().split()[-1] for path in (tmp_path / "data/scratch/logs").iterdir()}
    assert logs == {"shared": "encode", "report": "repro"} | {f"train-lm@{n}": f"score-lm@{n}" for n in (1, 2, 3)}


@pytest.mark.parametrize("end", ["exit 255", "kill -9 $$"])
def test_a_failed_run_stops_no_other_run_and_is_named(tmp_path, end):
    """DVC exits with 255 where a stage fails, at which xargs would stop."""
    started = parallel_on_stubs(tmp_path, f'case "$*" in *train-lm@1*) echo the reason; {end} ;; esac\n')
    errors = started.communicate(timeout=60)[1]
    runs = [line.split()[-1] for line in (tmp_path / "calls").read_text().splitlines() if " -s train" in line]
    assert runs == ["score-lm@1", "score-lm@2", "score-lm@3"]
    assert started.returncode == 1
    log = "error: train-lm@1 failed; all it printed is in data/scratch/logs/train-lm@1.log"
    assert {"the reason", log} <= {*errors.splitlines()}
    assert errors.splitlines()[-1] == "error: no reports, because runs failed, with messages above: train-lm@1"


@pytest.mark.parametrize(("stage", "how"), [("encode", "KILL"), ("-s train", "KILL"), ("-s train", "INT")])
def test_what_a_killed_start_has_begun_ends_with_it(tmp_path, stage, how):
    started = parallel_on_stubs(tmp_path, f'case "$*" in *"{stage}"*) echo $$ > pid; exec sleep 600 ;; esac\n')
    deadline, pid = time.monotonic() + 60, tmp_path / "pid"
    while not (pid.exists() and pid.read_text().strip()) and time.monotonic() < deadline:
        time.sleep(0.05)
    begun = psutil.Process(int(pid.read_text()))
    session = [process for process in psutil.process_iter() if os.getsid(process.pid) == os.getsid(begun.pid)]
    started.send_signal(signal.Signals[f"SIG{how}"])
    started.communicate(timeout=60)
    ended, alive = psutil.wait_procs(session, timeout=20)
    assert begun in ended and not alive


@pytest.mark.parametrize(("name", "value"), [
    ("TORCH_CUDNN_SDPA_DEPRIORITIZED", "1"), ("TORCH_COMPILE_DYNAMIC_SOURCES", "L.'args'."),
])  # fmt: skip
@pytest.mark.parametrize(("task", "own"), [("nmt", None), ("nmt", ""), ("lm", None)])
def test_only_translation_has_the_settings_of_torch_for_ever_new_sizes(tmp_path, task, own, name, value):
    (tmp_path / "bin").mkdir()
    script(tmp_path / "bin/python", f'#!/bin/sh\necho "${{{name}-unset}}"\n')
    variables = os.environ | {"VENV": str(tmp_path)}
    variables.pop(name, None)
    variables |= {} if own is None else {name: own}
    seen = "unset" if task == "lm" else value if own is None else own
    command = [ROOT / "stages/run", "1", "train", task, "mle"]
    assert subprocess.run(command, env=variables, capture_output=True, text=True, check=True).stdout == f"{seen}\n"


@pytest.mark.parametrize("command", [["stages/parallel"], ["stages/cluster"], ["stages/run", "1", "jobs"]])
def test_a_start_in_another_folder_is_one_line(tmp_path, command):
    given, variables = [ROOT / command[0], *command[1:]], served_environment()
    done = subprocess.run(given, cwd=tmp_path, env=variables, capture_output=True, text=True)
    expected = "error: params.yaml: no such file; run from the folder of a scale (the top level or scales/*)\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", expected)
    assert not any(tmp_path.iterdir())


def test_folders_that_dvc_does_not_serve_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    check_folder({"lm-train": "missing.txt"})
    (tmp_path / "data").symlink_to("/usr")
    check_folder({})  # without git DVC goes there
    (tmp_path / ".git").mkdir()
    with pytest.raises(UserError, match="^data: is a symbolic link out of the git repository, where DVC tracks no files; "):
        check_folder({})
    copy = tmp_path.joinpath(".dvc", "tmp", "exps", "tmp1")  # where DVC runs an experiment
    copy.mkdir(parents=True)
    monkeypatch.chdir(copy)
    check_folder({"lm-train": str(ROOT / "README.md")})
    with pytest.raises(UserError, match="^own.lm-train: text/train.txt: no such file in the copy .* absolute path$"):
        check_folder({"lm-train": "text/train.txt"})
