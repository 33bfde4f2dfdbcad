# /// script
# dependencies = ["pypandoc-binary==1.17", "typst==0.15.2"]
# ///
"""Build paper.pdf from paper.md and paper.bib: uv run docs/paper/build.py, or pipx run docs/paper/build.py."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pypandoc
import typst

HERE = Path(__file__).parent
OPTIONS = ["--standalone", "--citeproc", f"--bibliography={HERE / 'paper.bib'}", "--fail-if-warnings"]

with TemporaryDirectory() as folder:
    source = Path(folder) / "paper.typ"
    pypandoc.convert_file(HERE / "paper.md", "typst", format="markdown", outputfile=source, extra_args=OPTIONS)
    typst.compile(source, output=HERE / "paper.pdf")
