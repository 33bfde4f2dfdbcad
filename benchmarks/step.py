"""Time and memory of a whole training step of each objective beside MLE, and the share of its own counters in it.

    python benchmarks/step.py [--sizes demo/lm/demo,paper/lm/lm6] [--tokens 1024] [--out benchmarks/step-cpu.csv]

Each objective takes turns with MLE in a process of their own, several rounds. Seconds are those of the best round (of the
processor on a CPU, of the device on a GPU); the ratio to MLE is the median of the rounds' ratios, which other work on the machine
disturbs least. MLE beside itself shows how far that can be trusted. Memory is the peak of a step above the model, the optimizer's
state and the objective's, in a further process. Text is random, its types of falling frequency; sentences of translation are
equally long. On a GPU the matrix products are bfloat16. Rows that are not
measured stay in the file.
"""

import json
from statistics import median

import torch
from measuring import apart, clock, guarded, machine, parser, peak_bytes, reset_peak
from records import keep
from workload import Workload

from raretokens import build, keep_frozen_rows, target_counts
from raretokens.objectives.registry import declared, known
from reproduction.training.models.registry import build as build_model

SIZES = {
    "cpu": "demo/lm/demo,demo/nmt/base,paper/lm/lm6",
    "cuda": "paper/lm/lm6,paper/lm/gpt2m,paper/nmt/base,paper/nmt/big",
}
TOKENS = {"cpu": 1024, "cuda": 16384}  # of a step, less where the size's update has less
EPOCH = 400  # updates, that AGG has counted before the first step
SENTENCE = 32  # positions of each side in translation
WARM_UP = 2  # rounds that do not count


class Step:
    def __init__(self, name: str, work: Workload, device: str) -> None:
        self.work, self.device = work, device
        torch.manual_seed(0)
        self.length = SENTENCE if work.task == "nmt" else work.training.block
        self.model = build_model(work.architecture, work.shape, work.vocabulary, self.length).to(device)
        past = [self.counts(self.draw(update)) for update in range(EPOCH)]
        self.objective = build(name, work.facts(sum(past), EPOCH)).to(device)
        for counts in past:
            self.objective.begin_step(counts)
        table = self.model.embedding
        rest = [p for p in self.model.parameters() if p is not table]
        groups = [{"params": [table], "embedding": True}, {"params": rest, "embedding": False}]
        self.optimizer = self.objective.optimizer(groups, lr=1e-4, weight_decay=0.01)
        self.steps = 0

    def draw(self, seed: int) -> torch.Tensor:
        """sequences x (positions + 1)"""
        sequences = max(self.work.training.tokens_per_step // self.length, 1)
        ids = self.work.ids(sequences * (self.length + 1), seed)
        return torch.from_numpy(ids).reshape(sequences, -1).to(self.device)

    def counts(self, ids: torch.Tensor) -> torch.Tensor:
        return target_counts([ids[:, 1:]], self.work.vocabulary)

    def run(self) -> tuple[float, float]:
        """Seconds of a step, and of the objective's own work before the loss and for the log."""
        ids, device = self.draw(self.steps), self.device
        self.steps += 1
        start = clock(device)
        counts = self.counts(ids)
        begun = clock(device)
        self.objective.begin_step(counts)
        counting = clock(device) - begun
        self._train(ids[:, :-1], ids[:, 1:])
        begun = clock(device)
        self.objective.report()
        end = clock(device)
        return end - start, counting + end - begun

    def _train(self, inputs: torch.Tensor, targets: torch.Tensor) -> None:
        table, is_low = self.model.embedding, self.work.training.precision == "bfloat16"
        with torch.autocast(self.device, dtype=torch.bfloat16, enabled=is_low):
            hidden = self.model(*((inputs,) if self.work.task == "lm" else (targets, inputs)))
            loss = self.objective.loss(hidden, table, targets).loss / targets.numel()
        penalty = self.objective.penalty(table)
        (loss if penalty is None else loss + penalty).backward()
        with keep_frozen_rows(self.objective, table):
            self.optimizer.step()
        self.optimizer.zero_grad()
        self.objective.end_step(table)


def turns(name: str, work: Workload, device: str, rounds: int) -> dict:
    """Seconds of the objective and of MLE, round by round, and of the objective's counters."""
    steps = {"own": Step(name, work, device), "mle": Step("mle", work, device)}
    times: dict[str, list] = {"own": [], "mle": []}
    for number in range(WARM_UP + rounds):
        for key in ("own", "mle") if number % 2 else ("mle", "own"):
            times[key].append(steps[key].run())
    (own, counting), (mle, _) = (zip(*times[key][WARM_UP:], strict=True) for key in ("own", "mle"))
    return {"own": own, "mle": mle, "counting": counting}


def peak(name: str, work: Workload, device: str) -> dict:
    """Peak bytes of a step above what lives between steps."""
    step = Step(name, work, device)
    for _ in range(WARM_UP):
        step.run()
    before = reset_peak(device)
    step.run()
    return {"bytes": peak_bytes(device) - before}


def one(name: str, size: str, tokens: int, precision: str, device: str, rounds: int) -> dict:
    work = Workload.named(size, tokens, precision)
    return turns(name, work, device, rounds) if rounds else peak(name, work, device)


def compare(size: str, names: list[str], tokens: int, device: str, rounds: int) -> list[dict]:
    own = Workload.named(size).training
    precision = own.precision if device == "cuda" else "float32"
    tokens = min(tokens, own.tokens_per_step)
    rows, base = [], None
    for name in names:
        timed = apart(__file__, name, size, tokens, precision, device, rounds)
        taken = apart(__file__, name, size, tokens, precision, device, 0, bare=True)
        row = {"size": size, "tokens": tokens, "precision": precision, "objective": name}
        row |= dict.fromkeys(("seconds", "time_to_mle", "counting_share", "MB", "memory_to_mle"), "")
        if "error" not in timed | taken:
            base = taken["bytes"] if name == "mle" else base
            ratio = median(own / mle for own, mle in zip(timed["own"], timed["mle"], strict=True))
            row |= {
                "seconds": f"{min(timed['own']):.4f}",
                "time_to_mle": f"{ratio:.3f}",
                "MB": round(taken["bytes"] / 1e6),
            }
            row |= {"counting_share": f"{min(timed['counting']) / min(timed['own']):.4f}"}
            row |= {"memory_to_mle": f"{taken['bytes'] / base:.3f}" if base else ""}
        rows.append(row | {"note": (timed | taken).get("error", ""), "machine": machine(device)})
        print(rows[-1], flush=True)
    return rows


def main() -> None:
    options = parser(__doc__, rounds=9)
    options.add_argument("--sizes", help="SCALE/TASK/SIZE,... of params.yaml; default: the device's list")
    options.add_argument("--objectives", default=",".join(known()), help="default: all")
    options.add_argument("--tokens", type=int, help="of a step at most")
    arguments = options.parse_args()
    if arguments.one:
        print(json.dumps(one(*json.loads(arguments.one))))
        return
    names = list(dict.fromkeys(["mle", *arguments.objectives.split(",")]))
    for name in names:
        declared(name)  # or an error that names the nearest
    device = arguments.device
    for size in (arguments.sizes or SIZES[device]).split(","):
        rows = compare(size, names, arguments.tokens or TOKENS[device], device, arguments.rounds)
        if arguments.out:  # after each size: a killed run keeps what it has
            keep(rows, arguments.out, ("size", "objective"))


if __name__ == "__main__":
    guarded(main)
