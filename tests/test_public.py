"""The public names work in loops that are not ours."""

import ast
import difflib
import importlib.util
import math
import re
import subprocess
import sys
import tomllib
import venv
import zipfile
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

import raretokens
from raretokens import public
from raretokens.objectives.registry import known

ROOT = Path(__file__).parents[1]


def example(name: str):
    spec = importlib.util.spec_from_file_location(name, ROOT / f"docs/examples/{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_importing_the_package_loads_nothing_heavy():
    code = "import sys, raretokens; assert 'torch' not in sys.modules; raretokens.Gate; assert 'torch' in sys.modules"
    compiler = "raretokens.Loop; raretokens.gated_linear_cross_entropy; assert 'torch._dynamo' not in sys.modules"  # slow
    subprocess.run([sys.executable, "-c", f"{code}; {compiler}"], check=True, env={"PYTHONPATH": str(ROOT / "src")})


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


@pytest.mark.slow
def test_a_wheel_gives_every_public_name_in_a_bare_environment_and_measures_in_an_installed_one(tmp_path):
    """Torch, numpy and what they need themselves are all that is there; then what pip install brings, and no more."""
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", tmp_path, ROOT]
    before = set(ROOT.iterdir()) | set((ROOT / "src").iterdir())
    built = subprocess.run(pip, capture_output=True, text=True)
    assert before == set(ROOT.iterdir()) | set((ROOT / "src").iterdir())  # nothing is left behind
    if built.returncode and "hatchling" in built.stderr:
        pytest.skip(f"no package index has the builder of wheels: {built.stderr.strip().splitlines()[-1]}")
    assert built.returncode == 0, built.stderr
    venv.create(tmp_path / "bare", with_pip=False)
    (place,) = (tmp_path / "bare").glob("lib/python*/site-packages")
    link(place, {"torch", "numpy"})
    zipfile.ZipFile(next(tmp_path.glob("*.whl"))).extractall(place)
    code = """
import importlib.util, raretokens, torch
assert not any(importlib.util.find_spec(name) for name in ("yaml", "pydantic", "accelerate", "safetensors"))
assert all(getattr(raretokens, name).__doc__ for name in raretokens.__all__)
from raretokens import *
known = facts_of_text(str.encode, ["abc" * 50], rows=256, width=4, tokens_per_step=16)
for name in raretokens.objectives():
    objective = build(name, known)
    objective.begin_step(target_counts([torch.arange(8)], 256))
print(objectives()["agg"].allowed["alpha"], alpha_for(known) > 0)
"""
    bare = [tmp_path / "bare/bin/python", "-I", "-c", code]
    assert subprocess.run(bare, check=True, capture_output=True, text=True).stdout == "a number >= 0 True\n"
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    link(place, {re.match(r"[\w.-]+", requirement)[0] for requirement in declared})
    done = subprocess.run([*bare[:2], ROOT / ".ci/installed.py"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0 and f"{len(public.__all__)} public names" in done.stdout, done.stderr


def link(place: Path, names: set[str]) -> None:
    """These distributions and what they need, into the packages of another environment."""
    for distribution in needed(names):
        for top in {
            file.parts[0] for file in metadata.files(distribution) or () if file.parts[0] not in ("..", "__pycache__")
        }:
            if not (place / top).exists():
                (place / top).symlink_to(metadata.distribution(distribution).locate_file(top))


def needed(names: set[str]) -> set[str]:
    """These distributions and all that they require here."""
    seen: set[str] = set()
    while names:
        name = names.pop()
        seen.add(name)
        asked = [r for r in metadata.requires(name) or () if "extra ==" not in r]
        required = {re.match(r"[\w.-]+", requirement)[0].lower() for requirement in asked}
        names |= {one for one in required - seen if next(metadata.distributions(name=one), None)}
    return seen


def test_objectives_are_listed_with_their_options():
    listed = raretokens.objectives()
    assert list(listed) == list(known()) and "objectives" in dir(raretokens)
    assert listed["agps"].allowed["variant"] == "eq15 or alg1" and listed["ul_agg"].defaults["alpha_ul"] == 1.0
    text = repr(listed)
    assert "mle: Maximum likelihood: the baseline of every table.\n" in text
    assert "    popular=0.2  (a number > 0 and < 1)\n" in text and "    g1=True  (true or false)\n" in text


@pytest.mark.parametrize("name", known())
def test_every_objective_learns_in_a_plain_loop(name, monkeypatch, capsys):
    module = example("plain_loop")
    monkeypatch.setattr(module, "STEPS", 20)
    history = module.main(name)
    assert all(map(math.isfinite, history))
    assert name == "reweight" or history[-1] < history[0]  # reweighting trades frequent targets for rare ones


def test_the_rare_group_of_facts_is_the_least_frequent_share():
    known = raretokens.facts(torch.tensor([9, 0, 5, 7, 1]), width=4, steps_per_epoch=3, rare_share=0.4, specials=2)
    assert known.rare.tolist() == [False, False, False, False, True]
    assert not raretokens.facts(torch.ones(3), width=4, steps_per_epoch=3, specials=3).rare.any()
    assert raretokens.facts(torch.ones(1), width=4, steps_per_epoch=3).types == 1
    with pytest.raises(ValueError, match="counts"):
        raretokens.facts(torch.ones(0), width=4, steps_per_epoch=3)
    with pytest.raises(ValueError, match=r"counts has shape \(2, 2\)"):
        raretokens.facts(torch.ones(2, 2), width=4, steps_per_epoch=3)


def test_a_mark_of_padding_outside_the_table_leaves_no_row_out():
    for size in (8, 101):
        known = raretokens.facts(torch.ones(size, dtype=torch.int64), width=4, steps_per_epoch=3)
        assert known.pad == -100 and known.used.all()
        table = torch.randn(size, 4, requires_grad=True)
        (gradient,) = torch.autograd.grad(raretokens.build("cosreg", known).penalty(table), table)
        assert gradient.any(1).all()
    counts = torch.tensor([1] * 6 + [0] * 2)
    for pad in (0, 2):
        used = raretokens.facts(counts, width=4, steps_per_epoch=3, pad=pad, types=6).used
        assert used.tolist() == [id != pad and id < 6 for id in range(8)]


def test_weights_that_are_given_twice_are_refused():
    """Torch only warns of them, and changes them twice a step."""
    model = torch.nn.Embedding(8, 4)
    known = raretokens.facts(torch.ones(8, dtype=torch.int64), width=4, steps_per_epoch=3)
    for name in ("mle", "ember", "coupled_adam"):
        loop = raretokens.Loop(raretokens.build(name, known), model.weight)
        for twice in ([model.weight, *model.parameters()], [{"params": [model.weight]}, {"params": model.parameters()}]):
            with pytest.raises(ValueError, match="weights are given twice: model.parameters\\(\\) includes"):
                loop.optimizer(twice, lr=1e-3)
        assert loop.optimizer(model.parameters(), lr=1e-3)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"counts": torch.tensor([1, -1])}, "counts of types is not allowed: at least one, none negative"),
        ({"rare": torch.ones(3, dtype=torch.bool)}, r"rare \(3,\) is not allowed: one entry for each of 9 types"),
        ({"counts": torch.ones(9) / 9}, "counts of types is not allowed: whole numbers, occurrences in the text"),
        ({"rare": torch.arange(9)}, "rare torch.int64 is not allowed: true or false for each type"),
        ({"rare": torch.ones(9) > 0, "markers": [2]}, "rare of types is not allowed: no special token and no filler"),
        ({"rare_share": 1.5}, "rare_share 1.5 is not allowed: 0 to 1"),
        ({"types": 10}, "types 10 is not allowed: 1 to 9"),
        ({"specials": -1}, "specials -1 is not allowed: 0 to 9"),
        ({"markers": [9]}, r"markers \(9,\) is not allowed: ids in 0..8"),
        ({"markers": [0.5]}, r"markers tensor\(\[0.5000\]\) is not allowed: ids, or true or false for each of 9 types"),
        ({"markers": [None, 1]}, "markers None is not allowed: ids"),
        ({"steps_per_epoch": 0}, "steps_per_epoch 0 is not allowed: a whole number, 1 or more"),
        ({"steps_per_epoch": 2.5}, "steps_per_epoch 2.5 is not allowed: a whole number, 1 or more"),
        ({"width": 0}, "width 0 is not allowed: a whole number, 1 or more"),
        ({"label_smoothing": 1.0}, "label_smoothing 1.0 is not allowed: 0 to less than 1"),
    ],
)
def test_facts_that_do_not_fit_are_refused(wrong, message):
    given = {"counts": torch.arange(9), "width": 4, "steps_per_epoch": 3, **wrong}
    with pytest.raises(ValueError, match=f"^(facts: )?{message}$"):
        raretokens.facts(given.pop("counts"), **given)


