"""What a loop of one's own calls: any number of micro-batches, Accelerate's own division, mistakes."""

import re
import subprocess
from pathlib import Path

import pytest
import torch
from accelerate import Accelerator
from tiny import served
from tiny.update import PAD, D, N, build, gradients, update, whole

from raretokens import Loop, UserError, train_only_rows
from raretokens.objectives.registry import known

pytestmark = pytest.mark.usefixtures("other_accelerator", "float64")
HERE = Path(__file__).parent
NAMES = ["mle", "agg", "cosreg", "frage", "ul_agg", "mu_loss"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("micro_batches", [1, 3])
@pytest.mark.parametrize("is_accelerated", [False, True])
def test_micro_batches_add_up_to_the_update_s_loss(name, micro_batches, is_accelerated):
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=micro_batches) if is_accelerated else None
    ours, expected = build(name, {}), build(name, {})
    for seed in range(6):
        hidden, weight, targets, counts = update(seed)
        wanted = gradients(whole(expected, hidden, weight, targets, counts), hidden, weight)
        loop = Loop(ours, weight, accelerator=accelerator)
        loop.begin(targets.chunk(micro_batches))
        for states, part in zip(hidden.chunk(micro_batches), targets.chunk(micro_batches), strict=True):
            loss = loop.loss(states, part)
            loss.backward() if accelerator is None else accelerator.backward(loss)
        torch.testing.assert_close([hidden.grad, weight.grad], wanted, atol=1e-12, rtol=1e-9)
        with loop.stepping():
            pass
        expected.end_step(weight)


def test_a_micro_batch_without_targets_adds_nothing():
    hidden, weight, targets, counts = update(0)
    wanted = gradients(whole(build("agg", {}), hidden, weight, targets, counts), hidden, weight)
    loop = Loop(build("agg", {}), weight)
    loop.begin([targets, torch.full_like(targets, loop.objective.facts.pad)])
    (loop.loss(hidden, targets) + loop.loss(hidden, torch.full_like(targets, loop.objective.facts.pad))).backward()
    torch.testing.assert_close([hidden.grad, weight.grad], wanted, atol=1e-12, rtol=1e-9)


NOT_WEIGHTED = {"adversarial", "dispersion", "soft_cap", "tied_gradient", "ul", "ul_agg"}  # which have more than softmax losses


@pytest.mark.parametrize("name", sorted(known()))
def test_positions_have_weights_with_every_objective_that_sums_over_them(name):
    """Weights of 1 change nothing. With weights of 1 and 0 the gradient is that of the positions left, over all targets."""
    ours, expected = build(name, {}), build(name, {})
    for seed in range(4):
        hidden, weight, targets, counts = update(seed)
        loop = Loop(ours, weight)
        loop.begin([targets])
        kept = torch.rand(targets.shape) < (1 if seed == 0 else 0.6)
        if name in NOT_WEIGHTED:
            with pytest.raises(UserError, match=r"position_weight: \w+ also has [a-z_, ]+; allowed: objectives whose loss"):
                loop.loss(hidden, targets, position_weight=kept.double())
            return
        found = gradients(loop.loss(hidden, targets, position_weight=kept.double()), hidden, weight)
        expected.begin_step(counts)
        loss, penalty = expected.loss(hidden, weight, targets.where(kept, PAD)).loss / counts.sum(), expected.penalty(weight)
        wanted = gradients(loss if penalty is None else loss + penalty, hidden, weight)
        torch.testing.assert_close(found, wanted, atol=1e-12, rtol=1e-9)
        with loop.stepping():
            pass
        expected.end_step(weight)


def test_a_refused_loss_does_not_use_up_its_micro_batch():
    hidden, weight, targets, _ = update(0)
    loop = Loop(build("agg", {}), weight)
    loop.begin([targets])
    with pytest.raises(ValueError, match="position_weight .27,. is not of the targets' shape .3, 9."):
        loop.loss(hidden, targets, position_weight=torch.ones(27))
    with pytest.raises(TypeError, match="position_weight is list; should be a tensor of real numbers"):
        loop.loss(hidden, targets, position_weight=[1.0])
    with pytest.raises(TypeError, match="inputs is a tensor"):
        loop.loss(hidden, targets, torch.ones(targets.shape))
    assert loop.loss(hidden, targets).isfinite()


