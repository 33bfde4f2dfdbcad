"""The public names work in loops that are not ours."""

import ast
import importlib.util
import math
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import raretokens
from raretokens import public
from raretokens.objectives.registry import known

ROOT = Path(__file__).parents[1]


def example(name: str):
    spec = importlib.util.spec_from_file_location(name, ROOT / f"examples/{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_importing_the_package_loads_nothing_heavy():
    code = "import sys, raretokens; assert 'torch' not in sys.modules; raretokens.Gate; assert 'torch' in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": str(ROOT / "src")})


def test_public_names_are_there_and_documented():
    for name in public.__all__:
        assert getattr(raretokens, name).__doc__, name
    with pytest.raises(AttributeError, match="public names: Facts"):
        _ = raretokens.nothing


def test_all_lists_of_public_names_agree():
    """Of completion, of `import *`, of what is loaded, and of what a type checker sees."""
    everything: dict = {}
    exec("from raretokens import *", everything)
    checked = next(node for node in ast.walk(ast.parse(Path(public.__file__).read_text())) if isinstance(node, ast.If))
    imported = {alias.name: node.module for node in checked.body for alias in node.names}
    assert dir(raretokens) == raretokens.__all__ == public.__all__ == sorted(imported)
    assert imported == public._HOMES
    assert set(public.__all__) <= everything.keys()


def test_objectives_can_be_chosen_from_outside_the_pipeline():
    """Without the libraries of the pipeline: pip install raretokens brings torch and numpy alone."""
    code = """
import sys
class Refusing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"pydantic", "yaml", "accelerate", "safetensors", "ctranslate2"}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Refusing())
import torch
from raretokens import *
objective = build("agg", facts(torch.ones(8, dtype=torch.int64), width=4, updates_per_epoch=2))
objective.begin_update(target_counts([torch.arange(8)], 8))
"""
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": str(ROOT / "src")})


@pytest.mark.parametrize("name", known())
def test_every_objective_learns_in_a_plain_loop(name, capsys):
    history = example("plain_loop").main(name)
    assert all(map(math.isfinite, history))
    assert name == "reweight" or history[-1] < history[0]  # reweighting trades frequent targets for rare ones


def test_the_rare_group_of_facts_is_the_least_frequent_share():
    known = raretokens.facts(torch.tensor([9, 0, 5, 7, 1]), width=4, updates_per_epoch=3, rare_share=0.4, specials=2)
    assert known.rare.tolist() == [False, False, False, False, True]
    with pytest.raises(ValueError, match=r"counts has shape \(2, 2\)"):
        raretokens.facts(torch.ones(2, 2), width=4, updates_per_epoch=3)


def test_gpt2_trains_with_agg_in_the_trainer_of_transformers(tmp_path):
    pytest.importorskip("transformers", reason="optional: pip install transformers")
    from tiny.world import lines

    text = tmp_path / "text"
    text.write_text("\n".join(lines(600, 1)[0]))
    losses = example("transformers_trainer").main(str(text))
    assert len(losses) == 20 and losses[-1] < losses[0] - 0.5
