"""One file an architecture; each has a `table` parameter and maps ids to final hidden states."""

import torch
from torch import nn

from raretokens.config import Shape
from raretokens.subword.vocabulary import PAD

# The fused inference kernels round differently from the training graph; probes must see the trained function.
torch.backends.mha.set_fastpath_enabled(False)


def build(task: str, size: Shape, vocabulary: int, positions: int) -> nn.Module:
    """Freshly initialised model of a task: `lm` a decoder, `nmt` an encoder-decoder. positions: the longest sequence."""
    shape = size.model_dump(include=set(Shape.model_fields))
    # Imported where it is used: a run depends on the file of its own architecture alone.
    if task == "lm":
        from raretokens.models.decoder import Decoder

        return Decoder(vocabulary, positions=positions, **shape)
    from raretokens.models.encoder_decoder import EncoderDecoder

    return EncoderDecoder(vocabulary, positions=positions, pad=PAD, **shape)
