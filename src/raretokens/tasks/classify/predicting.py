"""What a classifier of documents is asked."""

from pathlib import Path

import numpy as np
import torch
from torch import nn

from raretokens.evaluation.predict import TOKENS_AT_ONCE
from raretokens.tokenization.token_files import labels_of, tokens
from raretokens.training.document_batches import Documents


@torch.no_grad()
def log_probabilities(model: nn.Module, folder: Path, block: int) -> np.ndarray:
    """Test documents x classes, natural logarithm, float32."""
    test = Documents(tokens(folder, "test"), labels_of(folder, "test"), block)
    found = [
        model(batch.inputs[0].to(model.table.device))[:, 0].float().log_softmax(1).cpu().numpy()
        for batch in test.everything(TOKENS_AT_ONCE)
    ]
    by_length = np.concatenate(found)
    ordered = np.empty_like(by_length)
    ordered[test.by_length] = by_length
    return ordered
