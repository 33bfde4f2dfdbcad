"""What is installed and what workflows run is pinned to bytes, not to names."""

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^([a-z0-9._-]+)==([^ +]+) \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", re.MULTILINE)


def test_every_pinned_package_has_hashes_and_nothing_else_is_in_the_lock():
    lock = (ROOT / "requirements.lock").read_text()
    assert BLOCK.sub("", lock) == ""
    pinned = {name: hashes.count("sha256") for name, _, hashes in BLOCK.findall(lock)}
    wanted = {
        line.split("==")[0].split("[")[0]
        for line in (ROOT / "requirements.in").read_text().split()
        if line[:1].isalpha()
    }
    assert {"torch", "numpy", "dvc"} < wanted & pinned.keys()
    assert pinned["torch"] > 10 and pinned["numpy"] > 10  # files of several platforms


@pytest.mark.parametrize("path", sorted((ROOT / ".github/workflows").glob("*.yaml")), ids=lambda path: path.stem)
def test_actions_are_pinned_by_hash(path):
    jobs = yaml.safe_load(path.read_text())["jobs"].values()
    used = [step["uses"] for job in jobs for step in job["steps"] if "uses" in step]
    assert used and all(re.fullmatch(r"[a-z-]+/[a-z-]+@[0-9a-f]{40}", action) for action in used)


def test_dvc_reads_its_lock_with_the_parser_in_c():
    """The parser in Python, which ruamel.yaml takes where it finds no other, is four times slower, in every call of dvc."""
    assert "ruamel.yaml[oldlibyaml]" in (ROOT / "requirements.in").read_text().split()
    from ruamel.yaml import YAML
    from ruamel.yaml.parser import Parser

    assert YAML(typ="safe").Parser is not Parser
