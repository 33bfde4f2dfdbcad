"""The commands of README.md and docs/reproduce.md: each is understood, and those that only look work in a fresh clone."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from dvc.cli import parse_args
from test_guides import PAGES
from tiny import world
from transformers import GPT2Config, GPT2LMHeadModel, TrainingArguments

from raretokens import Loop, build, facts
from raretokens.cli import RARETOKENS
from raretokens.errors import UserError
from reproduction.commands import REPRODUCTION, scale_commands

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
REPRODUCE = (ROOT / "docs/reproduce.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", README + REPRODUCE, flags=re.DOTALL | re.MULTILINE)
COMMANDS = [line.split(" #")[0].strip() for kind, block in BLOCKS if not kind for line in block.splitlines()]
LOOKING = [
    "make help",
    "dvc params diff",
    next(command for command in COMMANDS if command.startswith("dvc exp show")),
    "python -m reproduction stages",
    "python -m reproduction plan --gpu a100",
]
WIDTH = 160
SHORTENED = {  # lines of docs/stack.md that its scripts have with more arguments
    'trainer = ObjectiveSFTTrainer(model, args=SFTConfig("out"), processing_class=tokenizer, train_dataset=text, '
    "objective=objective)",
    "loop = Loop(objective, table)",
    "wrapped = DistributedDataParallel(model)",
    "loop = Loop(objective, model.embedding.weight)",
    "loop.loss(wrapped(inputs), targets).backward()",
    "loop = Loop(objective, model.lm_head, input_embedding=model.embedding, vocabulary_parallel=True)",
}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_understood(command):
    place = ROOT
    if command.startswith("cd "):
        folder, command = command.removeprefix("cd ").split(" && ")
        place = ROOT / folder
    words = shlex.split(command)
    if words[0] == "make":
        done = subprocess.run(["make", "--dry-run", *words[1:]], cwd=place, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    elif words[0] == "dvc":
        assert callable(parse_args(words[1:]).func)
    elif words[0] == "raretokens" or words[:2] == ["python", "-m"]:
        _, *arguments = words if words[0] == "raretokens" else words[2:]
        program = RARETOKENS if "raretokens" in words[:3] else REPRODUCTION
        assert callable(program.parser(arguments[:1]).parse_args(arguments).function)
    else:
        script = place / words[0]
        assert os.access(script, os.X_OK)
        options = re.findall(r"^ +(--.*)\) ", script.read_text(), flags=re.MULTILINE)
        assert all(word.isdigit() or word in " | ".join(options).split(" | ") for word in words[1:])


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    """What a new user has: the last commit, and no data."""
    if not (ROOT / ".git").exists():
        pytest.skip("no git repository to clone")
    folder = tmp_path_factory.mktemp("fresh") / "clone"
    world.run(ROOT, "git", "clone", "--quiet", "--shared", str(ROOT), str(folder))
    return folder


@pytest.mark.parametrize("command", LOOKING)
def test_a_command_that_looks_is_quiet_and_narrow_in_a_fresh_clone(clone, command):
    assert command == "make help" or command in COMMANDS
    # Not served: warnings of imports reach the reader's stderr.
    environment = {**world.environment(), "PYTHONPATH": str(clone / "src"), "COLUMNS": str(WIDTH)}
    words = [sys.executable, *shlex.split(command)[1:]] if command.startswith("python") else shlex.split(command)
    done = subprocess.run(words, cwd=clone, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not re.search(r"warning|traceback|failed|errno", done.stdout + done.stderr, flags=re.IGNORECASE)
    assert [line for line in done.stdout.splitlines() if len(line) > WIDTH] == []


def python_blocks(page: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


@pytest.fixture
def names(tmp_path, monkeypatch) -> dict[str, Any]:
    """What a reader of the guide to training has: a text, a tokenizer and a model."""
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    words = ["a"] * 60 + ["b"] * 20 + ["c"] * 8 + [f"rare{number}" for number in range(8)]
    Path("train.txt").write_text("\n".join(" ".join(words[start::4]) for start in range(4)) + "\n")
    known = {word: number for number, word in enumerate(dict.fromkeys(words))}
    rows, width = len(known), 8
    shape = {"vocab_size": rows, "n_positions": 8, "n_embd": width, "n_layer": 1, "n_head": 2}
    model = GPT2LMHeadModel(GPT2Config(**shape, bos_token_id=0, eos_token_id=0))
    text = [{"input_ids": ids, "labels": ids} for ids in torch.randint(rows, (8, 8))]
    arguments = TrainingArguments(str(tmp_path), max_steps=1, per_device_train_batch_size=2, report_to=[], use_cpu=True)
    return {
        "tokenizer": lambda line: [known[word] for word in line.split()],
        "model": model, "arguments": arguments, "text": text, "other": text, "NEW": [rows - 1],
    }  # fmt: skip


def test_the_python_blocks_of_the_guide_to_training_run_one_after_the_other(names):
    """Every name that a block uses and no block defines is one that a reader has."""
    of_processes = ("fully_shard", "fsdp")  # of which other tests train
    blocks = [block for block in python_blocks("docs/train.md") if not any(word in block for word in of_processes)]
    embedding = names["model"].get_output_embeddings().weight
    assert len(blocks) > 1
    before = embedding.detach().clone()
    for block in blocks:
        exec(compile(block, "docs/train.md", "exec"), names)
    assert not torch.equal(embedding, before)


class Bare(torch.nn.Module):
    """A model of two embeddings."""

    def __init__(self) -> None:
        super().__init__()
        self.embed_tokens, self.lm_head = torch.nn.Embedding(8, 4), torch.nn.Linear(4, 8, bias=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.embed_tokens(ids)


def test_the_python_block_on_sharded_models_runs(tmp_path):
    (block,) = (block for block in python_blocks("docs/train.md") if "fully_shard" in block)
    model = Bare()
    names = {"model": model, "Loop": Loop, "objective": build("freeze", facts(torch.arange(1, 9), width=4, steps_per_epoch=2))}
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1)
    try:
        block = block.replace("fully_shard(model", "fully_shard(mesh=mesh, module=model")  # on CPUs
        names["mesh"] = torch.distributed.device_mesh.init_device_mesh("cpu", (1,))
        exec(compile(block, "docs/train.md", "exec"), names)
        inputs, targets = torch.randint(8, (2, 3)), torch.randint(8, (2, 3))
        names["loop"].begin([targets])
        names["loop"].loss(model(inputs), targets).backward()
        names["loop"].step(names["optimizer"])
    finally:
        torch.distributed.destroy_process_group()


def test_the_script_of_readme_prints_what_readme_shows(capsys):
    (script,) = python_blocks("README.md")
    (shown,) = (block for kind, block in BLOCKS if kind == "text")
    exec(compile(script, "README.md", "exec"), {})
    assert capsys.readouterr().out == shown


def test_every_other_python_block_of_a_guide_is_in_an_example():
    """The guides in test_guides.py are performed; blocks of other pages must be here or above."""
    others = {"docs/add-an-objective.md": ("centred.py", "focal.py"), "docs/stack.md": ()}
    pages = {f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md") if python_blocks(f"docs/{path.name}")}
    assert pages == {"docs/train.md", *others, *(f"docs/{name}.md" for name in PAGES if python_blocks(f"docs/{name}.md"))}
    for page, examples in others.items():
        if page == "docs/stack.md":
            scripts = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs/examples/stack").glob("*.py"))
            known = {line.split("  #")[0].strip() for line in scripts.splitlines()} | SHORTENED
            shown = {line.split("  #")[0].strip() for block in python_blocks(page) for line in block.splitlines()}
            assert shown - {"", "..."} <= known
            continue
        for block, example in zip(python_blocks(page), examples, strict=True):
            assert block in (ROOT / f"docs/examples/{example}").read_text(encoding="utf-8")


@pytest.fixture
def pages(tmp_path, monkeypatch) -> Path:
    """A repository whose README and a page of docs include a report."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "findings.md").write_text("-68 %\n")
    (tmp_path / "README.md").write_text("<!-- include findings.md -->\n-68 %\n<!-- end -->\n")
    (tmp_path / "docs/studies.md").write_text("<!-- include ../findings.md -->\n-68 %\n<!-- end -->\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(scale_commands, "root", lambda: tmp_path)
    return tmp_path


def refresh(*words: str) -> None:
    arguments = REPRODUCTION.parser(["readme"]).parse_args(["readme", *words])
    arguments.function(arguments)


@pytest.mark.parametrize("name", ["README.md", "docs/studies.md", "findings.md"])
def test_a_page_that_is_not_what_the_reports_say_is_named_and_made_anew(pages, name):
    refresh("--check")
    file = pages / name
    file.write_text(file.read_text().replace("-68", "-86"))
    page = "README.md" if name == "findings.md" else name
    with pytest.raises(UserError, match=f"^{page}: not what the reports say; make readme updates the page"):
        refresh("--check")
    refresh()
    refresh("--check")


def test_a_link_of_an_included_page_leads_to_the_same_file(pages):
    (pages / "reports").mkdir()
    (pages / "reports/main.md").write_text("[card](papers/agg.md#claim-a), [above](../b.md), [part](#c), [paper](https://d.org/e)\n")
    (pages / "README.md").write_text("<!-- include reports/main.md -->\n<!-- end -->\n")
    (pages / "docs/studies.md").write_text("<!-- include ../reports/main.md -->\n<!-- end -->\n")
    refresh()
    same = "[part](#c), [paper](https://d.org/e)"
    assert f"[card](reports/papers/agg.md#claim-a), [above](b.md), {same}" in (pages / "README.md").read_text()
    assert f"[card](../reports/papers/agg.md#claim-a), [above](../b.md), {same}" in (pages / "docs/studies.md").read_text()
