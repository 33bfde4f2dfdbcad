"""The real training loop on tiny documents and images with a class each."""

from pathlib import Path

import numpy as np
import torch

from raretokens.objectives.registry import build
from raretokens.vocabulary import EOS, PAD, SPECIALS, VOCABULARY, Vocabulary
from reproduction.corpora.tokenization import token_files as streams
from reproduction.corpora.tokenization.settings import Groups
from reproduction.run import Run
from reproduction.tasks import load
from reproduction.training.criterion import Criterion
from reproduction.training.loop import Trainer
from reproduction.training.models.registry import build as build_model
from reproduction.training.recipe import Execution, RuleChoice, Training
from reproduction.training.recipe import TrainJob as Job
from reproduction.training.run import process
from reproduction.training.saving import Outputs
from reproduction.training.state import State
from tests.tiny import trainer

N, CLASSES, PIXELS = trainer.N, 3, 16
SHAPES = {
    "classify": {"width": 16, "context": 5, "channels": 4, "classes": CLASSES},
    "images": {"channels": 2, "width": 16},
}
ARCHITECTURES = {"classify": "rcnn", "images": "cnn"}


def write_tokens(folder: Path) -> None:
    """60 documents of 1 to 9 words and 60 images a split, of random classes; token files of both tasks in a folder each."""
    random = np.random.default_rng(0)
    for task in SHAPES:
        (folder / task).mkdir()
        for split in ("train", "valid", "test"):
            classes = random.integers(0, CLASSES, 60)
            texts = [np.append(random.integers(4, N - 2, random.integers(1, 10)), EOS) for _ in classes]
            if task == "images":
                texts = [np.array([len(SPECIALS) + one, EOS]) for one in classes]
                random.integers(0, 256, (60, PIXELS)).astype(np.uint8).tofile(folder / task / f"{split}.images.bin")
            else:
                classes.astype("<u2").tofile(folder / task / f"{split}.labels.bin")
            np.concatenate(texts).astype("<u2").tofile(folder / task / f"{split}.bin")
        names = (*SPECIALS, *map(str, range(len(SPECIALS), N - 2)), "<filler0>", "<filler1>")
        Vocabulary(names, *np.ones((2, N), int), fillers=2).write(folder / task / VOCABULARY)
        streams.write_meta(folder / task, {"dtype": "<u2", "classes": ["a", "b", "c"], "pixels": PIXELS})


def classifier(folder: Path, task: str, name: str, *, dropout: float = 0.0, dtype: torch.dtype = torch.float64,
               micro_batch: int = 10_000, save_updates: int = 0, **options: object) -> Trainer:  # fmt: skip
    """A trainer of an objective; floats are of `dtype`. An update has eight documents or images."""
    torch.set_default_dtype(dtype)
    torch.manual_seed(1)
    recipe = Training(**trainer.TRAINING | {"steps": 10, "tokens_per_step": 8 * PIXELS, "block": PIXELS,
                      "validate_every": 5, "rule": RuleChoice(name="adam")})  # fmt: skip
    shape = SHAPES[task] | {"dropout": dropout}
    run = Run(name=name, task=task, tokens=task, objective=name, model="tiny", architecture=ARCHITECTURES[task],
              shape=shape, seed=1, options=options)  # fmt: skip
    job, file = Job(run=run, training=recipe, groups=Groups(fractions=[0.3, 0.5, 0.2])), load(task)
    execution = Execution(micro_batch, save_updates=save_updates)
    accelerator = process(recipe.precision, execution, run.architecture)
    model = build_model(run.architecture, shape, N, PIXELS)
    objective = build(name, trainer.facts(folder), **options)
    state = State(folder / f"scratch/{task}-{name}")
    outputs = Outputs(folder / "out" / name, {"parameters": 9})
    return trainer.recorded(
        Trainer(f"{task}/{name}", model, objective, recipe, *file.training_data(job, folder / task), state, execution,
                accelerator, outputs, criterion=getattr(file, "criterion", Criterion)(model, objective)))  # fmt: skip


def padded(rows: list[list[int]], length: int) -> torch.Tensor:
    return torch.tensor([row + [PAD] * (length - len(row)) for row in rows])
