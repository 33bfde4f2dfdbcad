"""What a run was: its model, its training and its decoding, as the hyper-parameter tables list them."""

from typing import Any

from raretokens.config import Parameters
from raretokens.metrics.artifacts import Artifacts

SIZE = ("layers", "width", "heads", "feedforward", "dropout", "attention_dropout", "activation")
TRAINING = ("updates", "tokens_per_update", "peak_lr", "warmup", "weight_decay", "label_smoothing")


def identity(artifacts: Artifacts) -> dict[str, Any]:
    run = artifacts.run
    return {"run": run.name, "task": run.task, "objective": run.objective, "size": run.size, "seed": run.seed}


def hyperparameters(parameters: Parameters, artifacts: Artifacts) -> list[list]:
    """[name, value] pairs; vocabulary is the number of rows of the table, parameters that of trained numbers."""
    run = artifacts.run
    task, training = parameters.task(run.task), parameters.training(run)
    facts = {name: getattr(task.sizes[run.size], name) for name in SIZE}
    facts |= {"vocabulary": len(artifacts.vocabulary), "parameters": artifacts.summary["parameters"]}
    facts |= {name: getattr(training, name) for name in TRAINING}
    if run.task == "nmt":
        facts |= {"beam": parameters.nmt.decoding.beam, "length_penalty": parameters.nmt.decoding.length_penalty}
    return [[name, value] for name, value in {**facts, "precision": training.precision}.items()]
