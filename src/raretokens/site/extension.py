"""Sphinx extension of the documentation site: links to files of the repository that are no pages of the site."""

import os
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.transforms import SphinxTransform

ROOT = Path(__file__).resolve().parents[3]


class FileLinks(SphinxTransform):
    """Turn links to files and folders outside docs/ into links to the repository; MyST would copy or refuse them."""

    default_priority = 10

    def apply(self, **kwargs: Any) -> None:
        for kind in (addnodes.download_reference, addnodes.pending_xref):
            for node in list(self.document.findall(kind)):
                if node.get("refdomain") in (None, "", "doc") and (path := _path(self.env, node.get("reftarget") or "")):
                    node.replace_self(_link(self.env, path, node.children))


def _path(env: BuildEnvironment, target: str) -> PurePosixPath | None:
    """Return the path in the repository of a link that is relative to the present page, or to the README that it includes."""
    name = unquote(target.partition("#")[0])
    for folder in (Path(env.doc2path(env.docname)).parent, ROOT):
        path = Path(os.path.normpath(folder / name))
        for file in (path, path.with_name(f"{path.name}.md")):
            if name and file.exists() and file.is_relative_to(ROOT) and not file.is_relative_to(env.srcdir):
                return PurePosixPath(file.relative_to(ROOT))
    return None


def _link(env: BuildEnvironment, path: PurePosixPath, children: list[nodes.Node]) -> nodes.reference:
    base = env.config.repository_files
    if not base:
        base = f"{'../' * env.docname.count('/')}{os.path.relpath(ROOT, env.app.outdir)}/"
    return nodes.reference("", "", *children, refuri=f"{base}{path}", internal=False)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.add_config_value("repository_files", "", "env", (str,))
    app.add_transform(FileLinks)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
