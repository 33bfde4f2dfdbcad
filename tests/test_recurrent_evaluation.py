"""Cache pointer and dynamic evaluation against plain loops in float64, position by position."""

import math
from collections.abc import Iterator
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from tiny.recurrent_trainer import MODELS, N, text

from raretokens.errors import UserError
from raretokens.vocabulary import EOS, PAD
from reproduction.corpora.tokenization.token_files import write_meta
from reproduction.tasks.evaluation import recurrent
from reproduction.tasks.evaluation.job_specs import CachePointer, DynamicEvaluation, RecurrentEvaluation
from reproduction.tasks.evaluation.recurrent import predict_text
from reproduction.training.models.registry import build, stored

DYNAMIC = DynamicEvaluation(models=[], rate=[0.02], decay=[0.3], epsilon=[0.01], length=5, sequences=4, batches=6)


@pytest.fixture(params=MODELS)
def model(request) -> Iterator[torch.nn.Module]:
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    yield build(request.param, MODELS[request.param], N, 1).eval()
    torch.set_default_dtype(torch.float32)


def scores(model, ids: list[int]) -> torch.Tensor:
    """Log-probabilities of what follows the last of the ids, read from their start."""
    return model.log_probabilities(model(torch.tensor([ids])).hidden[0, -1:])[0]


def test_reading_carries_its_state_from_the_first_token_to_the_last(model, monkeypatch):
    monkeypatch.setattr(recurrent, "POSITIONS", 7)
    words = text()[:40]
    found = predict_text(model, words)
    for place in range(40):
        with torch.no_grad():
            expected = scores(model, [EOS, *words[:place]])
        assert found.logprob[place] == pytest.approx(float(expected[words[place]]), rel=1e-6)
        expected[PAD] = -torch.inf
        assert found.prediction[place] == int(expected.argmax())


def test_the_stage_reads_both_texts_with_the_trained_weights(tmp_path):
    name, texts = "awd_lstm", {"valid": text()[:50], "test": text()[50:110]}
    model = build(name, MODELS[name], N, 1).eval()
    save_file(stored(model.state_dict()), tmp_path / "model.safetensors")
    write_meta(tmp_path, {"dtype": "<u2", "vocabulary": N})
    for split, ids in texts.items():
        ids.astype("<u2").tofile(tmp_path / f"{split}.bin")
    run = SimpleNamespace(name="mle", architecture=name, shape=MODELS[name])
    recurrent.write_predictions(SimpleNamespace(run=run, evaluation=RecurrentEvaluation()), tmp_path, tmp_path, tmp_path)
    for split, ids in texts.items():
        np.testing.assert_allclose(np.load(tmp_path / f"plain-{split}.npy"), predict_text(model, ids).logprob, rtol=1e-5)
    assert (np.load(tmp_path / "prediction.npy") == predict_text(model, texts["test"]).prediction).all()


