"""The primitive: exact against dense float64 formulas, honest about what it cannot do, usable inside torch's machinery."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.checkpoint import checkpoint

from raretokens.loss.gated_cross_entropy import gated_linear_cross_entropy
from raretokens.loss.position_weight import weighted_linear_cross_entropy
from raretokens.loss.terms import PLAIN, Candidates, Gate, Head, Unlikelihood

PAD = -100


def world(seed: int, m: int, n: int, d: int, pads: float = 0.2) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(seed)
    hidden, weight = (torch.randn(k, d, generator=random, dtype=torch.float64) for k in (m, n))
    targets = torch.randint(0, n, (m,), generator=random)
    targets[torch.rand(m, generator=random) < pads] = PAD
    return hidden.requires_grad_(), weight.requires_grad_(), targets


def dense(hidden, weight, targets, gate, eps=0.0, offset=None, token_weight=None, head=PLAIN, z_loss=0.0, position_weight=None):
    """Loss, and gradients by the formula dL/dH = G W, dL/dW = (Gamma * G)^T H, position by position."""
    n = len(weight)
    loss, grad_hidden, grad_weight = 0.0, torch.zeros_like(hidden), torch.zeros_like(weight)
    grad_offset, grad_bias = torch.zeros(len(hidden), dtype=torch.float64), torch.zeros(n, dtype=torch.float64)
    for i, y in enumerate(targets.tolist()):
        if y == PAD:
            continue
        z = head.scale * (weight @ hidden[i] + (0.0 if head.bias is None else head.bias))
        slope = torch.full_like(z, head.scale)
        if head.softcap:
            slope *= 1 / torch.cosh(z / head.softcap) ** 2
            z = head.softcap * torch.tanh(z / head.softcap)
        z[y] += 0.0 if offset is None else offset[i]
        q = torch.full((n,), eps / n, dtype=torch.float64)
        q[y] += 1 - eps
        factor = 1.0 if token_weight is None else token_weight[y]
        factor = factor if position_weight is None else factor * position_weight[i]
        normaliser = z.exp().sum().log()
        loss += factor * (z_loss * normaliser**2 - (q * z.log_softmax(0)).sum())
        error = factor * (z.softmax(0) * (1 + 2 * z_loss * normaliser) - q)
        gamma = torch.ones(n, dtype=torch.float64)
        if gate is not None:
            gamma = (gate.rare_targets if gate.rare[y] else gate.nonrare_targets).clone()
            gamma[y] = 1.0
        grad_offset[i] = error[y]
        error = error * slope
        grad_hidden[i] = error @ weight
        grad_weight += torch.outer(gamma * error, hidden[i])
        grad_bias += error
    return loss, grad_hidden, grad_weight, grad_offset, grad_bias


def gate_of(seed: int, n: int) -> Gate:
    random = torch.Generator().manual_seed(seed + 1)
    rare = torch.rand(n, generator=random) < 0.4
    values = torch.rand(2, n, generator=random, dtype=torch.float64) * 1.5
    return Gate(rare, *torch.where(rare, values, 1.0))


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6), m=st.integers(1, 20), n=st.integers(2, 30), d=st.integers(1, 8), chunk=st.integers(1, 30),
    gated=st.booleans(), eps=st.sampled_from([0.0, 0.1, 0.7]), offsets=st.booleans(), weights=st.booleans(),
    bias=st.booleans(), scale=st.sampled_from([1.0, 0.3]), softcap=st.sampled_from([None, 1.5]),
    z_loss=st.sampled_from([0.0, 0.2]),
)  # fmt: skip
def test_gradients_equal_the_dense_formula(
    seed, m, n, d, chunk, gated, eps, offsets, weights, bias, scale, softcap, z_loss
):
    hidden, weight, targets = world(seed, m, n, d)
    gate = gate_of(seed, n) if gated else None
    head = Head(torch.randn(n, dtype=torch.float64).requires_grad_() if bias else None, scale, softcap)
    offsets &= scale == 1.0 and softcap is None  # otherwise refused
    offset = torch.randn(m, dtype=torch.float64).requires_grad_() if offsets else None
    token_weight = torch.rand(n, dtype=torch.float64).requires_grad_() if weights else None
    summed = gated_linear_cross_entropy(
        hidden,
        weight,
        targets,
        gate=gate,
        head=head,
        label_smoothing=eps,
        z_loss=z_loss,
        target_offset=offset,
        token_weight=token_weight,
        chunk=chunk,
    )
    (3.0 * summed.loss).backward()
    with torch.no_grad():
        loss, grad_hidden, grad_weight, grad_offset, grad_bias = dense(
            hidden, weight, targets, gate, eps, offset, token_weight, head, z_loss
        )
        plain = dense(hidden, weight, targets, None, head=head)[0]
    assert float(summed.loss.detach()) == pytest.approx(float(loss), abs=1e-9)
    assert float(summed.nll) == pytest.approx(float(plain), abs=1e-9)
    torch.testing.assert_close(hidden.grad, 3 * grad_hidden, atol=1e-9, rtol=1e-9)
    torch.testing.assert_close(weight.grad, 3 * grad_weight, atol=1e-9, rtol=1e-9)
    if offsets:
        torch.testing.assert_close(offset.grad, 3 * grad_offset, atol=1e-9, rtol=1e-9)
    if bias:
        torch.testing.assert_close(head.bias.grad, 3 * grad_bias, atol=1e-9, rtol=1e-9)
    assert token_weight is None or token_weight.grad is None


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6), m=st.integers(1, 20), n=st.integers(2, 30), chunk=st.integers(1, 30), gated=st.booleans(),
    eps=st.sampled_from([0.0, 0.1]), weights=st.booleans(), softcap=st.sampled_from([None, 1.5]),
    z_loss=st.sampled_from([0.0, 0.2]),
)  # fmt: skip
def test_a_weight_of_a_position_multiplies_its_loss_and_its_error(seed, m, n, chunk, gated, eps, weights, softcap, z_loss):
    hidden, weight, targets = world(seed, m, n, 5)
    gate, position_weight = gate_of(seed, n) if gated else None, torch.randn(m, dtype=torch.float64)
    position_weight[targets == PAD] = math.nan  # does not count
    head = Head(torch.randn(n, dtype=torch.float64).requires_grad_(), 0.7, softcap)
    token_weight = torch.rand(n, dtype=torch.float64) if weights else None
    more = {"gate": gate, "head": head, "token_weight": token_weight, "z_loss": z_loss}
    summed = weighted_linear_cross_entropy(
        hidden, weight, targets, position_weight, label_smoothing=eps, ignore_index=PAD, chunk=chunk, **more
    )
    (3 * summed.loss).backward()
    wanted = dense(hidden.detach(), weight.detach(), targets, eps=eps, position_weight=position_weight, **more)
    found = summed.loss, hidden.grad / 3, weight.grad / 3, None, head.bias.grad / 3
    for value, expected in zip(found, wanted, strict=True):
        assert value is None or torch.allclose(value.detach(), torch.as_tensor(expected).detach().double(), rtol=1e-9, atol=1e-10)
    assert float(summed.nll) == pytest.approx(float(dense(hidden.detach(), weight.detach(), targets, None, head=head)[0]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_weights_of_one_change_no_bit_and_those_of_nothing_leave_a_position_out(dtype):
    random = torch.Generator().manual_seed(0)
    hidden, weight = (torch.randn(k, 8, generator=random).to(dtype).requires_grad_() for k in (40, 30))
    targets, gate = torch.randint(0, 30, (4, 10), generator=random), gate_of(0, 30)
    ones, first = torch.ones(4, 10), torch.arange(40).view(4, 10) < 25

    def passed(call, targets, *more):
        summed = call(hidden.view(4, 10, 8), weight, targets, *more, gate=gate, chunk=16)
        return summed.loss.detach(), *torch.autograd.grad(summed.loss, (hidden, weight))

    plain, one = passed(gated_linear_cross_entropy, targets), passed(weighted_linear_cross_entropy, targets, ones)
    assert all(map(torch.equal, plain, one))
    left = passed(gated_linear_cross_entropy, targets.where(first, PAD))
    none = passed(weighted_linear_cross_entropy, targets, first.float())
    for value, expected in zip(none, left, strict=True):
        assert torch.allclose(value, expected, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("weights", [torch.ones(3), torch.tensor([1.0, math.inf, 1.0, 1.0])])
def test_weights_that_do_not_fit_the_positions_are_refused(weights):
    hidden, weight, targets = world(0, 4, 5, 3, pads=0.0)
    with pytest.raises(ValueError, match="position_weight .*(not of the targets' shape|allowed: finite numbers)"):
        weighted_linear_cross_entropy(hidden, weight, targets, weights)


@pytest.mark.parametrize("chunk", [1, 2, 3, 4, 6, 12, 100])
@pytest.mark.parametrize("others", [0, 1, 4, 6, 11, 12])
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_rare_targets_begin_inside_a_chunk_and_at_its_ends_and_fill_several(chunk, others, dtype):
    """Of 12 positions `others` have a target that is not rare; A gates them all, and none of the rest."""
    hidden, weight, _ = world(4, 12, 9, 3)
    rare, one = torch.arange(9) >= 5, torch.ones(9, dtype=torch.float64)
    gate = Gate(rare, one.masked_fill(rare, 0.3), one.masked_fill(rare, 0.6))
    targets = torch.where(torch.arange(12) < others, torch.arange(12) % 5, 5 + torch.arange(12) % 4)
    targets = targets[torch.randperm(12, generator=torch.Generator().manual_seed(others))]
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype == torch.bfloat16):
        gated_linear_cross_entropy(hidden, weight, targets, gate=gate, chunk=chunk).loss.backward()
    with torch.no_grad():
        expected = dense(hidden, weight, targets, gate)[1:3]
    exact = 1e-12 if dtype == torch.float64 else 0.05
    for gradient, truth in zip((hidden.grad, weight.grad), expected, strict=True):
        torch.testing.assert_close(gradient, truth, atol=exact, rtol=exact)


def test_equation_23_of_agg_case_by_case():
    """The gradient of a rare row: (p - 1) h for its own positions, g1 p h for targets not rare, g2 p h for other rare ones."""
    hidden, weight, _ = world(3, 3, 6, 4)
    rare, g1, g2 = torch.arange(6) >= 4, 0.3, 0.6
    one = torch.ones(6, dtype=torch.float64)
    gate = Gate(rare, one.masked_fill(rare, g1), one.masked_fill(rare, g2))
    p = (hidden @ weight.T).softmax(1).detach()
    for target, factor in ((4, p[0, 4] - 1), (1, g1 * p[0, 4]), (5, g2 * p[0, 4])):
        weight.grad = None
        gated_linear_cross_entropy(hidden[:1], weight, torch.tensor([target]), gate=gate).loss.backward()
        torch.testing.assert_close(weight.grad[4], factor * hidden[0].detach(), atol=1e-12, rtol=1e-12)


def test_unlikelihood_candidates_by_hand():
    """Sequence D A B C C | D: the earlier tokens of the same sequence, as a set, without the target."""
    a, b, c, d, pad = 0, 1, 2, 3, 9
    targets = torch.tensor([[d, a, b, c, c], [d, pad, pad, pad, pad]])
    expected = [set(), {d}, {d, a}, {d, a, b}, {d, a, b}, set()]
    kept = targets != pad

    def sets(**options) -> list[set]:
        candidates = Candidates(Unlikelihood(**options), targets, pad).keep(kept.reshape(-1))
        ids, chosen = candidates.of(torch.arange(6), targets[kept][:, None])
        return [set(row[mask].tolist()) for row, mask in zip(ids, chosen, strict=True)]

    assert sets() == expected
    assert sets(flatten_batch=True)[5] == {a, b, c}  # of the other sequence, but for the target d


def test_unlikelihood_is_cut_off_where_a_candidate_is_nearly_certain():
    """1 - p below 1e-5 counts as 1e-5 and has no gradient (Welleck et al.); just above it has its own."""
    targets = torch.tensor([[0, 1]])
    for certain, is_cut in ((1 - 5e-6, True), (1 - 2e-5, False)):
        logits = (
            torch.tensor([[0.0, 0.0], [certain, 1 - certain]], dtype=torch.float64).clamp(min=0.5 * (1 - certain)).log()
        )
        logits[0] = 0.0
        weight, hidden = torch.eye(2, dtype=torch.float64), logits[None].clone().requires_grad_()
        plain, whole = (
            gated_linear_cross_entropy(hidden, weight, targets, unlikelihood=unlikelihood).loss
            for unlikelihood in (None, Unlikelihood(0.7))
        )
        extra = 0.7 * -torch.tensor(1e-5 if is_cut else 1 - certain, dtype=torch.float64).log()
        torch.testing.assert_close((whole - plain).detach(), extra, atol=1e-9, rtol=0)
        (slope,) = torch.autograd.grad(whole - plain, hidden)
        assert slope.abs().max() < 1e-12 if is_cut else slope[0, 1, 0] == pytest.approx(0.7 * certain, rel=1e-6)


def test_a_bfloat16_pass_errs_no_more_than_the_naive_one():
    torch.manual_seed(0)
    hidden, weight = torch.randn(300, 64), torch.randn(500, 64) * 0.3
    targets = torch.randint(0, 500, (300,))

    def gradients(function, dtype):
        h, w = (x.to(dtype, copy=True).requires_grad_() for x in (hidden, weight))
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype == torch.float32):
            function(h, w).backward()
        return h.grad.double(), w.grad.double()

    def naive(h, w):
        return torch.nn.functional.cross_entropy(h @ w.T, targets, reduction="sum")

    def ours(h, w):
        return gated_linear_cross_entropy(h, w, targets).loss

    truth, plain = (gradients(naive, dtype) for dtype in (torch.float64, torch.float32))
    for t, p, own in zip(truth, plain, gradients(ours, torch.float32), strict=True):
        assert (own - t).norm() <= 1.1 * (p - t).norm()


def test_float16_leaves_no_row_without_its_gradient():
    """Most of a rare row's gradient is below float16's smallest number; a scaler of gradients acts before it is rounded."""
    random = torch.Generator().manual_seed(0)
    hidden, weight = torch.randn(64, 32, generator=random), torch.randn(3000, 32, generator=random)
    hidden[:, 0] = 30.0
    weight[100:, 0] = -0.3  # types of a probability of about 1e-8
    targets = torch.randint(0, 100, (64,), generator=random)

    def gradients(dtype, hidden_type, scale):
        h, w = hidden.to(hidden_type, copy=True).requires_grad_(), weight.clone().requires_grad_()
        with torch.autocast("cpu", dtype=dtype, enabled=dtype != torch.float32):
            loss = gated_linear_cross_entropy(h, w, targets).loss
        (loss * scale).backward()
        return h.grad.float() / scale, w.grad / scale

    truth = gradients(torch.float32, torch.float32, 1.0)
    halves = gradients(torch.float16, torch.float32, 1.0), gradients(torch.float16, torch.float16, 256.0)
    for half in halves:
        assert (half[1][100:] != 0).any(1).all()
        for own, exact in zip(half, truth, strict=True):
            assert (own - exact).norm() <= 0.01 * exact.norm()


def test_a_scaler_acts_on_a_gradient_before_float16_rounds_it():
    """The probability e^-20 of the other type is below float16's smallest number, and 2^16 of it is not."""
    hidden = torch.tensor([[10.0, 0.0]], dtype=torch.float16, requires_grad=True)
    weight = torch.tensor([[1.0, 0.0], [-1.0, 1.0]])
    with torch.autocast("cpu", dtype=torch.float16):
        loss = gated_linear_cross_entropy(hidden, weight, torch.tensor([0])).loss
    (loss * 2.0**16).backward()
    assert hidden.grad.dtype == torch.float16
    assert float(hidden.grad[0, 1]) == pytest.approx(2.0**16 * math.exp(-20.0), rel=0.01)


