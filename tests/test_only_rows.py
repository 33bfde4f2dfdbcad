"""Training of some rows alone: the others stay to the bit, tied or untied, and the result is that of peft's trainable tokens."""

import copy
from pathlib import Path
from runpy import run_path

import numpy as np
import pytest
import torch

pytest.importorskip("transformers", reason="optional: pip install transformers accelerate")

from tiny import fine_tuning as tiny  # noqa: E402

from raretokens import Loop, UserError, train_only_rows  # noqa: E402

pytestmark = pytest.mark.usefixtures("other_accelerator")  # the Trainer leaves its settings behind
ROWS, STEPS = [5, 6, 30, 39], 8


def embeddings(model) -> list[torch.Tensor]:
    return [model.get_input_embeddings().weight, model.get_output_embeddings().weight]


@pytest.mark.parametrize("kind", [list, set, iter, np.array, torch.tensor, "mask"])
def test_rows_are_ids_or_a_mask(kind):
    weight = torch.zeros(50, 4)
    mask = torch.zeros(50, dtype=torch.bool)
    mask[ROWS] = True
    for rows in (mask, mask.numpy(), mask.tolist()) if kind == "mask" else (kind(ROWS),):
        assert train_only_rows(weight, rows).frozen_rows().logical_not().nonzero().flatten().tolist() == ROWS


@pytest.mark.parametrize("rows", [[2.7], "17", ["<a>"], torch.ones(49, dtype=torch.bool), [True], 3, np.array([1.0])])
def test_other_rows_are_refused(rows):
    with pytest.raises(UserError, match="rows: should be ids, which are whole numbers, or a mask of 50 truth values"):
        train_only_rows(torch.zeros(50, 4), rows)


def check(before, after) -> None:
    others = [row for row in range(tiny.N) if row not in ROWS]
    for old, new in zip(embeddings(before), embeddings(after), strict=True):
        assert torch.equal(old[others], new[others])
        assert (old[ROWS] != new[ROWS]).any(1).all()


@pytest.mark.parametrize("kind", ["gpt2", "llama"])  # tied, untied
def test_the_trainer_keeps_all_other_rows_to_the_bit(tmp_path, kind, monkeypatch):
    """With decay, moments, clipping, accumulation, and a resume from a checkpoint."""
    before = tiny.model(kind)
    monkeypatch.setattr(tiny, "objective", lambda name, **_: train_only_rows(embeddings(before)[1], ROWS))
    settings = {"micro_batches": 2, "save_strategy": "steps", "save_steps": 2}
    whole = tiny.trainer(tmp_path, kind, "only rows", **settings)
    whole.train()
    check(before, whole.model)
    resumed = tiny.trainer(tmp_path, kind, "only rows", **settings)
    resumed.train(resume_from_checkpoint=str(tmp_path / "checkpoint-4"))
    check(before, resumed.model)
    assert all(map(torch.equal, embeddings(whole.model), embeddings(resumed.model)))


def looped(model, parameters=None) -> None:
    """Train by a loop of one's own with AdamW's decay."""
    given, table = embeddings(model)
    loop = Loop(train_only_rows(table, ROWS), table, input_embedding=given)
    optimizer = loop.optimizer(parameters or model.parameters(), lr=0.01, weight_decay=0.1)
    for step in range(STEPS):
        batch = tiny.batch(step)
        targets = batch.pop("labels")[:, 1:]
        loop.begin([targets])
        loop.loss(model.base_model(**batch).last_hidden_state[:, :-1], targets).backward()
        loop.step(optimizer)
        optimizer.zero_grad()
    for state in (optimizer.state[one] for one in (given, table) if one in optimizer.state):
        others = [row for row in range(tiny.N) if row not in ROWS]
        assert not state["exp_avg"][others].any() and not state["exp_avg_sq"][others].any()


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_a_loop_keeps_all_other_rows_and_their_moments(kind):
    before, model = tiny.model(kind), tiny.model(kind)
    looped(model)
    check(before, model)


def test_an_input_embedding_alone_may_train():
    before, model = tiny.model("llama"), tiny.model("llama")
    model.get_output_embeddings().weight.requires_grad_(False)
    with pytest.warns(UserWarning, match="the output embedding is frozen"):
        looped(model)
    others = [row for row in range(tiny.N) if row not in ROWS]
    (old, head), (new, kept) = embeddings(before), embeddings(model)
    assert torch.equal(old[others], new[others]) and not torch.equal(old, new) and torch.equal(head, kept)


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_the_rows_are_those_of_peft_s_trainable_tokens(kind):
    """The same steps of AdamW with decay, on the rows alone. Of the untied model peft trains both embeddings by name."""
    peft = pytest.importorskip("peft")
    ours = tiny.model(kind, torch.float64).eval()
    theirs = copy.deepcopy(ours)
    names = ["wte"] if kind == "gpt2" else ["embed_tokens", "lm_head"]
    wrapped = peft.get_peft_model(theirs, peft.TrainableTokensConfig(token_indices=ROWS, target_modules=names))
    trained = [one for one in wrapped.parameters() if one.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=0.01, weight_decay=0.1)
    for step in range(STEPS):
        batch = tiny.batch(step)
        targets = batch.pop("labels")[:, 1:]
        logits = wrapped(**batch).logits[:, :-1]
        torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()
    merged = wrapped.merge_and_unload()
    for parameter in ours.parameters():
        parameter.requires_grad_(False)
    rows = {id(one): one.requires_grad_(True) for one in embeddings(ours)}
    looped(ours, list(rows.values()))
    for own, other in zip(embeddings(ours), embeddings(merged), strict=True):
        torch.testing.assert_close(own, other.to(own.dtype), atol=1e-7, rtol=1e-6)


@pytest.mark.parametrize(("rows", "given"), [([], "none"), ([-1], "-1..-1"), ([3, tiny.N], f"3..{tiny.N}")])
def test_rows_that_do_not_exist_are_refused(rows, given):
    with pytest.raises(UserError, match=f"rows: {given} is not allowed: should be ids in 0..{tiny.N - 1}"):
        train_only_rows(torch.zeros(tiny.N, tiny.D), rows)


def test_the_example_trains_new_tokens():
    old, new = run_path(str(Path(__file__).parents[1] / "docs/examples/new_tokens.py"))["main"](steps=3)
    assert old == 0 and new > 0