def test_a_training_text_shorter_than_the_batches_of_dynamic_evaluation_is_refused(tmp_path):
    name = "awd_lstm"
    save_file(stored(build(name, MODELS[name], N, 1).state_dict()), tmp_path / "model.safetensors")
    write_meta(tmp_path, {"dtype": "<u2", "vocabulary": N})
    for split, length in (("train", 3), ("valid", 50), ("test", 50)):
        text()[:length].astype("<u2").tofile(tmp_path / f"{split}.bin")
    run = SimpleNamespace(name="mle", architecture=name, shape=MODELS[name])
    job = SimpleNamespace(run=run, evaluation=RecurrentEvaluation(dynamic=DYNAMIC))
    with pytest.raises(UserError, match="^recurrent.evaluation.dynamic.sequences: 4 is more than the 3 .*; allowed: at most 3$"):
        recurrent.write_predictions(job, tmp_path, tmp_path, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_cache_pointer_is_its_formula(model, monkeypatch):
    """p = weight * p_cache + (1 - weight) * p_model, the cache summed over the window; silent before a whole one."""
    monkeypatch.setattr(recurrent, "ROWS", 9)
    words, window, theta, weight = text()[:60], 8, 0.7, 0.3
    found = predict_text(model, words)
    mixed = recurrent.cache_logprob(found, words, recurrent.CacheSettings(window, theta, weight))
    states = found.states.double().numpy()
    for place in range(60):
        expected = math.exp(float(found.logprob[place]))
        if place >= window:
            remembered = range(place - window, place)
            near = {i: math.exp(theta * float(states[place] @ states[i])) for i in remembered}
            of_cache = sum(near[i] for i in remembered if words[i] == words[place]) / sum(near.values())
            expected = weight * of_cache + (1 - weight) * expected
        assert math.exp(float(mixed[place])) == pytest.approx(expected, rel=1e-5)


def test_the_settings_of_a_cache_are_the_best_on_the_text_that_they_are_chosen_on(model):
    words = text()[:200]
    found, declared = predict_text(model, words), CachePointer(models=[], window=[5, 50], theta=[0.1, 1.0], weight=[0.05, 0.5])
    chosen = recurrent.choose_cache(found, words, declared)
    nll = {
        (window, theta, weight): -recurrent.cache_logprob(found, words, recurrent.CacheSettings(window, theta, weight)).mean(
            dtype=float
        )
        for window in declared.window
        for theta in declared.theta
        for weight in declared.weight
    }
    assert tuple(chosen) == min(nll, key=nll.get)


def test_statistics_are_those_of_the_training_text_read_in_order(model):
    words = text()[:400]
    rms = recurrent.gradient_rms(model, words, DYNAMIC)
    sums, carried = [torch.zeros_like(weight) for weight in model.parameters()], None
    columns = torch.from_numpy(words.reshape(4, 100))
    inputs = torch.cat((torch.tensor([[EOS], *[[row[-1]] for row in columns[:-1]]]), columns[:, :-1]), dim=1)
    for start in range(0, 30, 5):
        output = model(inputs[:, start : start + 5], carried)
        carried = output.carried
        scored = model.log_probabilities(output.hidden.flatten(0, 1))
        loss = torch.nn.functional.nll_loss(scored, columns[:, start : start + 5].flatten())
        for total, gradient in zip(sums, torch.autograd.grad(loss, list(model.parameters())), strict=True):
            total += gradient**2
    for total, found in zip(sums, rms, strict=True):
        torch.testing.assert_close(found, (total / 6).sqrt())


def test_dynamic_evaluation_is_its_formula_and_leaves_the_weights_as_they_were(model):
    words = text()[:23]  # the last segment is shorter
    weights = list(model.parameters())
    trained = [weight.detach().clone() for weight in weights]
    rms = recurrent.gradient_rms(model, text()[100:500], DYNAMIC)
    found = recurrent.dynamic_logprob(model, words, rms, recurrent.DynamicSettings(0.02, 0.3, 0.01), 5)
    assert all(torch.equal(weight, start) for weight, start in zip(weights, trained, strict=True))
    mean, logprob, carried = float(torch.cat([part.flatten() for part in rms]).mean()), [], None
    for start in range(0, 23, 5):
        ids, targets = [EOS, *words][start : start + 5], torch.from_numpy(words[start : start + 5])
        output = model(torch.tensor([ids[: len(targets)]]), carried)
        carried = output.carried
        scored = model.log_probabilities(output.hidden[0])[torch.arange(len(targets)), targets]
        logprob += scored.tolist()
        for weight, before, part, gradient in zip(
            weights, trained, rms, torch.autograd.grad(-scored.mean(), weights), strict=True
        ):
            back = 0.3 * (part / mean).clamp(max=1 / 0.3) * (before - weight.data)
            weight.data = weight.data - 0.02 * gradient / (part + 0.01) + back
    np.testing.assert_allclose(found, logprob, rtol=1e-6)
    assert not all(torch.equal(weight, before) for weight, before in zip(weights, trained, strict=True))


def test_a_run_is_evaluated_as_its_size_asks():
    whole = RecurrentEvaluation(pointer=CachePointer(models=["a"], window=[1], theta=[1.0], weight=[0.5]), dynamic=DYNAMIC)
    assert whole.for_size("a") == RecurrentEvaluation(pointer=whole.pointer) and whole.for_size("b") == RecurrentEvaluation()