def test_no_loss_of_a_subclass_is_left_out_where_positions_have_weights():
    class Louder(type(build("agg", {}))):
        def loss(self, *arguments, **settings):
            return super().loss(*arguments, **settings)

    hidden, weight, targets, _ = update(0)
    objective = build("agg", {})
    objective.__class__ = Louder
    loop = Loop(objective, weight)
    loop.begin([targets])
    with pytest.raises(UserError, match="also has loss; allowed"):
        loop.loss(hidden, targets, position_weight=torch.ones(targets.shape))


@pytest.mark.parametrize("name", ["agg", "ul_agg", "freeze"])
def test_the_gradient_of_a_bias_has_no_gate_in_bfloat16(name):
    """In float32 it has none; bfloat16 differs by its rounding alone. Where it would, the combination is refused."""
    found = []
    for dtype in (torch.float32, torch.bfloat16):
        hidden, _, targets, _ = update(0)
        head = torch.nn.Linear(D, N, dtype=torch.float32)
        torch.nn.init.normal_(head.weight, generator=torch.Generator().manual_seed(0))
        loop = Loop(build(name, {}), head)
        loop.begin([targets])
        with torch.autocast("cpu", dtype, enabled=dtype == torch.bfloat16):
            if name == "ul_agg" and dtype == torch.bfloat16:
                with pytest.raises(UserError, match="ias of the logits, in bfloat16 on a CPU: its gate would act on the bias"):
                    loop.loss(hidden.detach().float(), targets)
                return
            loop.loss(hidden.detach().float(), targets).backward()
        found.append(head.bias.grad)
    torch.testing.assert_close(found[1], found[0], atol=2e-3, rtol=0.05)


def test_a_loop_that_forgets_something_is_told():
    hidden, weight, targets, _ = update(0)
    loop = Loop(build("agg", {}), weight)
    with pytest.raises(RuntimeError, match="was given the targets of 0 micro-batches; this is one more"):
        loop.loss(hidden, targets)
    loop.begin([targets, targets])
    loop.loss(hidden, targets)
    with pytest.raises(RuntimeError, match="1 of the step's 2 micro-batches had no loss"), loop.stepping():
        pass
    pad = loop.objective.facts.pad
    loop.loss(hidden, torch.full_like(targets, pad))
    with loop.stepping():
        pass
    given = int((targets != pad).sum())
    with pytest.raises(RuntimeError, match=f"was given {2 * given} targets in the step before, and its losses {given}"):
        loop.begin([targets])
    loop.begin([targets])  # a cell of a notebook that is run again
    with pytest.raises(ValueError, match="the embedding matrix is 25 x 6, its facts are of 26 x 6"):
        Loop(build("agg", {}), weight[1:])


def trained(name: str, options: dict, own_optimizer: bool, own_step: bool) -> torch.Tensor:
    """The embedding after eight steps of a loop that uses all of Loop, or takes the optimizer or its step itself."""
    weight, layer = update(0)[1].detach().clone().requires_grad_(), torch.nn.Linear(D, D, bias=False)
    layer.weight = torch.nn.Parameter(torch.eye(D))
    loop, adam = Loop(build(name, options), weight), {"lr": 0.01, "weight_decay": 0.1}
    weights = [weight, *layer.parameters()]
    optimizer = torch.optim.AdamW(weights, fused=True, **adam) if own_optimizer else loop.optimizer(weights, **adam)
    for seed in range(8):
        hidden, _, targets, _ = update(seed)
        loop.begin([targets])
        loop.loss(layer(hidden), targets).backward()
        optimizer.step() if own_step else loop.step(optimizer)
        optimizer.zero_grad()
    return weight.detach()