def test_in_float32_no_product_is_of_lower_precision():
    hidden, weight, targets = world(2, 40, 50, 8, 0.0)
    expected = dense(hidden.detach(), weight.detach(), targets, None)
    low = [value.detach().float().requires_grad_() for value in (hidden, weight)]
    loss = gated_linear_cross_entropy(*low, targets).loss
    loss.backward()
    for own, truth in zip((loss.detach(), low[0].grad, low[1].grad), expected[:3], strict=True):
        torch.testing.assert_close(own.double(), truth, atol=1e-4, rtol=1e-5)


def test_sums_are_float32_under_autocast():
    hidden, weight, targets = (x.detach() for x in world(1, 40, 50, 8, 0.0))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        summed = gated_linear_cross_entropy(hidden.float(), weight.float(), targets)
    assert summed.loss.dtype == summed.nll.dtype == torch.float32


def test_it_works_under_checkpointing_compilation_and_twice_in_a_step():
    hidden, weight, targets = world(5, 12, 20, 4)
    gate = gate_of(5, 20)

    def loss(h, w):
        return gated_linear_cross_entropy(torch.tanh(h), w, targets, gate=gate).loss

    def gradients(function):
        return torch.autograd.grad(function(hidden, weight), (hidden, weight))

    once = gradients(loss)
    ways = {
        "checkpoint": lambda h, w: checkpoint(loss, h, w, use_reentrant=False),
        "compile": torch.compile(loss, backend="eager"),
        "twice": lambda h, w: loss(h, w) + loss(h, w),
    }
    for name, way in ways.items():
        for gradient, expected in zip(gradients(way), once, strict=True):
            times = 2 if name == "twice" else 1
            torch.testing.assert_close(gradient, expected * times, atol=1e-12, rtol=1e-12, msg=name)


