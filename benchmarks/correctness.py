"""Loss and gradients of every objective on a card in bfloat16, beside the same on the CPU in float32.

    python benchmarks/correctness.py [--sizes demo/lm/demo,demo/nmt/base] [--out benchmarks/correctness-cuda.csv]

One training step from the same weights on the same text, without dropout. `error` is the distance of the gradients (of the
embedding matrix, of all else) divided by the length of the CPU's. bfloat16 rounds to 0.4 %, so what is far above that is wrong.
Exits 1 if one is above 0.1.
"""

import sys
from dataclasses import replace

import torch
from measuring import machine, parser
from records import keep
from step import Step
from torch import Tensor
from workload import Workload

from raretokens.objectives.registry import known

MOST = 0.1  # of an error
TOKENS = 1024


def gradients(name: str, work: Workload, device: str, precision: str) -> tuple[float, Tensor, Tensor]:
    """Loss, gradient of the table, and of all other weights in a row; on the CPU, float64."""
    work = replace(work, training=work.training.replaced(precision=precision))
    work = replace(work, shape=work.shape | {"dropout": 0.0, "attention_dropout": 0.0})
    step = Step(name, work, device)
    model, table, ids = step.model, step.model.embedding, step.draw(0)
    inputs, targets = ids[:, :-1], ids[:, 1:]
    step.objective.begin_step(step.counts(ids))
    with torch.autocast(device, dtype=torch.bfloat16, enabled=precision == "bfloat16"):
        hidden = model(*((inputs,) if work.task == "lm" else (targets, inputs)))
        loss = step.objective.loss(hidden, table, targets).loss / targets.numel()
    penalty = step.objective.penalty(table)
    (loss if penalty is None else loss + penalty).backward()
    rest = [p.grad for p in model.parameters() if p is not table and p.grad is not None]
    parts = (table.grad, torch.cat([grad.flatten() for grad in rest]))
    return (loss.item(), *(part.detach().cpu().double() for part in parts))


def row(name: str, size: str, work: Workload, device: str) -> dict:
    torch.manual_seed(0)
    expected, table, rest = gradients(name, work, "cpu", "float32")
    torch.manual_seed(0)
    found, own_table, own_rest = gradients(name, work, device, "bfloat16")
    errors = [((own - other).norm() / other.norm()).item() for own, other in ((own_table, table), (own_rest, rest))]
    is_good = max(errors) <= MOST and abs(found - expected) <= 0.01 * abs(expected)
    made = {"size": size, "objective": name, "loss": f"{found:.4f}", "loss_cpu": f"{expected:.4f}"}
    made |= {"table_error": f"{errors[0]:.4f}", "other_error": f"{errors[1]:.4f}", "right": "yes" if is_good else "NO"}
    return made | {"machine": machine(device)}


def main() -> None:
    options = parser(__doc__, rounds=1)
    options.add_argument("--sizes", default="demo/lm/demo,demo/nmt/base")
    options.add_argument("--objectives", default=",".join(known()))
    arguments, rows = options.parse_args(), []
    for size in arguments.sizes.split(","):
        work = Workload.named(size, TOKENS)
        for name in arguments.objectives.split(","):
            rows.append(row(name, size, work, arguments.device))
            print(rows[-1], flush=True)
            if arguments.out:
                keep(rows[-1:], arguments.out, ("size", "objective"))
    sys.exit(any(one["right"] != "yes" for one in rows))


if __name__ == "__main__":
    main()
