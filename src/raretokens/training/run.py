"""One line of the run sheet, from token files to a trained model."""

from pathlib import Path

import numpy as np
import torch
from accelerate import Accelerator

from raretokens import config, objectives
from raretokens.models import build
from raretokens.models.flops import flops_per_token
from raretokens.subword.bpe import VOCABULARY
from raretokens.subword.streams import Bitext, tokens
from raretokens.subword.vocabulary import PAD, RARE, SPECIALS, Vocabulary
from raretokens.training.batches import Blocks, Pairs, check_size
from raretokens.training.loop import Trainer
from raretokens.training.machine import FILE, Machine
from raretokens.training.objective import Facts
from raretokens.training.outputs import Outputs
from raretokens.training.state import Folder, fingerprint

CODE = Path(__file__).parents[1]
COMPILER = "inductor"  # of torch.compile


def train(parameters: config.Parameters, run: config.Run, settings: Machine, folder: Path, into: Path) -> dict:
    """Train the run on the token files of `folder` and write model.safetensors, log.tsv and training.json to `into`.

    A run that was interrupted goes on where its state was last saved. Returns facts about the speed.
    """
    task = parameters.task(run.task)
    training = parameters.training(run)
    torch.manual_seed(run.seed)
    vocabulary = Vocabulary.read(folder / VOCABULARY)
    vocabulary = vocabulary.reversed() if run.reverse else vocabulary
    updates, validation = _data(run, training, folder)
    check_size(updates, run.task, training.tokens_per_update)
    size = task.sizes[run.size]
    model = build(run.task, size, len(vocabulary), training.block)
    rare = vocabulary.groups(parameters.groups(run).model_dump()) == RARE
    known = _facts(vocabulary, rare, updates, size.width, training.label_smoothing)
    objective = objectives.build(run.objective, known, **run.options)
    accelerator = process(training.precision, settings)
    rank = accelerator.process_index
    scratch = Folder(f"{run.task}-{run.name}", _mark(parameters, run, folder), rank=rank)
    torch.manual_seed(run.seed + 1000 * rank)  # processes see other sequences, so they draw other dropout masks
    facts = {"parameters": sum(p.numel() for p in model.parameters()), "updates_per_epoch": updates.updates_per_epoch}
    outputs = Outputs(into, facts, rank == 0)
    work = flops_per_token(run.task, size, len(vocabulary), round(updates.length))
    name = f"{run.task}/{run.name}"
    trainer = Trainer(
        name, model, objective, training, updates, validation, scratch, settings, accelerator, outputs, work
    )
    speed = _trained(trainer)
    trainer.finish()
    accelerator.wait_for_everyone()
    if rank == 0:
        scratch.remove()
    return speed


def process(precision: str, settings: Machine) -> Accelerator:
    """This process among those of its run, on its device."""
    return Accelerator(
        mixed_precision="bf16" if precision == "bfloat16" else "no",
        cpu=not torch.cuda.is_available(),
        dynamo_backend=COMPILER if settings.compile else "no",
    )


def _trained(trainer: Trainer) -> dict:
    try:
        return trainer.run()
    except torch.OutOfMemoryError:
        tokens = trainer.machine.micro_batch
        raise config.UserError(
            f"{FILE}: micro_batch: {tokens} tokens do not fit into the GPU's memory; allowed: fewer"
        ) from None


def _data(run: config.Run, training: config.Training, folder: Path) -> tuple[Blocks | Pairs, Blocks | Pairs]:
    block, first = training.block, training.validation_tokens
    if run.task == "lm":
        train_part = Blocks(tokens(folder, "train"), block, training.tokens_per_update, run.seed)
        return train_part, Blocks(tokens(folder, "valid"), block, first=first)
    train_part = Pairs(Bitext(folder, "train", run.reverse), block, training.tokens_per_update, run.seed)
    return train_part, Pairs(Bitext(folder, "valid", run.reverse), block, first=first)


def _facts(vocabulary: Vocabulary, rare: np.ndarray, updates: Blocks | Pairs, width: int, smoothing: float) -> Facts:
    return Facts(
        counts=torch.from_numpy(vocabulary.target_counts),
        rare=torch.from_numpy(rare),
        types=vocabulary.types,
        specials=len(SPECIALS),
        pad=PAD,
        updates_per_epoch=updates.updates_per_epoch,
        width=width,
        label_smoothing=smoothing,
    )


def _mark(parameters: config.Parameters, run: config.Run, folder: Path) -> str:
    task = parameters.task(run.task)
    resolved = {
        "run": vars(run),
        "training": parameters.training(run).model_dump(),
        "groups": parameters.groups(run).model_dump(),
        "size": task.sizes[run.size].model_dump(),
        "torch": torch.__version__,
    }
    model = {"lm": "decoder", "nmt": "encoder_decoder"}[run.task]
    code = [
        *(CODE / "training").glob("*.py"),
        CODE / "models/positions.py",
        CODE / f"models/{model}.py",
        CODE / f"objectives/{run.objective}.py",
    ]
    return fingerprint(resolved, sorted([*folder.glob("*.bin"), folder / VOCABULARY, *code]))
