"""CTranslate2 is the training graph: same log-probabilities, and the best translations that there are."""

import ctypes
from functools import partial
from pathlib import Path
from runpy import run_path

import ctranslate2
import numpy as np
import pytest
import torch
from references.beam_search import PENALTIES, beam_search, exhaustive

from raretokens.errors import UserError
from raretokens.loss.terms import Head
from raretokens.vocabulary import EOS, PAD, SPECIALS
from reproduction.tasks.evaluation.ctranslate2_models import best_device, checked_compute_type, export
from reproduction.tasks.evaluation.job_specs import Continuation, Decoding, LanguageModelEvaluation
from reproduction.tasks.evaluation.language_model import continuations, teacher_forced
from reproduction.tasks.evaluation.translate import open_translator, search
from reproduction.training.example_batches import padded
from reproduction.training.models.registry import build

ROOT = Path(__file__).parents[1]
PIECES = (*SPECIALS, *(f"piece{i}" for i in range(36)))
RNG = np.random.default_rng(0)


def shape(layers: int, width: int, activation: str, dropout: float = 0.0) -> dict:
    sizes = {"layers": layers, "width": width, "heads": width // 8, "feedforward": 2 * width}
    return {**sizes, "dropout": dropout, "attention_dropout": dropout, "activation": activation}


def sentence() -> np.ndarray:
    return np.append(RNG.integers(len(SPECIALS), len(PIECES), RNG.integers(2, 12)), EOS)


@pytest.fixture(scope="module", params=["relu", "gelu"])
def pair(request, tmp_path_factory):
    torch.manual_seed(1)
    model = build("encoder_decoder", shape(2, 32, request.param, dropout=0.1), len(PIECES), 64).eval()
    folder = tmp_path_factory.mktemp("ct2")
    export(model, PIECES, request.param, folder)
    return model, ctranslate2.Translator(str(folder), compute_type="float32")


def test_log_probabilities_equal_those_of_the_training_graph(pair):
    model, translator = pair
    pairs = [(sentence(), sentence()) for _ in range(16)]
    sources, targets = ([row[side] for row in pairs] for side in (0, 1))
    inputs = [np.append([EOS], target[:-1]) for target in targets]
    with torch.no_grad():
        logits = model(padded(sources), padded(inputs)) @ model.embedding.T
    scores = translator.score_batch(
        [[PIECES[i] for i in source] for source in sources], [[PIECES[i] for i in target[:-1]] for target in targets]
    )
    for row, target, score in zip(logits.log_softmax(-1), targets, scores, strict=True):
        expected = row[torch.arange(len(target)), torch.from_numpy(target)]
        assert np.abs(expected.numpy() - np.array(score.log_probs)).max() < 1e-4


LETTERS = (*SPECIALS, *"abcd")
LONGEST = 14
FORMS = [("fairseq", 0.6), ("gnmt", 0.6), ("gnmt", 1.1)]


def reversal(longest: int) -> tuple[np.ndarray, np.ndarray]:
    """Letters and their reversal, in which some are lost or changed: translations that a model is in doubt about."""
    source = RNG.integers(len(SPECIALS), len(LETTERS), RNG.integers(1, longest + 1))
    kept = source[::-1][RNG.random(len(source)) < 0.85]
    changed = len(SPECIALS) + (kept - len(SPECIALS) + (RNG.random(len(kept)) < 0.25)) % 4
    return np.append(source, EOS), np.append(changed, EOS)


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> tuple[torch.nn.Module, Path]:
    torch.manual_seed(0)
    model = build("encoder_decoder", shape(1, 32, "relu"), len(LETTERS), 64)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(200):
        sources, targets = zip(*(reversal(LONGEST - 2) for _ in range(64)), strict=True)
        hidden = model(padded(sources), padded([np.append(EOS, target[:-1]) for target in targets]))
        logits = (hidden @ model.embedding.T).flatten(0, 1)
        torch.nn.functional.cross_entropy(logits, padded(targets).flatten(), ignore_index=PAD).backward()
        optimizer.step()
        optimizer.zero_grad()
    folder = tmp_path_factory.mktemp("trained")
    export(model.eval(), LETTERS, "relu", folder)
    return model, folder


def translations(
    folder: Path, sources: list[list[int]], longest: int, form: str, alpha: float, batch: int = 256, threads: int = 1
) -> list[list[int]]:
    translator = open_translator(folder, "cpu", "float32", threads)
    rows = [[LETTERS[i] for i in source] for source in sources]
    best = search(translator, rows, Decoding(beam=4, length_penalty=alpha, length_penalty_form=form), longest, batch)
    return [[LETTERS.index(piece) for piece in row] for row in best]


def agreement(translated: list, expected: list) -> float:
    return float(np.mean([one == other for one, other in zip(translated, expected, strict=True)]))


def test_the_best_of_all_translations_is_found(trained):
    """Of all translations up to 4 pieces, on a test set; and the two forms of the length penalty choose differently."""
    model, folder = trained
    sources, best = [reversal(3)[0].tolist() for _ in range(200)], {}
    for form, alpha in FORMS:
        penalty = partial(PENALTIES[form], alpha=alpha)
        best[form, alpha] = [exhaustive(model, source, 4, penalty) for source in sources]
        assert agreement(translations(folder, sources, 4, form, alpha), best[form, alpha]) >= 0.99
    assert agreement(best["fairseq", 0.6], best["gnmt", 0.6]) < 0.99


@pytest.mark.parametrize("form, alpha", FORMS)
def test_longer_translations_equal_those_of_a_plain_beam_search(trained, form, alpha):
    model, folder = trained
    sources = [reversal(LONGEST - 2)[0].tolist() for _ in range(100)]
    penalty, enough = partial(PENALTIES[form], alpha=alpha), 4 if form == "fairseq" else 8
    expected = [beam_search(model, source, LONGEST, penalty, 4, enough) for source in sources]
    translated = translations(folder, sources, LONGEST, form, alpha)
    assert agreement(translated, expected) >= 0.99
    assert translations(folder, sources, LONGEST, form, alpha, batch=16, threads=2) == translated


def test_arithmetic_is_that_which_was_asked_for_or_an_error(trained, monkeypatch):
    assert open_translator(trained[1], "cpu", checked_compute_type("int8", "cpu"), 1).compute_type.startswith("int8")
    monkeypatch.setattr(ctranslate2, "get_supported_compute_types", lambda device: {"float32", "int8", "int8_float32"})
    message = r"^nmt.decoding.compute_type: 'bfloat16': this cpu does not have it; allowed here: float32, int8$"
    with pytest.raises(UserError, match=message):
        checked_compute_type("bfloat16", "cpu")


def test_a_gpu_without_its_library_is_one_line(monkeypatch):
    def absent(*_, **__):
        raise OSError

    monkeypatch.setattr(ctranslate2, "get_cuda_device_count", lambda: 1)
    monkeypatch.setattr(ctypes, "CDLL", absent)
    with pytest.raises(
        UserError, match=r"^libcublasLt.so.12: CTranslate2 needs it on a GPU; pip install nvidia-cublas-cu12"
    ):
        best_device()


def test_the_signature_names_what_changes_translations():
    assert Decoding(beam=4, length_penalty=0.6).signature == "beam:4|length-penalty:0.6-fairseq|compute:float32"
    other = Decoding(beam=5, length_penalty=1.0, length_penalty_form="gnmt", compute_type="int8")
    assert other.signature == "beam:5|length-penalty:1-gnmt-of-10-best|compute:int8"


@pytest.mark.parametrize("window, context, block, softcap", [(12, 8, 10, None), (12, 6, 12, 0.5), (8, 0, 5, None)])
def test_each_token_is_scored_and_predicted_once_with_its_context(window, context, block, softcap):
    """Windowed log-probabilities, and predictions in blocks, equal one forward pass a token over exactly its context."""
    torch.manual_seed(2)
    model = build("decoder", shape(1, 16, "relu"), 40, 64).eval()
    text = RNG.integers(4, 40, 53).astype("<u2")
    settings = LanguageModelEvaluation(
        window=window, context=context, block=block, continuation=Continuation(samples=1, prefix=1, length=1)
    )
    rare = np.arange(40) >= 30
    logprob, prediction, of_rare = teacher_forced(model, text, settings, rare, Head(softcap=softcap))
    stream = torch.from_numpy(np.concatenate(([EOS], text)).astype(np.int64))

    def scores(begin: int, place: int) -> torch.Tensor:
        with torch.no_grad():
            logits = model(stream[None, begin : place + 1])[0, -1] @ model.embedding.T
            return softcap * torch.tanh(logits / softcap) if softcap else logits

    for place, token in enumerate(text.tolist()):
        begin = place // (window - context) * (window - context)
        expected = scores(max(begin - context, 0), place).log_softmax(-1)[token]
        assert abs(float(expected) - logprob[place]) < 1e-5
        given = scores(max(begin - context, 0), place).softmax(-1)[torch.from_numpy(rare)].sum()
        assert abs(float(given.log()) - of_rare[place]) < 1e-5
        allowed = scores(place // block * block, place)
        allowed[PAD] = -np.inf
        assert int(allowed.argmax()) == prediction[place]


def greedy(model: torch.nn.Module, ids: list[int], length: int) -> list[int]:
    ids = list(ids)
    for _ in range(length):
        with torch.no_grad():
            scores = model(torch.tensor([ids]))[0, -1] @ model.embedding.T
        scores[PAD] = -np.inf
        ids.append(int(scores.argmax()))
    return ids[-length:]


def test_another_architecture_continues_by_itself():
    torch.manual_seed(2)
    model = run_path(str(ROOT / "docs/examples/architecture/gru.py"))["GRU"](40, 1, 16, 0.1, 64)
    text = np.random.default_rng(0).integers(4, 40, 53).astype("<u2")
    continued = continuations(model, None, text, Continuation(samples=3, prefix=10, length=20), 1)
    rows = [[EOS, *text[start : start + 10].tolist()] for start in (0, 7, 14)]
    assert continued.tolist() == [greedy(model.eval(), row, 20) for row in rows]


@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_continuations_are_greedy_and_start_after_their_prefixes(activation):
    torch.manual_seed(2)
    model = build("decoder", shape(2, 16, activation), 40, 64).eval()
    text = np.random.default_rng(0).integers(4, 40, 53).astype("<u2")
    with torch.no_grad():
        for weight in model.layers.parameters():
            weight *= 1 if weight.dim() == 1 else 4  # enough to move on from a token, now and then
        # Both of them would often be the most probable: <pad> must never come, and </s> ends nothing.
        model.embedding[[PAD, EOS]] = 1.05 * model.embedding[[37, 26]]
    continued = continuations(model, activation, text, Continuation(samples=3, prefix=10, length=20), 1, [30])
    assert continued.shape == (4, 20)
    for start, continuation in zip((0, 7, 14, 30), continued.tolist(), strict=True):
        assert continuation == greedy(model, [EOS, *text[start : start + 10].tolist()], 20)
    assert EOS in continued[:, :-1]
    with pytest.raises(UserError, match="lm.evaluation.continuation: the test text has only 53 tokens"):
        continuations(model, activation, text, Continuation(samples=50, prefix=10, length=5), 1)
