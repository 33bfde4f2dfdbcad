"""Count the synchronisations of training steps on a simulated GPU: synchronised.py FOLDER TASK OBJECTIVE...

Every step has four micro-batches. The steps follow a resume, because a resume moves states between devices. The simulated GPU
stays registered in the process, so tests start this file as a process of its own. The result is JSON: objective -> line -> count.
"""

import json
import sys
from collections import Counter
from pathlib import Path

import torch
from accelerate.state import AcceleratorState, PartialState

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2] / "benchmarks")]

from synchronisations import NAME, simulated  # noqa: E402

from reproduction.training.saving import Clock, Saver  # noqa: E402
from tiny.trainer import Trainer, trainer, write_tokens  # noqa: E402

OPTIONS = {"freeze": {"until": 100}}  # of which the end is looked for in every step
MICRO_BATCH = {"lm": 16, "nmt": 128}  # tokens, a quarter of a step
BEFORE, COUNTED = 1, 2  # steps


def made(folder: Path, task: str, name: str) -> Trainer:
    AcceleratorState._reset_state(True)
    PartialState(cpu=True)
    PartialState._shared_state["device"] = torch.device(NAME, 0)
    options = {"micro_batch": MICRO_BATCH[task], "dtype": torch.float32, "dropout": 0.1}
    return trainer(folder, task, name, steps=100, **options, **OPTIONS.get(name, {}))


def steps(trained: Trainer, count: int) -> None:
    for prepared in trained._prepared(range(trained.step, trained.step + count)):
        assert 4 <= len(prepared.batches) <= 5
        row, _ = trained._train_step(prepared)
        trained.step += 1
        trained.state.log.append(row)


def counted(folder: Path, task: str, name: str) -> Counter:
    """Return the synchronisations of COUNTED steps after a resume, by kind and line of code."""
    first = made(folder, task, name)
    steps(first, BEFORE)
    with Saver(Clock(first.execution), first.state, first.outputs) as first.saver:
        first._save()
    first.state._lock.close()
    resumed = made(folder, task, name)
    assert resumed.step == BEFORE
    SEEN.clear()
    steps(resumed, COUNTED)
    return Counter({" at ".join(key): count for key, count in SEEN.items()})


def main(folder: str, task: str, *names: str) -> None:
    global SEEN
    torch.__future__.set_swap_module_params_on_conversion(True)  # parameters stay the same objects, as on a GPU
    write_tokens(Path(folder))
    found = {}
    with simulated() as SEEN:
        for name in names:
            found[name] = counted(Path(folder), task, name)
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
