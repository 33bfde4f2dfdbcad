"""The branch of the documentation sites: a folder for each release, the newest as latest, and main as dev."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / ".ci/publish_site.py"


def git(folder: Path, *words: str) -> str:
    return subprocess.run(["git", "-C", folder, *words], check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def publish(tmp_path):
    """Publish a site of a page from a clone to a remote; return what the remote then serves."""
    git(tmp_path, "init", "--quiet", "--bare", "remote.git")
    git(tmp_path, "init", "--quiet", "clone")
    git(tmp_path / "clone", "remote", "add", "origin", tmp_path / "remote.git")

    def run(version: str, page: str) -> dict[str, str]:
        site = tmp_path / f"site-{page}"
        (site / "_static").mkdir(parents=True)
        (site / "index.html").write_text(page)
        (site / f"_static/{page}.css").write_text("")
        (site / "llms.txt").write_text("[Train](train.html), [code](https://example.org)\n")
        command = [sys.executable, SCRIPT, site, version]
        subprocess.run(command, cwd=tmp_path / "clone", check=True, capture_output=True, text=True)
        files = git(tmp_path / "remote.git", "ls-tree", "-r", "--name-only", "gh-pages").splitlines()
        return {file: git(tmp_path / "remote.git", "show", f"gh-pages:{file}") for file in files}

    return run


def test_each_version_keeps_its_folder_and_latest_is_the_newest_release(publish):
    served = publish("dev", "one")
    assert "url=dev/" in served["index.html"] and ".nojekyll" in served and "latest/index.html" not in served
    publish("v0.9.0", "two")
    publish("v0.10.0", "three")
    served = publish("v0.9.1", "four")  # a fix of an older release
    pages = {file.split("/")[0]: text for file, text in served.items() if file.endswith("/index.html")}
    assert pages == {"dev": "one", "0.9.0": "two", "0.10.0": "three", "0.9.1": "four", "latest": "three"}
    served = publish("dev", "five")
    assert served["dev/index.html"] == "five" and "dev/_static/one.css" not in served
    assert "url=latest/" in served["index.html"]
    assert served["llms.txt"] == "[Train](latest/train.html), [code](https://example.org)"
    order = [served["versions.html"].index(f'"{name}/"') for name in ("latest", "dev", "0.10.0", "0.9.1", "0.9.0")]
    assert order == sorted(order)


def test_another_name_than_a_version_is_refused(tmp_path):
    (tmp_path / "index.html").write_text("")
    done = subprocess.run([sys.executable, SCRIPT, tmp_path, "main"], capture_output=True, text=True)
    assert done.returncode == 1 and done.stderr == "error: version main is not allowed: dev, or a release such as v1.2.3\n"
