"""Python packages and the actions of workflows are pinned to bytes, not to names."""

import re
import sysconfig
from importlib.metadata import distributions
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^([a-z0-9._-]+)==([^ +]+) \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", re.MULTILINE)


def plain(name: str) -> str:
    """The name of a package as an index knows it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pinned(lock: str) -> dict[str, str]:
    """Name -> version of a lock, all of whose blocks have hashes."""
    text = (ROOT / lock).read_text()
    assert BLOCK.sub("", text) == "", lock
    return {plain(name): version for name, version, _ in BLOCK.findall(text)}


def test_every_installed_package_is_in_the_lock_with_hashes():
    """What a package needs is installed with it, so an environment has all that the lock must pin, at its versions."""
    here = distributions(path=[sysconfig.get_path("purelib")])  # sys.path may also hold the packages inside setuptools
    installed = {plain(one.metadata["Name"]): one.version.partition("+")[0] for one in here}
    mine = {name: version for name, version in installed.items() if name not in ("pip", "raretokens", "setuptools")}
    locked = pinned("requirements.lock") | pinned(".ci/requirements-uv.lock")
    further = pinned(".ci/requirements-cublas.lock") | pinned(".ci/requirements-optional.lock")
    assert mine.items() <= (locked | further).items()
    lines = (ROOT / ".ci/requirements.in").read_text().splitlines()
    wanted = {plain(re.split(r"[\[=]", line)[0]) for line in lines if line[:1].isalpha()}
    assert len(wanted) > 40 and wanted <= locked.keys()


def test_torch_has_the_hashes_of_several_platforms():
    hashes = {name: block.count("sha256") for name, _, block in BLOCK.findall((ROOT / "requirements.lock").read_text())}
    assert hashes["torch"] > 10 and hashes["numpy"] > 10


def test_the_environment_installs_nothing_without_a_hash():
    """Apart from torch's CPU build, whose version is that of the lock."""
    commands = re.findall(r"pip install [^|;]*|(?<=[ (])install [^|;]*", (ROOT / ".ci/environment.sh").read_text())
    named = [command for command in commands if re.search(r"[a-z0-9]==|-r ", command)]
    assert named and all("torch" in one or "requirements.lock" in one or "--require-hashes" in one for one in named)


@pytest.mark.parametrize("path", sorted((ROOT / ".github/workflows").glob("*.yaml")), ids=lambda path: path.stem)
def test_actions_are_pinned_by_hash(path):
    jobs = yaml.safe_load(path.read_text())["jobs"].values()
    used = [step["uses"] for job in jobs for step in job.get("steps", [job]) if "uses" in step]
    local = {f"./.github/workflows/{file.name}" for file in path.parent.iterdir()}
    assert used and all(action in local or re.fullmatch(r"[a-z-]+/[a-z-]+@[0-9a-f]{40}", action) for action in used)


def test_the_container_is_built_where_something_that_it_copies_changes():
    copied = re.findall(r"^COPY (.*) \S+$", (ROOT / ".ci/Dockerfile").read_text(), flags=re.MULTILINE)
    workflow = yaml.load((ROOT / ".github/workflows/container.yaml").read_text(), yaml.BaseLoader)
    watched = {path.removesuffix("/**") for path in workflow["on"]["pull_request"]["paths"]}
    assert copied and {name for line in copied for name in line.split()} <= watched


def test_dvc_reads_its_lock_with_the_parser_in_c():
    """The parser in Python, which ruamel.yaml takes where it finds no other, is four times slower, in every call of dvc."""
    assert "ruamel.yaml[oldlibyaml]" in (ROOT / ".ci/requirements.in").read_text().split()
    from ruamel.yaml import YAML
    from ruamel.yaml.parser import Parser

    assert YAML(typ="safe").Parser is not Parser
