"""A language model on the test text: log-probabilities, predictions and continuations, for scoring."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from safetensors.torch import load_file

from raretokens.decoding.continuation import continuations
from raretokens.decoding.job import ProbeJob
from raretokens.decoding.windows import teacher_forced
from raretokens.files import whole
from raretokens.models.building import build
from raretokens.subword.printed_prefixes import located
from raretokens.subword.streams import read_meta, tokens
from raretokens.subword.vocabulary import RARE, VOCABULARY, Vocabulary


class Probed(NamedTuple):
    logprob: np.ndarray  # of each test token, natural logarithm, float32
    prediction: np.ndarray  # most probable id at each position, int32
    rare: np.ndarray  # logarithm of the probability of the rare group at each position, float32
    continuation: np.ndarray  # samples x length, int32
    located: np.ndarray | None  # the same of the printed prefixes that the text has; None where it has none


def probe(job: ProbeJob, folder: Path, trained: Path, into: Path) -> None:
    """Write the trained model's log-probabilities, predictions and continuations of the test text, an array a file.

    folder: of the token files."""
    probed = language_model(job, folder, trained / "model.safetensors")
    for what, values in probed._asdict().items():
        if values is None:
            continue
        with whole(into / f"{what}.npy") as part, open(part, "wb") as file:
            np.save(file, values)
    nll = -probed.logprob.mean(dtype=float)
    print(f"probe {job.run.name}: {len(probed.logprob):,} test tokens, mean NLL {nll:.4f}")


def language_model(job: ProbeJob, folder: Path, checkpoint: Path) -> Probed:
    run, asked = job.run, job.probe
    longest = max(asked.window, asked.block, 1 + asked.continuation.prefix + asked.continuation.length)
    model = build(run.architecture, run.shape, read_meta(folder)["vocabulary"], longest)
    model.load_state_dict(load_file(checkpoint))
    text = tokens(folder, "test")
    needed, samples = asked.continuation.prefix + asked.continuation.length, asked.continuation.samples
    vocabulary = Vocabulary.read(folder / VOCABULARY)
    printed = [*located(text, vocabulary.pieces, needed).values()]
    continued = continuations(model, run.shape.get("activation"), text, asked.continuation, job.threads, printed)
    spread, of_printed = continued[:samples], continued[samples:] if printed else None
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    rare = vocabulary.groups(job.groups.model_dump()) == RARE
    read = teacher_forced(model.to(device).eval(), text, asked, rare)
    return Probed(*read, spread, of_printed)