@pytest.mark.parametrize("kind", [list, np.array, torch.tensor])
def test_facts_take_tensors_arrays_lists_and_masks(kind):
    counts, rare, marked = [9, 0, 5, 1], [False, False, False, True], [False, True, False, False]
    more = {"rare": kind(rare), "markers": kind(marked), "order": kind([0, 2, 3, 1])}
    known = raretokens.facts(kind(counts), width=4, steps_per_epoch=3, **more)
    assert (known.counts.tolist(), known.rare.tolist(), known.special.tolist()) == (counts, rare, marked)
    assert known.by_frequency.tolist() == [0, 2, 3, 1] and known.markers == (1,)
    with pytest.raises(ValueError, match="all types are special tokens, which are never rare"):
        raretokens.alpha_for(raretokens.facts(kind(counts), width=4, steps_per_epoch=3, specials=4))


class Spelled:
    """A tokenizer with the names of a library's: a letter is an id."""

    def encode(self, line, **asked):
        ids = [ord(letter) - 97 for letter in line]
        return SimpleNamespace(ids=ids) if hasattr(self, "get_vocab_size") else ids


def tokenizers() -> dict:
    of_tokenizers = type("T", (Spelled,), {"get_vocab_size": lambda self: 26})()
    of_sentencepiece = type("S", (Spelled,), {"get_piece_size": lambda self: 26})()
    call = {"__call__": lambda self, line, add_special_tokens: {"input_ids": self.encode(line)}}
    of_transformers = type("H", (Spelled,), {"__len__": lambda self: 26, "all_special_ids": [25], **call})()
    return {"tokenizers": of_tokenizers, "sentencepiece": of_sentencepiece, "transformers": of_transformers}


