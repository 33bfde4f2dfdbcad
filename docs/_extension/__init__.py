"""Sphinx extension of the documentation site: pages of the reports with tables and charts, and links to files."""

import json
import os
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote

import itables
import vl_convert
from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.environment import BuildEnvironment
from sphinx.transforms import SphinxTransform

from _extension.pages import Pages, write_changed
from _extension.scale import Scale
from raretokens.files import write_text
from raretokens.objectives.registry import objectives
from raretokens.schema import Section
from reproduction.papers import claim, declarations, setting
from reproduction.papers import table as tables
from reproduction.papers.load import load_declarations
from reproduction.paths import PAPERS
from reproduction.report.markdown import escaped, table

ROOT = Path(__file__).resolve().parents[2]
SCALES = {"small": ROOT / "scales/small", "demo": ROOT}  # folder of the pages in docs/results -> folder of the scale
DECLARED: dict[str, tuple[type[Section], ...]] = {  # part of docs/declarations.md -> schemas of its keys
    "metrics": (declarations.Metric, declarations.Tolerance),
    "tables": (tables.Table, tables.Column, tables.RunRow),
    "facts": (tables.Fact, tables.Subject, tables.FactPart),
    "claims": (claim.Claim, claim.ClaimSide, claim.Control),
    "preconditions": (claim.Precondition, claim.Reference),
    "figures": (tables.Figure, tables.Panel),
    "papers": (declarations.Paper, declarations.Method, declarations.Scale, declarations.Search),
    "settings": (setting.Setting, setting.Properties),
}


class FileLinks(SphinxTransform):
    """Turn links to files that are no pages into links to the repository, or to the page of the site that shows the file."""

    default_priority = 10

    def apply(self, **kwargs: Any) -> None:
        for kind in (addnodes.download_reference, addnodes.pending_xref):
            for node in list(self.document.findall(kind)):
                target, _, anchor = (node.get("reftarget") or "").partition("#")
                part, is_page = anchor or node.get("reftargetid") or "", target in self.env.found_docs
                if node.get("refdomain") not in (None, "", "doc"):
                    continue
                if is_page and part.startswith(("claim-", "run-")):  # identifiers in HTML, which Sphinx does not know
                    address = self.app.builder.get_relative_uri(self.env.docname, target)
                    node.replace_self(nodes.reference("", "", *node.children, refuri=f"{address}#{part}", internal=False))
                elif not is_page and (path := _path(self.env, target)):
                    node.replace_self(_link(self.env, path, part, node.children))
        if self.env.docname.startswith("results/"):
            self._link_named_files()

    def _link_named_files(self) -> None:
        """Link the files that a report names as code, such as `docs/glossary.md`, because reports link only to reports."""
        for node in list(self.document.findall(nodes.literal)):
            name = node.astext()
            is_linked = isinstance(node.parent, nodes.reference | addnodes.pending_xref | addnodes.download_reference)
            if "/" in name and not is_linked and (ROOT / name).is_file():
                node.replace_self(_link(self.env, PurePosixPath(name), "", [node.deepcopy()]))


def _path(env: BuildEnvironment, target: str) -> PurePosixPath | None:
    """Return the path in the repository of a link that is relative to the current page, or to the README that it includes."""
    name = unquote(target)
    for folder in (Path(env.doc2path(env.docname)).parent, ROOT):
        path = Path(os.path.normpath(folder / name))
        for file in (path, path.with_name(f"{path.name}.md")):
            is_page = env.path2doc(str(file)) in env.found_docs
            if name and file.exists() and file.is_relative_to(ROOT) and not is_page:
                return PurePosixPath(file.relative_to(ROOT))
    return None


def _link(env: BuildEnvironment, path: PurePosixPath, anchor: str, children: list[nodes.Node]) -> nodes.reference:
    """Return a link to a file of the repository, or to the page of the site that shows it."""
    if page := _shown(env, path):
        address = env.app.builder.get_relative_uri(env.docname, page)
    else:
        base = _files(env.app)
        address = f"{'' if '://' in base else '../' * env.docname.count('/')}{base}{path}"
    return nodes.reference("", "", *children, refuri=address + (f"#{anchor}" if anchor else ""), internal=False)


def _shown(env: BuildEnvironment, path: PurePosixPath) -> str | None:
    """Return the page of the site that is made from a Markdown file of the reports or of docs, or None."""
    if (own := env.path2doc(str(ROOT / path))) in env.found_docs:
        return own
    for name, folder in SCALES.items():
        reports = PurePosixPath((folder / "reports").relative_to(ROOT))
        if path.is_relative_to(reports) and path.suffix == ".md":
            inside = path.relative_to(reports)
            paper = inside.stem if inside.parent.name == "papers" else ""
            for page in (f"results/{name}/{paper}/index", f"results/{name}/{inside.stem}"):
                if page in env.found_docs:
                    return page
    return None


def _files(app: Sphinx) -> str:
    """Return the address of the code: the repository if it is configured, else a path relative to the top page."""
    return app.config.repository_files or f"{os.path.relpath(ROOT, app.outdir)}/"


