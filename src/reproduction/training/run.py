"""Training of one run, from token files to a trained model."""

from pathlib import Path
from types import ModuleType

import torch
from accelerate import Accelerator
from accelerate.utils import DistributedDataParallelKwargs

from raretokens.errors import UserError
from raretokens.files import failure
from raretokens.loss.facts import Facts, facts
from raretokens.objectives.registry import build as build_objective
from raretokens.vocabulary import PAD, RARE, SPECIALS, VOCABULARY, Vocabulary
from reproduction.training.batches import StepData, check_size
from reproduction.training.criterion import Criterion
from reproduction.training.loop import Trainer
from reproduction.training.models.registry import build, compiles, load_weights
from reproduction.training.recipe import Execution, Observer, TrainJob
from reproduction.training.saving import Outputs
from reproduction.training.state import State, fingerprint

COMPILER = "inductor"  # backend of torch.compile
FLOAT32_PRODUCTS = "ieee"  # on a GPU: "ieee" or "tf32", which has 10 bits of mantissa
WEIGHTS = "model.safetensors"


def train(
    job: TrainJob,
    job_spec: bytes,
    task: ModuleType,
    execution: Execution,
    observer: Observer,
    tokens: Path,
    scratch: Path,
    into: Path,
    start: Path | None = None,
) -> None:
    """Train a run and write model.safetensors, log.tsv and other files to `into`.

    Args:
        job: run, training settings and frequency groups.
        job_spec: serialised job spec including the code version. An interrupted run with the same spec resumes from its last
            saved state.
        task: module of the run's task.
        execution: settings of the machine.
        observer: receives the progress.
        tokens: folder of the token files.
        scratch: folder of the resumable states.
        into: output folder.
        start: folder of the run that provides the initial weights; None: random weights.
    """
    run, training = job.run, job.training
    torch.manual_seed(run.seed)
    vocabulary = Vocabulary.read(tokens / VOCABULARY, run.reverse)
    data, validation = task.training_data(job, tokens)
    check_size(data, run.task, training.tokens_per_step)
    model = build(run.architecture, run.shape, len(vocabulary), training.block)
    if start:
        try:
            load_weights(model, start / WEIGHTS)
        except RuntimeError as error:
            raise UserError(f"{start / WEIGHTS}: weights of another model; {' '.join(str(error).split())}") from None
    objective = build_objective(run.objective, _facts(job, vocabulary, data, model.embedding.shape[1]), **run.options)
    accelerator = process(training.precision, execution, run.architecture)
    rank = accelerator.process_index
    read = [*tokens.glob("*.bin"), tokens / VOCABULARY, *([start / WEIGHTS] if start else [])]
    mark = fingerprint(job_spec + torch.__version__.encode(), sorted(read))
    state = State(scratch / f"{run.task}-{run.name}-{mark}", rank)
    torch.manual_seed(run.seed + 1000 * rank)  # processes see different sequences and need different dropout masks
    about = {"parameters": sum(p.numel() for p in model.parameters()), "updates_per_epoch": data.steps_per_epoch}
    about |= float32_products(accelerator.device)
    outputs = Outputs(into, about | objective.about(), rank == 0)
    criterion = getattr(task, "criterion", Criterion)(model, objective)
    trainer = Trainer(
        f"{run.task}/{run.name}", model, objective, training, data, validation, state, execution, accelerator, outputs,
        observer, criterion,
    )  # fmt: skip
    for line in objective.remarks():
        observer.remarked(line)
    to_the_end(trainer)
    accelerator.wait_for_everyone()
    state.remove()


def to_the_end(trainer: Trainer) -> None:
    """Train and write the outputs. Raises UserError, which describes the saved state, on an interrupt or a system error."""
    try:
        trainer.run()
        trainer.finish()
    except KeyboardInterrupt:
        why = "stopped"
    except OSError as error:
        why = failure(error)
    else:
        return
    raise UserError(f"{trainer.name}: {why}; {trainer.state.left()}; start again to resume")


def process(precision: str, execution: Execution, architecture: str) -> Accelerator:
    """Return the Accelerator of this process, with its device and its rank among the processes of the run."""
    has_gpu, is_compiled = torch.cuda.is_available(), execution.compile
    if is_compiled == "auto":
        is_compiled = has_gpu and compiles(architecture)
    return Accelerator(
        mixed_precision="bf16" if precision == "bfloat16" else "no",
        cpu=not has_gpu,
        dynamo_backend=COMPILER if is_compiled else "no",
        # Buffers are constant (positions), except in models with batch normalisation, which train on one process.
        kwargs_handlers=[DistributedDataParallelKwargs(broadcast_buffers=False)],
    )


def float32_products(device: torch.device) -> dict[str, str]:
    """Set the arithmetic of float32 products, convolutions and recurrent layers on a GPU, and return its entry of training.json.

    Torch's defaults differ between these operations. On other devices nothing is set, because there is only one arithmetic.
    """
    if device.type != "cuda":
        return {}
    operations = torch.backends.cuda.matmul, torch.backends.cudnn.conv, torch.backends.cudnn.rnn
    for operation in operations:
        operation.fp32_precision = FLOAT32_PRODUCTS
    return {"float32_products": FLOAT32_PRODUCTS}


def _facts(job: TrainJob, vocabulary: Vocabulary, data: StepData, width: int) -> Facts:
    return facts(
        torch.from_numpy(vocabulary.target_counts),
        width=width,
        steps_per_epoch=data.steps_per_epoch,
        rare=torch.from_numpy(vocabulary.frequency_groups(job.groups) == RARE),
        types=vocabulary.types,
        specials=len(SPECIALS),
        pad=PAD,
        label_smoothing=job.training.label_smoothing,
        order=torch.arange(len(vocabulary)),  # ids are sorted by the counts of source and target together
    )
