"""The command that draws the plots of dvc.yaml on a page that needs no network."""

import argparse
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import vl_convert

from raretokens.cli import argument, command
from raretokens.errors import UserError

# `{...}` are filled by DVC. Its own page would load Vega from the network.
PAGE = """<!DOCTYPE html>
<meta charset="utf-8">
{refresh_tag}
<title>Plots</title>
<style>body { font-family: sans-serif; } body > div { margin: 2rem; overflow-x: auto; }</style>
<script>(() => {BUNDLE})();</script>
{plot_divs}
"""


@command(
    argument("revisions", nargs="*", metavar="REV", help="git revisions to compare; default: draw the files as they are"),
    argument("--out", default="dvc_plots", help="folder of the page; default: dvc_plots"),
)
def draw_plots(arguments: argparse.Namespace) -> None:
    with TemporaryDirectory() as folder:
        page = Path(folder) / "page.html"
        page.write_text(PAGE.replace("BUNDLE", f"{{{vl_convert.javascript_bundle()}}}"), encoding="utf-8")
        what = ["diff", *arguments.revisions] if arguments.revisions else ["show"]
        options = ["--out", arguments.out, "--html-template", str(page)]
        if subprocess.run([sys.executable, "-m", "dvc", "plots", *what, *options]).returncode:
            raise UserError("dvc plots failed; its message is above")
