"""Greedy continuations of the test text by a language model, by CTranslate2: keys and values are kept from step to step."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

import ctranslate2
import numpy as np
from torch import nn

from raretokens.decoding.devices import best_device
from raretokens.decoding.export import export_language_model
from raretokens.decoding.job import Continuation
from raretokens.errors import UserError
from raretokens.subword.vocabulary import EOS, PAD


def continuations(
    model: nn.Module,
    activation: str,
    text: np.ndarray,
    declared: Continuation,
    threads: int,
    further: Sequence[int] = (),
) -> np.ndarray:
    """Ids that follow greedily on prefixes which are spread evenly over the text (AGG table 14): samples x length, int32.

    further: where prefixes begin whose continuations are wanted too, as further rows. </s> is a token like any other and ends
    nothing; <pad> is never chosen. Raises UserError where the text is too short.
    """
    prefix, length = declared.prefix, declared.length
    stride = (len(text) - prefix - length) // declared.samples
    if stride < 1:
        raise UserError(
            f"lm.probe.continuation: the test text has only {len(text)} tokens; take fewer or shorter samples"
        )
    # As in training, the first input is the </s> before the text.
    starts = [*(i * stride for i in range(declared.samples)), *further]
    rows = [[EOS, *text[start : start + prefix].tolist()] for start in starts]
    with tempfile.TemporaryDirectory() as folder:
        pieces = export_language_model(model, activation, Path(folder))
        generator = ctranslate2.Generator(
            folder, device=best_device(), compute_type="float32", inter_threads=1, intra_threads=threads
        )
        # Before min_length the end token cannot be chosen: so <pad> is shut out, and the length is the same everywhere.
        results = generator.generate_batch(
            [[pieces[i] for i in row] for row in rows],
            min_length=length,
            max_length=length,
            end_token=pieces[PAD],
            include_prompt_in_result=False,
        )
    return np.array([result.sequences_ids[0] for result in results], dtype=np.int32)
