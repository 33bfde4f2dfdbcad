"""Put a built documentation site into its folder of the branch gh-pages, which GitHub serves.

python .ci/publish_site.py SITE VERSION [REMOTE]     # VERSION: a tag such as v1.2.3, or dev; REMOTE: origin by default

The branch has a folder for each release, `latest` for the newest one, `dev` for the main branch, and a start page that opens
`latest`. It is one commit without history, as each site has thousands of files. The work tree and the index stay as they are.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

BRANCH = "refs/heads/gh-pages"
RELEASE = re.compile(r"\d+\.\d+\.\d+")
START = '<!doctype html>\n<title>raretokens</title>\n<meta http-equiv="refresh" content="0; url={0}/">\n<a href="{0}/">{0}</a>\n'
VERSIONS = "<!doctype html>\n<title>raretokens: versions</title>\n<h1>Versions of the documentation</h1>\n<ul>\n{}</ul>\n"
AUTHOR = {f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER") for key, value in
          {"NAME": "github-actions[bot]", "EMAIL": "41898282+github-actions[bot]@users.noreply.github.com"}.items()}  # fmt: skip


def git(*words: str, index: Path | None = None, text: str | None = None) -> str:
    environment = {**os.environ, **AUTHOR, **({"GIT_INDEX_FILE": str(index)} if index else {})}
    done = subprocess.run(["git", *words], input=text, capture_output=True, text=True, env=environment)
    if done.returncode:
        sys.exit(f"error: git {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout.strip()


def number(release: str) -> tuple[int, ...]:
    return tuple(map(int, release.split(".")))


def publish(site: Path, version: str, remote: str, scratch: Path) -> str:
    """Push the branch with the site of this version, and return the folders that hold it."""
    index, alone = scratch / "index", scratch / "site"
    before = git("ls-remote", remote, BRANCH).partition("\t")[0]
    if before:
        git("fetch", "--quiet", "--depth", "1", remote, before)
        git("read-tree", before, index=index)
    git(f"--work-tree={site}", "add", "--all", "--force", ".", index=alone)
    tree = git("write-tree", index=alone)
    present = {path.split("/")[0] for path in git("ls-files", index=index).splitlines()}
    releases = sorted({name for name in {*present, version} if RELEASE.fullmatch(name)}, key=number, reverse=True)
    folders = [version, *(["latest"] if releases[:1] == [version] else [])]
    for folder in folders:
        git("rm", "-r", "--cached", "--quiet", "--ignore-unmatch", folder, index=index)
        git("read-tree", f"--prefix={folder}/", tree, index=index)
    shown = [*(["latest"] if releases else []), *(["dev"] if "dev" in {*present, version} else []), *releases]
    start = shown[0]
    pages = {
        ".nojekyll": "",
        "index.html": START.format(start),
        "versions.html": VERSIONS.format("".join(f'<li><a href="{name}/">{name}</a></li>\n' for name in shown)),
    }
    for name, text in pages.items():
        blob = git("hash-object", "-w", "--stdin", text=text)
        git("update-index", "--add", "--cacheinfo", f"100644,{blob},{name}", index=index)
    if llms := git("ls-files", "--stage", f"{start}/llms.txt", index=index):  # with links that lead from the root
        text = git("cat-file", "blob", llms.split()[1]).replace("](", f"]({start}/").replace(f"]({start}/http", "](http")
        blob = git("hash-object", "-w", "--stdin", text=text + "\n")
        git("update-index", "--add", "--cacheinfo", f"100644,{blob},llms.txt", index=index)
    commit = git("commit-tree", git("write-tree", index=index), "-m", f"Documentation of {', '.join(shown)}")
    git("push", "--quiet", f"--force-with-lease={BRANCH}:{before}", remote, f"{commit}:{BRANCH}")
    return " and ".join(folders)


if __name__ == "__main__":
    site, version, *remote = sys.argv[1:]
    if not (Path(site) / "index.html").exists():
        sys.exit(f"error: {site}: has no index.html; should be a built site (make site)")
    if version != "dev" and not RELEASE.fullmatch(version := version.removeprefix("v")):
        sys.exit(f"error: version {version} is not allowed: dev, or a release such as v1.2.3")
    with tempfile.TemporaryDirectory() as place:
        print("published as", publish(Path(site).resolve(), version, *(remote or ["origin"]), Path(place)))
