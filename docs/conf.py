"""Sphinx configuration of the documentation site: `make site` builds it into build/site."""

import gc
import os
import sys
from pathlib import Path

gc.disable()  # searching the trees of all pages for garbage takes a quarter of the time; without it they take 1.8 GB

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "docs")]

project = "raretokens"
author = "The raretokens developers"
copyright = "The raretokens developers. Apache License 2.0"

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_argparse_cli",
    "_extension",
]
exclude_patterns = ["_*", "examples", "paper", "studies"]
nitpicky = True
nitpick_ignore_regex = [("py:.*", ".*")]  # annotations name classes of torch, whose documentation is not linked offline

myst_enable_extensions = ["colon_fence", "deflist", "attrs_block", "attrs_inline"]
myst_heading_anchors = 4
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
copybutton_exclude = ".linenos, .gp, .go"

html_theme = "furo"
html_title = f"raretokens {os.environ.get('RARETOKENS_VERSION', '').removeprefix('v')}".strip()  # that of a published site
html_static_path = ["_static"]
html_extra_path = ["llms.txt"]  # at the root of the site, for language models
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": True}

# Links to files that are no pages: to the repository where the site is published, else to the checkout that it was built from.
repository_files = os.environ.get("RARETOKENS_REPOSITORY_FILES", "")
