"""Files and parameters of a git revision, relative to the folder of a scale."""

import subprocess
from pathlib import Path
from typing import Any

from raretokens.errors import UserError
from raretokens.yaml_files import parsed_yaml, read_yaml
from reproduction.paths import PARAMETERS


class Revision:
    """A commit. Paths are relative to a folder, which may be any folder of the work tree.

    Raises:
        UserError: if git is not installed, or there is no repository or no such revision.
    """

    def __init__(self, name: str, folder: Path = Path()) -> None:
        self.name, self.folder = name, folder
        self._git("rev-parse", "--show-toplevel", error="not a git repository")
        commit = ("rev-parse", "--verify", "--end-of-options", f"{name}^{{commit}}")
        self.commit = self._git(*commit, error=f"{name}: no such revision").strip()

    def read(self, path: str) -> bytes | None:
        """Return the content of a file, or None if the revision has no such file."""
        done = subprocess.run(["git", "show", f"{self.commit}:./{path}"], cwd=self.folder, capture_output=True)
        return None if done.returncode else done.stdout

    def files(self, folder: str) -> list[str]:
        """Return the files below a folder, relative to it. Empty if the revision has no such folder."""
        paths = self._git("ls-tree", "-r", "--name-only", "-z", self.commit, f"{folder}/").split("\0")[:-1]
        return [path.removeprefix(f"{folder}/") for path in paths]

    def changed(self, folder: str) -> list[str]:
        """Return the files below a folder that git knows and that differ from the revision, relative to the folder."""
        paths = self._git("diff", "--name-only", "--relative", "-z", self.commit, "--", f"{folder}/").split("\0")[:-1]
        return [path.removeprefix(f"{folder}/") for path in paths]

    def parameters(self) -> list[tuple[str, Any, Any]]:
        """Return the parameters that differ from the working tree's, leaf by leaf: (key, before, now)."""
        old = _leaves(parsed_yaml(self.read(f"{PARAMETERS}") or b"", f"{self.name}:{PARAMETERS}") or {})
        new = _leaves(read_yaml(PARAMETERS) or {})
        keys = dict.fromkeys([*old, *new])
        return [(key, old.get(key), new.get(key)) for key in keys if old.get(key) != new.get(key)]

    def _git(self, *arguments: str, error: str = "") -> str:
        try:
            done = subprocess.run(["git", *arguments], cwd=self.folder, capture_output=True, text=True, errors="replace")
        except FileNotFoundError:
            raise UserError("git is not installed") from None
        if done.returncode and error:
            raise UserError(error)
        return done.stdout


def _leaves(tree: Any, prefix: str = "") -> dict[str, Any]:
    if isinstance(tree, dict) and tree:
        return {k: v for key, part in tree.items() for k, v in _leaves(part, f"{prefix}.{key}".strip(".")).items()}
    return {prefix: tree}
