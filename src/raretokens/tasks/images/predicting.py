"""What a classifier of images is asked."""

from pathlib import Path

import numpy as np
import torch
from torch import nn

from raretokens.evaluation.predict import TOKENS_AT_ONCE
from raretokens.tokenization.token_files import images_of
from raretokens.tokenization.vocabulary import SPECIALS, VOCABULARY, Vocabulary
from raretokens.training.image_batches import Images


@torch.no_grad()
def log_probabilities(model: nn.Module, folder: Path, block: int) -> np.ndarray:
    """Test images x classes (by id, without markers and fillers), natural logarithm, float32."""
    kept = slice(len(SPECIALS), Vocabulary.read(folder / VOCABULARY).types)
    found = []
    for batch in Images(*images_of(folder, "test")).everything(TOKENS_AT_ONCE):
        features = model(batch.inputs[0].to(model.table.device))[:, 0]
        found.append((features @ model.table.T).float().log_softmax(1)[:, kept].cpu().numpy())
    return np.concatenate(found)
