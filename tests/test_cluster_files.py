"""docs/examples/clusters: what SkyPilot and Kubernetes are given is valid, and a preempted job goes on from its state."""

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml
from dvc.cli import parse_args
from dvc.repo import Repo
from tiny import world

from raretokens.yaml_files import checked
from reproduction import paths
from reproduction.pipeline.cluster import run_targets
from reproduction.pipeline.parameters_file import load
from reproduction.pipeline.settings import Machine

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs/examples/clusters"
SKYPILOT = yaml.safe_load((FOLDER / "skypilot.yaml").read_text(encoding="utf-8"))
MANIFESTS = [
    manifest
    for name in ("kubernetes.yaml", "kubernetes-shell.yaml")
    for manifest in yaml.safe_load_all((FOLDER / name).read_text(encoding="utf-8"))
]
POD = next(manifest for manifest in MANIFESTS if manifest["kind"] == "Job")["spec"]["template"]["spec"]
(CLONE,), (RUNS,) = POD["initContainers"], POD["containers"]
CLONED = {entry["name"]: entry["value"] for entry in CLONE["env"]}


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda manifest: manifest["kind"])
def test_kubernetes_accepts_the_manifests(manifest):
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    kubernetes_validate.validate(manifest, kubernetes_validate.latest_version(), strict=True)


def test_image_and_clone_are_those_of_the_release():
    version = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))["version"]
    name = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["name"]
    release = (ROOT / ".github/workflows/release.yaml").read_text(encoding="utf-8")
    assert "name=ghcr.io/${GITHUB_REPOSITORY,,}" in release and ".name }}:${{ steps.image.outputs.version }}" in release
    containers = [*POD["initContainers"], *POD["containers"], *MANIFESTS[-1]["spec"]["containers"]]
    assert {container["image"] for container in containers} == {f"ghcr.io/OWNER/{name}:{version}"}
    assert SKYPILOT["envs"]["VERSION"] == version and f"ghcr.io/$OWNER/{name}:$VERSION" in SKYPILOT["run"]
    assert SKYPILOT["workdir"] == {"url": f"https://github.com/${{OWNER}}/{name}", "ref": "v${VERSION}"}
    assert (CLONED["REPOSITORY"], CLONED["REVISION"]) == (f"https://github.com/OWNER/{name}", f"v{version}")


def test_every_command_exists():
    """Those that are run, and those that comments offer instead."""
    scale = ROOT / RUNS["workingDir"].removeprefix("/volume/raretokens/")
    (script,) = RUNS["command"]
    assert SKYPILOT["envs"]["COMMAND"] == script and os.access(scale / script, os.X_OK)
    text = "".join(path.read_text(encoding="utf-8") for path in FOLDER.iterdir())
    offered = re.findall(r"one run on all GPUs: \[?(dvc[^\]\n]*)", text)
    assert len(offered) == 2
    for command in offered:
        program, action, target = command.replace(",", "").split()
        assert callable(parse_args([action, target]).func) and program == "dvc"
        assert target in " ".join(run_targets(load(scale / "params.yaml"))).split()


@pytest.mark.parametrize("text", [SKYPILOT["envs"]["MACHINE"], CLONED["MACHINE"]], ids=["skypilot", "kubernetes"])
def test_settings_of_the_machine_are_settings(text):
    assert checked(Machine, yaml.safe_load(text), FOLDER).report_seconds == 60


@pytest.mark.skipif(not shutil.which("rsync"), reason="no rsync, which machines of SkyPilot have")
def test_a_new_machine_of_skypilot_has_the_states_that_the_last_one_left(tmp_path):
    """The script of the task runs twice, on two clones; a `docker` in its place saves a state, and is killed the first time."""
    bucket, programs = tmp_path / "bucket", tmp_path / "programs"
    script = SKYPILOT["run"].replace("/bucket", str(bucket)).replace("sleep 60", "sleep 0.1")
    programs.mkdir()
    states = paths.STATES / "lm-agg-0"
    (programs / "docker").write_text(
        f"""#!/bin/sh -e
        echo "$*" > "$CALL"
        cat {paths.MACHINE} > /dev/null
        mkdir -p {states} reports
        if ! [ -e {states}/state-1.pt ]; then
            echo state > {states}/state-1.pt
            while ! [ -e {bucket}/runs/{states.name}/state-1.pt ]; do sleep 0.1; done
            exit 137
        fi
        touch dvc.lock reports/index.md
        """
    )
    (programs / "docker").chmod(0o755)
    codes = []
    for number in (1, 2):
        clone = tmp_path / f"clone-{number}"
        (clone / "scales/paper").mkdir(parents=True)
        environment = {**os.environ, **SKYPILOT["envs"], "OWNER": "us", "CALL": str(clone / "call")}
        environment["PATH"] = f"{programs}:{environment['PATH']}"
        done = subprocess.run(["bash", "-c", script], cwd=clone, env=environment, timeout=60, check=False)
        codes.append(done.returncode)
    assert codes == [137, 0] and (bucket / "reports/index.md").exists() and (bucket / "dvc.lock").exists()
    call = (clone / "call").read_text().split()
    cache = Path(Repo(ROOT / "scales/paper").cache.legacy.path).relative_to(ROOT)
    assert {f"{clone}:/clone", f"{bucket}/cache:/clone/{cache}"} <= {*call} and call[-1] == SKYPILOT["envs"]["COMMAND"]
    assert "ghcr.io/us/raretokens:" in call[-2] and call[call.index("--workdir") + 1] == "/clone/scales/paper"


def test_the_next_pod_finds_the_clone_of_the_last_one(tmp_path):
    """With what is in it, but without the locks of processes that are gone."""
    origin, volume = tmp_path / "origin", tmp_path / "volume"
    (origin / "scales/paper").mkdir(parents=True)
    (origin / "scales/paper/params.yaml").touch()
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "first"], ["tag", CLONED["REVISION"]]):
        world.run(origin, "git", *command)
    volume.mkdir()
    (volume / "part").mkdir()  # a clone that was interrupted
    environment = {**os.environ, **CLONED, "REPOSITORY": str(origin)}
    start = [*CLONE["command"], *CLONE["args"]]
    subprocess.run(start, cwd=volume, env=environment, check=True, capture_output=True)
    scale = volume / RUNS["workingDir"].removeprefix(CLONE["workingDir"] + "/")
    kept, lock = scale / paths.STATES / "lm-agg-0/state-1.pt", scale / ".dvc/tmp/rwlock"
    for file in (kept, lock):
        file.parent.mkdir(parents=True)
        file.touch()
    subprocess.run(start, cwd=volume, env=environment, check=True, capture_output=True)
    assert kept.exists() and not lock.exists() and (scale / paths.MACHINE).exists() and not (volume / "part").exists()
    (volume,) = (one for one in POD["volumes"] if "persistentVolumeClaim" in one)
    for container in (CLONE, RUNS):
        assert {"name": volume["name"], "mountPath": CLONE["workingDir"]} in container["volumeMounts"]
    assert volume["persistentVolumeClaim"]["claimName"] == MANIFESTS[0]["metadata"]["name"]


def test_preemptions_do_not_count_as_failures():
    job = next(manifest for manifest in MANIFESTS if manifest["kind"] == "Job")["spec"]
    (rule,) = job["podFailurePolicy"]["rules"]
    assert (rule["action"], rule["onPodConditions"][0]["type"], POD["restartPolicy"]) == ("Ignore", "DisruptionTarget", "Never")
    assert SKYPILOT["resources"]["use_spot"] and SKYPILOT["resources"]["job_recovery"]["max_restarts_on_errors"]
