"""The Trainer of transformers with objectives: beside itself without one, naive formulas, and a loop of one's own."""

import importlib
import math
from pathlib import Path

import pytest
import torch

pytest.importorskip("transformers", reason="optional: pip install transformers accelerate")

from tiny import fine_tuning as tiny  # noqa: E402
from tiny import served  # noqa: E402
from torch.utils.data import IterableDataset  # noqa: E402

from raretokens import Loop, UserError, build  # noqa: E402
from raretokens.transformers import ObjectiveTrainer  # noqa: E402
from raretokens.transformers.model_loss import OutputEmbedding, try_model  # noqa: E402

HERE, EOS = Path(__file__).parent, 3


@pytest.fixture(autouse=True)
def alone(other_accelerator):
    """The Trainer leaves Accelerate's settings behind."""


def close(one: dict, other: dict, **tolerance: float) -> None:
    assert one.keys() == other.keys()
    for name in one:
        torch.testing.assert_close(one[name], other[name], msg=lambda text, name=name: f"{name}: {text}", **tolerance)


@pytest.mark.parametrize(
    ("kind", "micro_batches"),
    [("gpt2", 1), ("gpt2", 2), ("gpt2", 4), ("llama", 2), ("gptj", 2), ("gemma2", 2), ("cohere", 2), ("marian", 2), ("bart", 2),
     ("t5", 2)],
)  # fmt: skip
def test_likelihood_is_that_of_transformers_own_trainer(tmp_path, kind, micro_batches):
    """Losses and weights: any model, padding, accumulation, clipping, decay.

    Theirs takes the model's own mean over one batch: told of num_items_in_batch, it counts first labels of GPT-2 and sums up the
    means of encoder-decoders' micro-batches.
    """
    theirs, ours = (tiny.trainer(tmp_path, kind, *how) for how in ((None,), ("mle", micro_batches)))
    theirs.model_accepts_loss_kwargs = False
    theirs.train()
    ours.train()
    assert tiny.losses(ours) == pytest.approx(tiny.losses(theirs), rel=1e-5)
    close(tiny.weights(ours), tiny.weights(theirs), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", ["agg", "freeze_bc", "agps", "cosreg"])
@pytest.mark.parametrize(("kind", "micro_batches"), [("gpt2", 1), ("gpt2", 4), ("llama", 2)])
def test_weights_are_those_of_the_naive_formula(tmp_path, name, kind, micro_batches):
    """In float64, by plain gradient descent, over two windows of AGG."""
    ours = tiny.trainer(
        tmp_path, kind, name, micro_batches=micro_batches, dtype=torch.float64, sgd=0.5, max_grad_norm=0.0, max_steps=6
    )
    expected = naive(kind, name)
    ours.train()
    close(tiny.weights(ours), expected, atol=1e-8, rtol=1e-6)


def naive(kind: str, name: str) -> dict[str, torch.Tensor]:
    """The dense references on the states of transformers' model; those of gates are twice the loss in value, not in gradient."""
    from raretokens.objectives.registry import declared

    model, known = tiny.model(kind, torch.float64), tiny.known()
    reference = importlib.import_module(f"references.{declared(name).module}")
    options = {**declared(name).defaults, **tiny.OPTIONS.get(name, {})}
    optimizer, history = torch.optim.SGD(model.parameters(), lr=0.5), []
    for update in range(6):
        batch = tiny.batch(update)
        targets = batch.pop("labels")[:, 1:]
        hidden = model.base_model(**batch).last_hidden_state[:, :-1]
        history.append(torch.bincount(targets[targets >= 0], minlength=tiny.N))
        reference.loss(known, options, history, hidden, model.get_output_embeddings().weight, targets).backward()
        optimizer.step()
        optimizer.zero_grad()
    return {key: value.detach() for key, value in model.named_parameters()}


@pytest.mark.parametrize("kind", ["gpt2", "llama", "marian"])
@pytest.mark.parametrize("name", ["mle", "agg", "adversarial"])
def test_a_label_is_a_target_whichever_id_pads(tmp_path, kind, name):
    """Also the id that the facts call padding, because labels of padding are -100."""
    assert any((row["labels"][1:] == EOS).any() for row in map(tiny.Sentences().__getitem__, range(15)))
    found = []
    for pad in (-100, tiny.PAD, EOS):
        ours = tiny.trainer(tmp_path, kind, name, facts={"pad": pad}, max_steps=2)
        ours.train()
        found.append([tiny.weights(ours), tiny.losses(ours), ours.loop.targets, ours.evaluate()["eval_ppl_total"]])
    for weights, *numbers in found[1:]:
        assert numbers == found[0][1:]
        close(weights, found[0][0], atol=0, rtol=0)
    with pytest.raises(UserError, match="unmasked_pad is not allowed with an objective: should be false; labels of padding are"):
        ObjectiveTrainer(ours.model, ours.args, objective=build("agg", tiny.known(pad=EOS), unmasked_pad=True))


@pytest.mark.parametrize("kind", ["gpt2", "llama", "marian"])
@pytest.mark.parametrize("pad", [-100, tiny.PAD])
def test_evaluation_gives_the_mean_of_all_targets_and_perplexity_by_group(tmp_path, kind, pad):
    """Of batches that differ in length, the last one smaller; whichever id marks padding in the facts."""
    ours = tiny.trainer(tmp_path, kind, "agg", facts={"pad": pad})
    ours.evaluate()
    ours.output.weight.data.mul_(1.5)  # no later evaluation has anything of the one before
    found, rows = ours.evaluate(), [tiny.Sentences()[number] for number in range(15)]
    nll, targets, model = [], [], ours.model.eval()
    for row in rows:
        given = {key: value[None] for key, value in row.items()}
        logp = model(**given).logits[0].log_softmax(-1)
        if kind != "marian":
            given["labels"], logp = given["labels"][:, 1:], logp[:-1]
        kept = given["labels"][0] >= 0
        targets.append(given["labels"][0][kept])
        nll.append(-logp[kept].gather(1, targets[-1][:, None])[:, 0])
    nll, targets, known = torch.cat(nll), torch.cat(targets), tiny.known()
    assert found["eval_loss"] == pytest.approx(float(nll.mean().detach()), rel=1e-5)
    assert found["eval_ppl_total"] == pytest.approx(math.exp(found["eval_loss"]))
    order = sorted((~known.rare).nonzero().squeeze(1).tolist(), key=lambda id: (-int(known.counts[id]), id))
    number = round(len(order) * 3 / 8)
    members = {"rare": known.rare.nonzero().squeeze(1).tolist(), "freq": order[:number], "med": order[number:]}
    for group, ids in members.items():
        of_group = nll[torch.isin(targets, torch.tensor(ids))]
        assert found[f"eval_ppl_{group}"] == pytest.approx(float(of_group.mean().exp().detach()), rel=1e-4)
    assert ours.loop.micro_batches == 0  # a validation is no update


def test_metrics_of_one_s_own_see_all_logits(tmp_path):
    shapes = []

    def look(predicted):
        shapes.append(predicted.predictions.shape)
        return {"rows": len(predicted.label_ids)}

    ours = tiny.trainer(tmp_path, "gpt2", "mle", compute_metrics=look)
    assert ours.evaluate()["eval_rows"] == 15 and shapes == [(15, tiny.LENGTH, tiny.N)]
    computed = []
    ours.model.lm_head.register_forward_hook(lambda _module, _given, logits: computed.append(logits.shape[1]))
    ours.train()  # computes few logits again, for they are most of the memory of a step
    assert computed and {*computed[-6:]} == {1}


@pytest.mark.parametrize("name", ["agg", "frage", "coupled_adam", "ember", "freeze"])
def test_a_resumed_training_is_the_same_to_the_bit(tmp_path, name):
    settings = {"micro_batches": 2, "save_strategy": "steps", "save_steps": 2, "eval_strategy": "steps", "eval_steps": 3}
    whole = tiny.trainer(tmp_path, "gpt2", name, **settings)
    whole.train()
    assert sum("eval_ppl_rare" in line for line in whole.state.log_history) == 2
    resumed = tiny.trainer(tmp_path, "gpt2", name, **settings)
    resumed.train(resume_from_checkpoint=str(tmp_path / "checkpoint-4"))
    assert resumed.state.global_step == 6
    close(tiny.weights(resumed), tiny.weights(whole), atol=0, rtol=0)
    kept, expected = resumed.loop.state_dict(), whole.loop.state_dict()
    assert str(kept) == str(expected)
    (tmp_path / "checkpoint-4/objective.pt").unlink()
    with pytest.raises(UserError, match="objective.pt: no such file"):
        tiny.trainer(tmp_path, "gpt2", name, **settings).train(resume_from_checkpoint=str(tmp_path / "checkpoint-4"))


@pytest.mark.parametrize("name", ["agg", "frage"])
@pytest.mark.parametrize(("micro_batches", "whole"), [(1, 40), (2, 32)])
def test_an_iterable_dataset_trains_as_its_whole_steps(tmp_path, name, micro_batches, whole):
    """A pass over 40 sequences has 3 steps of one batch, or 5 micro-batches, of which 2 steps of 2 can be made."""

    class Stream(IterableDataset):
        def __iter__(self):
            return (tiny.Sentences()[number] for number in range(40))

    calls = []
    ours, expected = (tiny.trainer(tmp_path, "gpt2", name, micro_batches=micro_batches) for _ in range(2))
    objective = ours.loop.objective
    for method in ("begin_step", "end_step"):
        known = getattr(objective, method)
        setattr(objective, method, lambda *given, method=method, known=known: calls.append(method) or known(*given))
    ours.train_dataset, expected.train_dataset = Stream(), tiny.Sentences(0, whole)
    ours.train()
    expected.train()
    assert ours.state.global_step == 6 and calls == ["begin_step", "end_step"] * 6
    close(tiny.weights(ours), tiny.weights(expected), atol=0, rtol=0)
    assert str(ours.loop.state_dict()) == str(expected.loop.state_dict())


@pytest.mark.parametrize("name", ["coupled_adam", "ember", "weight_decay", "freeze", "mu_centering", "frage"])
def test_optimizer_frozen_rows_penalty_and_end_are_those_of_a_loop(tmp_path, name):
    settings = {"lr_scheduler_type": "constant", "max_grad_norm": 0.0, "dtype": torch.float64}
    ours = tiny.trainer(tmp_path, "gpt2", name, 2, **settings)
    ours.train()
    close(tiny.weights(ours), looped(name), atol=1e-6, rtol=1e-4)
    likelihood = tiny.trainer(tmp_path, "gpt2", "mle", **settings)
    likelihood.train()
    assert (ours.output.weight - likelihood.output.weight).abs().max() > 1e-3  # it is not maximum likelihood


def looped(name: str) -> dict[str, torch.Tensor]:
    """A plain loop in one micro-batch; decay as transformers has it, without biases and norms."""
    model, objective = tiny.model("gpt2", torch.float64), tiny.objective(name)
    table = model.get_output_embeddings().weight
    groups = [{"params": [table], "weight_decay": 0.1}]
    for decay in (0.1, 0.0):
        chosen = [value for value in model.parameters() if value is not table and (value.dim() > 1) == (decay > 0)]
        groups.append({"params": chosen, "weight_decay": decay})
    loop = Loop(objective, table)
    optimizer = loop.optimizer(groups, lr=0.01, betas=(0.9, 0.999), eps=1e-8)
    for update in range(6):
        batch = tiny.batch(update)
        targets = batch.pop("labels")[:, 1:]
        loop.begin([targets])
        loop.loss(model.transformer(**batch).last_hidden_state[:, :-1], targets).backward()
        loop.step(optimizer)
        optimizer.zero_grad()
    return {key: value.detach() for key, value in model.named_parameters()}


def test_two_processes_train_as_one(tmp_path):
    """Counts, targets and evaluation are those of both; the last batch of the evaluation is not whole."""
    environment = {"PYTHONPATH": f"{HERE.parent / 'src'}:{HERE}", "OMP_NUM_THREADS": "1", "PATH": "/usr/bin:/bin"}
    names = ["agg", "coupled_adam", "freeze"]
    served.on_two_processes(environment, "tiny.fine_tuning", str(tmp_path), *names)
    for name in names:
        both, one = torch.load(tmp_path / f"{name}.pt"), tiny.trainer(tmp_path, "gpt2", name, micro_batches=1)
        one.train()
        found = one.evaluate()
        assert both["losses"] == pytest.approx(tiny.losses(one), rel=1e-5)
        close(both["weights"], tiny.weights(one), atol=1e-4, rtol=1e-3)
        wanted = {key: value for key, value in found.items() if key == "eval_loss" or key.startswith("eval_ppl")}
        assert len(wanted) == 5 and {key: both["metrics"][key] for key in wanted} == pytest.approx(wanted, rel=1e-3)


def test_mixed_precision_reaches_every_row(tmp_path):
    exact, mixed = (tiny.trainer(tmp_path, "gpt2", "agg", micro_batches=2, bf16=bf16) for bf16 in (False, True))
    before = exact.output.weight.detach().clone()
    exact.train()
    mixed.train()
    assert tiny.losses(mixed) == pytest.approx(tiny.losses(exact), rel=0.02)
    assert mixed.output.weight.dtype == torch.float32 and not (mixed.output.weight == before).all(1).any()
    assert {"rare_group_size"} <= mixed.state.log_history[0].keys()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"label_smoothing_factor": 0.1}, "label_smoothing_factor is not allowed with an objective: should be 0; smoothing is"),
        ({"compute_loss_func": print}, "compute_loss_func is not allowed"),
        ({"optim": "adafactor"}, "optim is not allowed with an objective: should be adamw_torch or adamw_torch_fused"),
        ({"sgd": 0.1}, "optimizers is not allowed with an objective: should be none; the objective has an optimizer"),
        ({"auto_find_batch_size": True}, "auto_find_batch_size is not allowed"),
        ({"torch_compile": True}, "torch_compile is not allowed"),
    ],
)  # fmt: skip
def test_settings_that_would_be_overlooked_are_refused(tmp_path, settings, message):
    with pytest.raises(UserError, match=message):
        tiny.trainer(tmp_path, "gpt2", "coupled_adam", **settings)