@pytest.mark.parametrize(("name", "options"), [*((name, {}) for name in known()), ("weight_decay", {"form": "l2"})])
def test_no_loop_trains_other_weights_than_the_objective_s_without_an_error(name, options):
    right = trained(name, options, False, False)
    for own_optimizer, own_step in [(True, False), (False, True), (True, True)]:
        try:
            assert torch.equal(trained(name, options, own_optimizer, own_step), right)
        except RuntimeError as error:
            step = f"the step before had losses but no loop.step\\(optimizer\\), which applies {build(name, {}).name}; to drop"
            rule = f"{name} is an optimizer rule, which this AdamW lacks: use loop.optimizer"
            assert re.match(step if own_step else rule, str(error))
            assert own_step or name in ("ember", "coupled_adam", "weight_decay") and not options
        else:
            assert not own_step


def test_a_step_may_be_dropped_and_is_ended_once():
    hidden, weight, targets, _ = update(0)
    loop = Loop(build("ember", {}), weight)
    optimizer = loop.optimizer([weight], lr=0.1)
    for _ in range(2):
        loop.begin([targets])
        loop.loss(hidden, targets).backward()
        with loop.stepping():
            optimizer.zero_grad()
    with pytest.raises(RuntimeError, match=r"no step to end: loop.begin\(targets\) begins each step"):
        loop.step(optimizer)
    loop.begin([targets])
    with torch.no_grad(), pytest.raises(RuntimeError, match="gradients are disabled; to evaluate, divide the sum of"):
        loop.loss(hidden, targets)


@pytest.mark.parametrize("kind", ["parameter", "embedding", "linear", "bias"])
def test_the_embedding_may_be_the_module_that_contains_it(kind):
    """With the bias of a linear layer, which changes the logits."""
    hidden, weight, targets, _ = update(0)
    module = torch.nn.Embedding(N, D) if kind == "embedding" else torch.nn.Linear(D, N, bias=kind == "bias")
    module.weight = torch.nn.Parameter(weight.detach())
    loop = Loop(build("mle", {}, label_smoothing=0.0), module.weight if kind == "parameter" else module, input_embedding=module)
    loop.begin([targets])
    logits = hidden @ weight.T + (module.bias if kind == "bias" else 0.0)
    expected = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=PAD)
    torch.testing.assert_close(loop.loss(hidden, targets), expected, atol=1e-12, rtol=1e-9)
    optimizer = loop.optimizer(module.named_parameters(), lr=0.1)
    assert {weight for group in optimizer.param_groups for weight in group["params"]} == {*module.parameters()}
    assert train_only_rows(module, [3]).frozen_rows().sum() == N - 1


def test_what_is_no_embedding_is_refused():
    weight = update(0)[1]
    for wrong in (torch.nn.LayerNorm(N), [[1.0]], None, torch.nn.ReLU()):
        with pytest.raises(TypeError, match="is not allowed: a parameter N x d, nn.Embedding or nn.Linear"):
            Loop(build("mle", {}), wrong)
    with pytest.raises(ValueError, match="the embedding matrix is computed from other weights"):
        Loop(build("mle", {}), weight * 2)


@pytest.mark.parametrize("wrong", [torch.tensor([True, False]), torch.tensor([1.0, 2.0])])
def test_targets_that_are_no_ids_are_refused(wrong):
    with pytest.raises(ValueError, match=f"targets of {wrong.dtype} are not allowed: ids, int64"):
        Loop(build("agg", {}), update(0)[1]).begin([wrong])


def test_a_parameter_group_may_be_one_tensor():
    table, other = update(0)[1].requires_grad_(), torch.nn.Parameter(torch.ones(3))
    made = Loop(build("mle", {}), table).optimizer([{"params": table, "lr": 0.1}, {"params": [other]}], lr=0.5)
    assert [(group["params"][0] is table, group["lr"]) for group in made.param_groups] == [(True, 0.1), (False, 0.5)]


def test_two_processes_of_accelerate_take_the_steps_of_one(tmp_path):
    environment = {"PYTHONPATH": f"{HERE.parent / 'src'}:{HERE}", "OMP_NUM_THREADS": "1", "PATH": "/usr/bin:/bin"}
    files = [str(tmp_path / f"{name}.pt") for name in ("one", "both")]
    command = ["python", "-m", "tiny.accelerated", files[0]]
    subprocess.run(command, env=served.environment(environment), check=True)
    served.on_two_processes(environment, "tiny.accelerated", files[1])
    one, both = map(torch.load, files)
    torch.testing.assert_close(both, one, atol=1e-10, rtol=1e-8)