def test_a_text_is_counted_whole_whatever_its_tokenizer_cuts_off_or_pads():
    made = Tokenizer(WordLevel({"<pad>": 0, "a": 1, "b": 2}, unk_token="<pad>"))
    made.pre_tokenizer = Whitespace()
    made.enable_truncation(2)
    made.enable_padding(length=9)
    assert raretokens.facts_of_text(made, ["a b a b a"], width=4, tokens_per_step=1).counts.tolist() == [0, 3, 2]
    assert made.truncation and made.padding  # as they were


@pytest.mark.parametrize("library", [*tokenizers(), "function"])
def test_facts_of_a_text_and_a_tokenizer(library, tmp_path):
    (tmp_path / "text").write_text("abc\nabba\n" * 1500)
    tokenizer = tokenizers().get(library, Spelled().encode)
    settings = {"width": 4, "tokens_per_step": 1000, "rows": 32, "markers": [0]}
    known = raretokens.facts_of_text(tokenizer, tmp_path / "text", **settings)
    assert known.counts.tolist() == [4500, 4500, 1500] + [0] * 29
    assert (known.steps_per_epoch, known.types) == (10, 32 if library == "function" else 26)
    assert known.markers == ((0, 25) if library == "transformers" else (0,))
    assert not known.rare[known.types :].any() and known.label_smoothing == 0.0
    assert raretokens.facts_of_text(tokenizer, ["abc"], **{**settings, "tokens_per_step": 1}).steps_per_epoch == 3
    assert torch.equal(known.counts, raretokens.facts_of_text(tokenizer, ["abc", "abba"] * 1500, **settings).counts)
    with pytest.raises(ValueError, match=r"ids 0\.\.2 do not fit an embedding matrix of 2 rows"):
        raretokens.facts_of_text(tokenizer, ["abc"], width=4, tokens_per_step=10, rows=2)
    assert raretokens.facts_of_text(tokenizer, ["aaa"], **settings).counts.sum() == 3  # one type alone
    assert raretokens.facts_of_text(tokenizer, ["ab"] * 7, line_end="c", **settings).counts.tolist()[:3] == [7, 7, 7]
    for wrong in ({"rows": 32, "tokens_per_step": 0}, {"rows": None, "tokens_per_step": 10}):
        with pytest.raises(
            ValueError, match=f"rows {wrong['rows']}, tokens_per_step {wrong['tokens_per_step']}: both"
        ):
            raretokens.facts_of_text(str.encode, ["abc"], width=4, **wrong)
    with pytest.raises(ValueError, match="has no tokens"):
        raretokens.facts_of_text(tokenizer, [], width=4, tokens_per_step=10, rows=32)