def test_models_that_do_something_else_are_refused(tmp_path):
    row = {key: value[None] for key, value in tiny.Sentences()[0].items()}
    labels = row.pop("labels")
    model = tiny.model("gemma2")
    model.config.final_logit_softcapping = 2.0
    assert try_model(OutputEmbedding(model), row, labels) == (True, 0, 0.0)
    table = OutputEmbedding(model)
    model.config.final_logit_softcapping, capped = None, 3.0
    assert try_model(table, row, labels).shifts_labels is True  # nobody caps
    forward = model.forward

    def changed(**given):
        outputs = forward(**given)
        outputs.logits = capped * torch.tanh(outputs.logits / capped)
        return outputs

    model.forward = changed
    with pytest.raises(UserError, match="its logits are not those of its output embedding"):
        try_model(table, row, labels)
    for more in (0.001, 500.0):
        model.forward = lambda more=more, **given: (lambda outputs: outputs | {"loss": outputs.loss + more})(forward(**given))
        with pytest.raises(UserError, match="where the likelihood of the labels is .* it has terms that an objective would drop"):
            try_model(table, row, labels)
    model.forward = lambda **given: {"loss": forward(**given).loss}
    with pytest.raises(UserError, match="should give logits of all positions and a loss of the labels"):
        try_model(table, row, labels)
    model.forward = forward
    table.weight.requires_grad_(False)
    assert try_model(table, row, labels).shifts_labels  # a frozen embedding matrix is allowed
    with pytest.raises(UserError, match="GPT2Model: has no output embedding"):
        OutputEmbedding(tiny.model("gpt2").transformer)
    with pytest.raises(ValueError, match="the embedding matrix is 40 x 16, its facts are of 40 x 8"):
        tiny.trainer(tmp_path, "gpt2", "agg", facts={"width": 8})
    unlabelled = tiny.trainer(tmp_path, "gpt2", "agg")
    unlabelled.train_dataset = [{"input_ids": torch.arange(3, 9)}] * 16
    with pytest.raises(UserError, match="the batches have no labels"):
        unlabelled.train()
