"""The notebook of first steps: its cells run in order, and end with the verdicts that its text announces."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
NOTEBOOK = json.loads((ROOT / "docs/examples/first-steps.ipynb").read_text(encoding="utf-8"))
COMMAND = "import subprocess, sys; subprocess.run([sys.executable, '-m', *{!r}.split()], check=True)"


def test_cells_run_in_order_and_end_with_verdicts(tmp_path):
    cells = ["".join(cell["source"]) for cell in NOTEBOOK["cells"] if cell["cell_type"] == "code"]
    script = "\n".join(re.sub(r"^!(.*)$", lambda line: COMMAND.format(line[1]), cell, flags=re.MULTILINE) for cell in cells)
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    perplexities = re.findall(r"^(mle|agg), seed \d: perplexity [\d.]+, of rare targets ([\d,]+)$", done.stdout, re.MULTILINE)
    assert len(perplexities) == 6 and "I(W)" in done.stdout and "agg minus mle" in done.stdout
    assert re.search(r"^ *agg-lowers-rare-perplexity .* reproduced *$", done.stdout, re.MULTILINE)


def test_links_lead_to_pages():
    text = "".join(line for cell in NOTEBOOK["cells"] if cell["cell_type"] == "markdown" for line in cell["source"])
    links = re.findall(r"\[([^]]+)\]\(([^)#]+)", text)
    assert len(links) > 3 and all((ROOT / "docs/examples" / link).exists() for _, link in links)
    assert all(name == f"docs/{Path(link).name}" for name, link in links)  # where a link leads nowhere, outside a clone


def test_the_install_line_is_that_of_the_readme():
    readme, text = ((ROOT / file).read_text(encoding="utf-8") for file in ("README.md", "docs/examples/first-steps.ipynb"))
    (line,) = re.findall(r"raretokens is not on a package index yet\. .*:$", readme, re.MULTILINE)
    assert f"{line} `pip install '.[claims]'`" in text