def test_special_tokens_that_never_occur_are_no_part_of_the_rare_share():
    """Models reserve hundreds of special tokens; a share of all ids would be spent on them."""
    counts, settings = torch.tensor([0] * 30 + [*range(70, 0, -1)]), {"width": 4, "steps_per_epoch": 10}
    for special in ({"specials": 30}, {"markers": range(30)}):
        known = raretokens.facts(counts, **settings, **special)
        assert known.rare.nonzero().flatten().tolist() == [*range(86, 100)]  # 14 of 70
        about = raretokens.build("agg", known, alpha=raretokens.alpha_for(known)).about()
        assert about["rare_types"] == known.rare.sum() / 70
    assert raretokens.facts(counts, **settings, specials=30, rare_share=0.5).rare.sum() == 35
    assert not raretokens.facts(counts, **settings, rare=torch.zeros(100, dtype=torch.bool)).rare.any()
    tokenizer = tokenizers()["transformers"]  # 26 ids, of which the last is special
    known = raretokens.facts_of_text(tokenizer, ["abc" * 4], width=4, tokens_per_step=4, rare_share=0.2)
    assert known.rare.nonzero().flatten().tolist() == [*range(20, 25)]


def test_gpt2_trains_with_agg_in_the_trainer_of_transformers(tmp_path):
    pytest.importorskip("transformers", reason="optional: pip install transformers")
    from tiny.world import lines

    text = tmp_path / "text"
    text.write_text("\n".join(lines(600, 1)[0]))
    losses = example("transformers_trainer").main(str(text))
    assert len(losses) == 20 and losses[-1] < losses[0] - 0.5


def test_a_loop_of_one_s_own_changes_in_the_six_lines_that_the_guide_shows():
    before, after = (
        re.search(r'^"""$\n(.*)^if __name__', (ROOT / f"docs/examples/{name}.py").read_text(), re.DOTALL | re.MULTILINE)[1]
        for name in ("likelihood_loop", "plain_loop")
    )
    after = after.replace('name: str = "agg"', "").replace(
        "import sys\n\n", ""
    )  # which objective, is asked of the example alone
    found = list(difflib.unified_diff(before.splitlines(), after.splitlines(), n=0))[2:]
    ours = [line for line in found if not line.startswith("@@") and line[1:]]
    assert "\n".join(ours) in (ROOT / "docs/train.md").read_text() and sum(line[0] == "+" for line in ours) == 6
    assert example("likelihood_loop").main()[0] == pytest.approx(example("plain_loop").main("mle")[0])
