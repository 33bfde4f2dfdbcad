"""Saved states of a run, made up for tests."""

import torch

from raretokens.training.state import State


def row(update: int, valid: float | None = None) -> dict:
    return {"update": update, "loss": 1 / 3, "nll": 2e-7 / 3, "rare_group_size": 4, "valid_nll": valid}


def throw(error: BaseException) -> None:
    raise error


def written(trained) -> int:
    """Rows of the log that is there."""
    log = trained.outputs.into / "log.tsv"
    return len(log.read_text().splitlines()) - 1 if log.exists() else 0


def save(run: State, update: int, kept=(), **content) -> None:
    """Save a state after a row of the log."""
    run.log.append(row(update))
    sums = run.begin_save(kept, run.log.position())
    run.write({"update": update, "row": run.log.last, **content}, sums)
    run.end_save(update)


def restored(run: State, *tell) -> int | None:
    """The step of the state that a run continues from."""
    found = run.restore(*tell)
    return found and found["update"]


def saved(path, *updates: int) -> State:
    """Saved states, each with a table and weights of its own."""
    run = State(path)
    for update in updates:
        run.keep_snapshot(update, torch.full((3, 2), float(update)))
        run.keep_weights(update, {"table": torch.full((3, 2), float(update))})
        save(run, update, [update])
    run._lock.close()
    return run


def names(run: State, kind: str) -> list[int]:
    return sorted(int(path.name.split("-")[1].split(".")[0]) for path in run.path.glob(f"{kind}-*"))
