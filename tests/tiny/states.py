"""Saved states of a run, made up for tests."""

import pytest
import torch

from reproduction.training.state import State


def row(step: int, valid: float | None = None) -> dict:
    return {"update": step, "loss": 1 / 3, "nll": 2e-7 / 3, "rare_group_size": 4, "valid_nll": valid}


def throw(error: BaseException) -> None:
    raise error


def stop(trained, step: int) -> None:
    """Train until after a step, as if the parent were gone then; another trainer can go on from the last state."""
    trained.state.check_parent = lambda: trained.step < step or pytest.fail("stop")
    with pytest.raises(pytest.fail.Exception):
        trained.run()
    trained.state._lock.close()


def written(trained) -> int:
    """Rows of the log that is there."""
    log = trained.outputs.into / "log.tsv"
    return len(log.read_text().splitlines()) - 1 if log.exists() else 0


def save(run: State, step: int, kept=(), **content) -> None:
    """Save a state after a row of the log."""
    run.log.append(row(step))
    sums = run.begin_save(kept, run.log.position())
    run.write({"update": step, "row": run.log.last, **content}, sums)
    run.end_save(step)


def restored(run: State, *tell) -> int | None:
    """The step of the state that a run continues from."""
    found = run.restore(*tell)
    return found and found["update"]


def saved(path, *updates: int) -> State:
    """Saved states, each with a table and weights of its own."""
    run = State(path)
    for step in updates:
        run.keep_snapshot(step, torch.full((3, 2), float(step)))
        run.keep_weights(step, {"table": torch.full((3, 2), float(step))})
        save(run, step, [step])
    run._lock.close()
    return run


def names(run: State, kind: str) -> list[int]:
    return sorted(int(path.name.split("-")[1].split(".")[0]) for path in run.path.glob(f"{kind}-*"))