def test_no_gradient_is_computed_where_none_is_wanted():
    hidden, weight, targets = world(6, 5, 7, 3)
    with torch.no_grad():
        assert not gated_linear_cross_entropy(hidden, weight, targets).loss.requires_grad
    summed = gated_linear_cross_entropy(hidden, weight, targets)
    assert summed.loss.requires_grad and not summed.nll.requires_grad
    only = gated_linear_cross_entropy(hidden.detach(), weight, targets).loss
    only.backward()
    assert hidden.grad is None and weight.grad is not None


def test_no_positions_is_zero():
    hidden, weight, targets = world(7, 4, 5, 3)
    summed = gated_linear_cross_entropy(hidden, weight, torch.full_like(targets, PAD), gate=gate_of(7, 5))
    summed.loss.backward()
    assert float(summed.loss.detach()) == 0.0 and not weight.grad.any()


def test_what_it_cannot_do_is_refused():
    hidden, weight, targets = world(8, 4, 5, 3, 0.0)
    with pytest.raises(ValueError, match="do not fit"):
        gated_linear_cross_entropy(hidden[:, :2], weight, targets)
    with pytest.raises(IndexError, match=r"targets lie in \d+\.\.5; allowed: 0\.\.4"):
        gated_linear_cross_entropy(hidden, weight, torch.tensor([0, 1, 2, 5]))
    with pytest.raises(IndexError, match=r"targets lie in -1\.\.\d+; allowed: 0\.\.4"):
        gated_linear_cross_entropy(hidden, weight, torch.tensor([0, 1, -1, 2]))
    with pytest.raises(ValueError, match=r"target_offset \(3,\) is not of the targets' shape \(4,\)"):
        gated_linear_cross_entropy(hidden, weight, targets, target_offset=torch.zeros(3))
    for head in (Head(scale=0.5), Head(softcap=30.0)):
        with pytest.raises(ValueError, match="target_offset is of plain logits"):
            gated_linear_cross_entropy(hidden, weight, targets, target_offset=torch.zeros(4), head=head)
    for head in (Head(scale=0.0), Head(scale=float("nan")), Head(softcap=-1.0), Head(softcap=0.0)):
        with pytest.raises(ValueError, match="head: scale .*; allowed: positive numbers"):
            gated_linear_cross_entropy(hidden, weight, targets, head=head)
    with pytest.raises(ValueError, match="bias has shape"):
        gated_linear_cross_entropy(hidden, weight, targets, head=Head(torch.ones(4)))
    with pytest.raises(ValueError, match="token_weight has shape"):
        gated_linear_cross_entropy(hidden, weight, targets, token_weight=torch.ones(4))
    with pytest.raises(ValueError, match="rare has shape"):
        gated_linear_cross_entropy(hidden, weight, targets, gate=gate_of(0, 6))
    with pytest.raises(ValueError, match="unlikelihood needs targets of sequences x positions"):
        gated_linear_cross_entropy(hidden, weight, targets, unlikelihood=Unlikelihood())
    (first,) = torch.autograd.grad(gated_linear_cross_entropy(hidden, weight, targets).loss, hidden, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable|does not require grad"):
        torch.autograd.grad(first.sum(), weight)


@pytest.mark.parametrize("wrong", [{"label_smoothing": 1.0}, {"label_smoothing": -0.5}, {"z_loss": -1.0}, {"z_loss": math.nan}])
def test_a_smoothing_or_z_loss_that_means_nothing_is_refused(wrong):
    with pytest.raises(ValueError, match=f"{next(iter(wrong))} {next(iter(wrong.values()))}"):
        gated_linear_cross_entropy(torch.ones(2, 3), torch.ones(4, 3), torch.zeros(2, dtype=torch.int64), **wrong)
