"""A training step on a GPU waits for the GPU no more often than docs/gpus.md says."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from tiny import synchronised

from raretokens.loss import objective
from raretokens.objectives.registry import build
from raretokens.vocabulary import PAD
from reproduction.training.batches import Batch

ROOT = Path(__file__).parents[1]
HEAD = "| objective | synchronizations of a step |"


def documented() -> dict[str, int]:
    """Synchronisations of a step by objective, from the table of docs/gpus.md."""
    _, _, table = (ROOT / "docs/gpus.md").read_text(encoding="utf-8").partition(HEAD)
    rows = [line.split("|")[1:3] for line in table.partition("\n\n")[0].splitlines()[2:]]
    return {name.strip(" `"): int(count) for names, count in rows for name in names.split(",")}


@pytest.mark.parametrize(
    ("task", "names"),
    [
        ("lm", ["mle", "agg", "agps", "cosreg", "frage", "freeze", "freeze_b", "coupled_adam", "ember", "ul_agg"]),
        ("nmt", ["mle", "agg"]),  # with padding
    ],
)
@pytest.mark.slow
def test_steps_wait_for_the_gpu_as_documented(task, names, tmp_path):
    command = [sys.executable, synchronised.__file__, str(tmp_path), task, *names]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found, allowed = json.loads(done.stdout), documented()
    assert [*found] == names
    for name, counts in found.items():
        expected = allowed.get(name, allowed["all others"])
        once = 1 if name == "freeze" else 0  # the indices of the frozen rows
        assert sum(counts.values()) <= synchronised.COUNTED * expected + once, (name, counts)


def test_the_host_finds_the_positions_of_targets_and_ids_out_of_range():
    batch = Batch((torch.ones(2, 3),), torch.tensor([[5, 7, PAD], [4, PAD, PAD]]))
    assert batch.rows is None and batch.with_rows(8).rows.tolist() == [0, 1, 3]
    with pytest.raises(IndexError, match=r"targets lie in 4\.\.7; allowed: 0\.\.6"):
        batch.with_rows(7)


def test_known_positions_change_no_bit_of_loss_and_gradients(folder):
    from tiny.trainer import N, facts

    torch.manual_seed(0)
    known, targets = facts(folder), torch.randint(3, N, (4, 6))
    targets[1:, 4:] = PAD
    results = []
    for rows in (None, Batch((), targets).with_rows(N).rows):
        torch.manual_seed(1)
        hidden, weight = torch.randn(4, 6, 16, requires_grad=True), torch.randn(N, 16, requires_grad=True)
        method = build("ul_agg", known)
        method.begin_step(torch.bincount(targets[targets != PAD], minlength=N))
        summed = method.loss(hidden, weight, targets, rows=rows)
        summed.loss.backward()
        results.append((summed.loss, summed.nll, hidden.grad, weight.grad))
    assert all(torch.equal(*pair) for pair in zip(*results, strict=True))


def test_numbers_of_a_log_row_keep_their_types():
    row = {"loss": torch.tensor(0.1), "size": torch.tensor(3), "rate": 0.5, "none": None}
    read = objective.read_numbers(row)
    assert read == {"loss": float(torch.tensor(0.1)), "size": 3, "rate": 0.5, "none": None}
    assert type(read["size"]) is int


def test_a_resumed_objective_knows_the_number_of_its_step(folder):
    from tiny.trainer import N, facts

    first, resumed = (build("freeze", facts(folder), until=2) for _ in range(2))
    for _ in range(2):
        first.begin_step(torch.zeros(N, dtype=torch.int64))
    resumed.load_state_dict(first.state_dict())
    assert resumed.frozen_rows() is not None
    resumed.begin_step(torch.zeros(N, dtype=torch.int64))
    assert resumed.frozen_rows() is None