def _chosen(config: Config) -> dict[str, Path]:
    """Return the scales of the configuration that have reports. Git ignores those of the demo."""
    chosen = config.scales.split(",")
    return {name: folder for name, folder in SCALES.items() if name in chosen and (folder / "reports/claims.csv").is_file()}


def exclude_other_scales(app: Sphinx, config: Config) -> None:
    """Exclude pages that an earlier build wrote for scales that are not shown now."""
    config.exclude_patterns += [f"results/{name}" for name in SCALES if name not in _chosen(config)]


def unlist_other_scales(app: Sphinx, page: str, source: list[str]) -> None:
    """Remove the scales that are not shown from the contents, where Sphinx would warn of their missing pages."""
    for name in SCALES.keys() - _chosen(app.config).keys() if page == "index" else ():
        source[0] = source[0].replace(f"results/{name}/index\n", "")


def link_versions(app: Sphinx, page: str, source: list[str]) -> None:
    """Link the list of versions on a published site. Elsewhere there is no such file."""
    if page == "versioning" and app.config.repository_files:
        source[0] = source[0].replace("`versions.html`", '<a href="../versions.html">versions.html</a>')


def write_pages(app: Sphinx) -> None:
    """Write the pages of each scale that has reports."""
    for name, folder in _chosen(app.config).items():
        pages = Path(app.srcdir) / "results" / name
        Pages(Scale.read(folder, ROOT), pages, _files(app), ROOT, name == "small").write()


def write_references(app: Sphinx) -> None:
    """Write the tables of docs/_generated, which the reference pages include."""
    pages = {"objectives": objectives_text(), "metrics": metrics_text(ROOT / PAPERS)}
    pages |= {f"keys-{part}": keys_text(schemas) for part, schemas in DECLARED.items()}
    for name, text in pages.items():
        write_changed(Path(app.srcdir) / f"_generated/{name}.md", text)


def objectives_text() -> str:
    """Return all objectives with their options, as Markdown."""
    parts = []
    for name, choice in objectives().items():
        parts += [f"## `{name}`", "", choice.summary, ""]
        rows = [(f"`{key}`", f"`{choice.defaults[key]}`", escaped(allowed)) for key, allowed in choice.allowed.items()]
        if rows:
            parts += [table(("option", "default", "allowed"), rows), ""]
    return "\n".join(parts)


def metrics_text(folder: Path) -> str:
    """Return all declared metrics as a Markdown table. `folder`: data/paper."""
    metrics = load_declarations(folder).metrics.items()
    rows = [(f"`{path}`", escaped(one.title), escaped(one.unit), one.better) for path, one in metrics]
    return table(("path", "title", "unit", "better"), rows) + "\n"


def keys_text(schemas: tuple[type[Section], ...]) -> str:
    """Return the keys of declarations with their descriptions, as a Markdown table for each schema."""
    parts = []
    for schema in schemas:
        fields = schema.model_fields.items()
        rows = [(f"`{key}`", escaped(field.description).replace("\\`", "`")) for key, field in fields if key != "file"]
        parts += [escaped((schema.__doc__ or "").partition("\n")[0]), "", table(("key", "meaning"), rows), ""]
    return "\n".join(parts)


def write_libraries(app: Sphinx, error: Exception | None) -> None:
    """Write DataTables and Vega as plain scripts, so that pages opened from disk, without a server, can load them."""
    if error is None and app.builder.format == "html":
        static = Path(app.outdir) / "_static"
        bundle = Path(itables.__file__).parent / "html"
        source = json.dumps((bundle / "dt_bundle.js").read_text(encoding="utf-8"))
        write_text(static / "datatables.js", f"window.dataTablesSource = {source};\n")
        write_text(static / "datatables.css", (bundle / "dt_bundle.css").read_text(encoding="utf-8"))
        # Browsers do not load modules from disk. The bundle imports and exports nothing, so a plain function can wrap it.
        write_text(static / "vega.js", f"(() => {{{vl_convert.javascript_bundle()}}})();\n")


def add_libraries(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """Load the libraries on pages that contain a table or a chart."""
    body = context.get("body", "")
    if any(f'class="{kind}' in body for kind in ("filtered", "paged", "grid")):
        app.add_js_file("datatables.js", loading_method="defer", priority=300)
        app.add_css_file("datatables.css", priority=300)
    if 'class="chart"' in body:
        app.add_js_file("vega.js", loading_method="defer", priority=300)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension with Sphinx."""
    app.add_config_value("repository_files", "", "env", (str,))
    app.add_config_value("scales", ",".join(SCALES), "env", (str,))
    app.connect("config-inited", exclude_other_scales)
    app.connect("source-read", unlist_other_scales)
    app.connect("source-read", link_versions)
    app.add_transform(FileLinks)
    app.connect("builder-inited", write_pages)
    app.connect("builder-inited", write_references)
    app.connect("html-page-context", add_libraries)
    app.connect("build-finished", write_libraries)
    app.add_js_file("site.js", loading_method="defer", priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
