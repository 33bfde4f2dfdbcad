"""The training loop keeps every objective's promises: micro-batches, processes, a stop and a resume change nothing."""

import os
import socket

import pytest
import torch
import torch.multiprocessing as processes
from tiny.trainer import N, trainer, weights, write_tokens

from raretokens.consistency import objectives

ALL = objectives()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("tokens")
    write_tokens(path)
    yield path
    torch.set_default_dtype(torch.float32)


def finished(folder, task, name, **settings):
    trained = trainer(folder, task, name, **settings)
    trained.run()
    trained.tables = trained.folder.tables()
    trained.folder.remove()
    return weights(trained), trained


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("task", ["lm", "nmt"])
def test_micro_batches_change_nothing(folder, task, name):
    whole, parts = (finished(folder, task, name, micro_batch=size)[0] for size in (10_000, 16))
    for key, value in whole.items():
        torch.testing.assert_close(parts[key], value, atol=1e-9, rtol=1e-9, msg=key)


@pytest.mark.parametrize("name", ALL)
def test_a_stop_and_a_resume_change_nothing_to_the_bit(folder, name):
    """In float32 with dropout: data order, dropout masks, optimizer, objective and log all go on where they were."""
    settings = {"dropout": 0.2, "updates": 8, "dtype": torch.float32}
    expected, unbroken = finished(folder, "lm", name, **settings)
    stopped = trainer(folder, "lm", name, save_updates=3, **settings)
    stopped.folder.check_parent = lambda: stopped.update < 5 or pytest.fail("stop")  # type: ignore[method-assign]
    with pytest.raises(pytest.fail.Exception):
        stopped.run()
    stopped.folder._lock.close()
    torch.manual_seed(12345)  # what another process would have
    resumed = trainer(folder, "lm", name, **settings)
    assert resumed.update == 3
    resumed.run()
    assert resumed.log == unbroken.log
    tables = resumed.folder.tables()
    assert list(tables) == ["000000", "000004", "000008"]
    assert all(torch.equal(tables[key], table) for key, table in unbroken.tables.items())
    for key, value in weights(resumed).items():
        assert torch.equal(value, expected[key]), key
    resumed.folder.remove()


def test_frozen_rows_stay_bit_identical_under_weight_decay(folder):
    before = trainer(folder, "lm", "freeze", updates=100)
    initial = before.table.detach().clone()
    before.run()
    before.folder.remove()
    rare = torch.arange(N) >= 30
    assert torch.equal(before.table.detach()[rare], initial[rare])
    assert not torch.equal(before.table.detach()[~rare], initial[~rare])


def test_frage_that_starts_late_continues_the_baseline(folder):
    """Until its start it is maximum likelihood to the bit, so it equals a warm start from the baseline of the same seed."""
    baseline, late, early = (
        finished(folder, "nmt", name, **options)[0]
        for name, options in (("mle", {}), ("frage", {"start": 6}), ("frage", {"start": 5}))
    )
    assert all(torch.equal(late[key], value) for key, value in baseline.items())
    assert not torch.equal(early["table"], baseline["table"])


def one_of_two(rank: int, port: int, folder, results) -> None:
    os.environ.update(
        RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port)
    )
    torch.set_num_threads(1)
    found = {}
    for task in ("lm", "nmt"):
        for name in ALL:
            trained = trainer(folder, task, name)
            trained.run()
            found[task, name] = weights(trained)
            trained.accelerator.wait_for_everyone()
            trained.folder.remove()
    torch.save(found, results / f"{rank}.pt")


def test_two_processes_change_nothing(folder, tmp_path):
    """All objectives in one launch over gloo: both processes end with the weights of a single one."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    processes.start_processes(one_of_two, args=(port, folder, tmp_path), nprocs=2, start_method="spawn")
    first, second = (torch.load(tmp_path / f"{rank}.pt") for rank in (0, 1))
    for (task, name), found in first.items():
        alone = finished(folder, task, name)[0]
        for key, value in alone.items():
            torch.testing.assert_close(found[key], value, atol=1e-9, rtol=1e-9, msg=f"{task} {name} {key}")
            assert torch.equal(found[key], second[task, name][key]), (task, name, key)
