"""The CTranslate2 model is the training graph: same log-probabilities, same translations."""

import ctranslate2
import numpy as np
import pytest
import torch

from raretokens.config import Continuation, Size, UserError
from raretokens.decoding import probe
from raretokens.decoding.export import export
from raretokens.models import build
from raretokens.subword.vocabulary import EOS, PAD, SPECIALS
from raretokens.training.batches import padded

PIECES = (*SPECIALS, *(f"piece{i}" for i in range(36)))
RNG = np.random.default_rng(0)


def sentence() -> np.ndarray:
    return np.append(RNG.integers(len(SPECIALS), len(PIECES), RNG.integers(2, 12)), EOS)


@pytest.fixture(scope="module", params=["relu", "gelu"])
def pair(request, tmp_path_factory):
    torch.manual_seed(1)
    size = Size(
        layers=2, width=32, heads=4, feedforward=64, dropout=0.1, attention_dropout=0.1, activation=request.param
    )
    model = build("nmt", size, len(PIECES), 64).eval()
    folder = tmp_path_factory.mktemp("ct2")
    export(model, PIECES, request.param, folder)
    return model, ctranslate2.Translator(str(folder), compute_type="float32")


def test_log_probabilities_equal_those_of_the_training_graph(pair):
    model, translator = pair
    pairs = [(sentence(), sentence()) for _ in range(16)]
    sources, targets = ([row[side] for row in pairs] for side in (0, 1))
    inputs = [np.append([EOS], target[:-1]) for target in targets]
    with torch.no_grad():
        logits = model(padded(sources), padded(inputs)) @ model.table.T
    scores = translator.score_batch(
        [[PIECES[i] for i in source] for source in sources], [[PIECES[i] for i in target[:-1]] for target in targets]
    )
    for row, target, score in zip(logits.log_softmax(-1), targets, scores, strict=True):
        expected = row[torch.arange(len(target)), torch.from_numpy(target)]
        assert np.abs(expected.numpy() - np.array(score.log_probs)).max() < 1e-4


def test_padding_does_not_change_hidden_states(pair):
    model, _ = pair
    source, target = sentence(), sentence()
    longer = np.append(source, [PAD] * 5)
    with torch.no_grad():
        alone = model(padded([source]), padded([target]))
        beside = model(padded([longer]), padded([target]))
    torch.testing.assert_close(alone, beside, atol=1e-5, rtol=1e-5)


def test_windows_score_each_token_once_with_its_context():
    """The windowed log-probabilities equal one forward pass a token over exactly its context."""
    size = Size(layers=1, width=16, heads=2, feedforward=32, dropout=0.0, attention_dropout=0.0, activation="relu")
    torch.manual_seed(2)
    model = build("lm", size, 40, 64).eval()
    text, window, context = RNG.integers(4, 40, 53).astype("<u2"), 12, 8
    found = np.full(len(text), np.nan)
    for starts, ends, logits in probe._scored(model, text, window, context, torch.device("cpu")):
        for row, (start, end) in enumerate(zip(starts, ends, strict=True)):
            new = logits[row, : end - start].log_softmax(-1)
            assert np.isnan(found[start:end]).all()
            found[start:end] = new[torch.arange(end - start), torch.from_numpy(text[start:end].astype(np.int64))]
    stream = np.concatenate(([EOS], text)).astype(np.int64)
    for place in range(len(text)):
        begin = place // (window - context) * (window - context)
        inputs = torch.from_numpy(stream[max(begin - context, 0) : place + 1])
        with torch.no_grad():
            expected = (model(inputs[None])[0, -1] @ model.table.T).log_softmax(-1)[int(text[place])]
        assert abs(float(expected) - found[place]) < 1e-5


def test_continuations_are_greedy_and_start_after_their_prefixes():
    size = Size(layers=1, width=16, heads=2, feedforward=32, dropout=0.0, attention_dropout=0.0, activation="relu")
    torch.manual_seed(2)
    model = build("lm", size, 40, 64).eval()
    text = RNG.integers(4, 40, 53).astype("<u2")
    found = probe._continued(model, text, Continuation(samples=3, prefix=10, length=5), torch.device("cpu"))
    assert found.shape == (3, 5)
    for start, continuation in zip((0, 12, 24), found.tolist(), strict=True):
        ids = [EOS, *text[start : start + 10].tolist()]
        for expected in continuation:
            with torch.no_grad():
                scores = model(torch.tensor([ids]))[0, -1] @ model.table.T
            scores[PAD] = -np.inf
            ids.append(int(scores.argmax()))
            assert ids[-1] == expected
    with pytest.raises(UserError, match="lm.probe.continuation: the test text has only 53 tokens"):
        probe._continued(model, text, Continuation(samples=50, prefix=10, length=5), torch.device("cpu"))
