"""Classifiers: the model against loops in float64, and the contract of training with every objective that applies."""

import json
import math
import shutil
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from tiny import trainer
from tiny.applies import REFUSED, applying
from tiny.classifiers import PIXELS, SHAPES, N, classifier, padded, write_tokens
from tiny.states import stop
from torch import nn

from raretokens.errors import UserError
from raretokens.metrics.predictions import accuracy, bootstrap_accuracy, mean_nll
from reproduction.corpora.tokenization.token_files import read_images, read_labels, read_meta, tokens, write_meta
from reproduction.tasks import classify, images
from reproduction.tasks.evaluation import class_metrics, classification
from reproduction.tasks.evaluation.job_specs import MajorityBaseline
from reproduction.tasks.evaluation.text import documents
from reproduction.training.example_batches import Documents, Images
from reproduction.training.models import cnn, rcnn
from reproduction.training.models.registry import build, stored

RUNS = [(task, name) for task in ("images", "classify") for name in applying(task)]
# Of images the plain objective and three with state of different kinds; test_training has all of them.
STOPPED = [run for run in RUNS if run[0] != "images" or run[1] in ("mle", "agg", "frage", "coupled_adam")]
TEXTS = [[7, 9, 2], [5, 6, 7, 8, 11, 2], [4]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("tokens")
    trainer.write_tokens(path)
    write_tokens(path)
    yield path
    torch.set_default_dtype(torch.float32)


@pytest.fixture
def model():
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(3)
    built = rcnn.RCNN(12, width=3, context=4, channels=5, classes=3, dropout=0.0, positions=9)
    for context in (built.left, built.right):
        nn.init.normal_(context.first)
    yield built
    torch.set_default_dtype(torch.float32)


def test_documents_are_counted_with_and_without_what_is_held_out():
    value, _ = documents({"train": [2, 4], "valid": [12], "test": [6]}, classes=3)
    assert value == {"mean_length": 6.0, "longest": 12, "classes": 3, "train": 3, "test": 1, "without_valid": {
        "mean_length": 4.0, "longest": 6, "classes": 3, "train": 2, "test": 1}}  # fmt: skip


def looped_contexts(model: rcnn.RCNN, words: list[int]) -> torch.Tensor:
    """Lai et al. (2015), Eq. 1 and 2, a word at a time: positions x (left, word, right)."""
    rows = []
    for place in range(len(words)):
        sides = []
        for side, before in ((model.left, words[:place]), (model.right, words[:place:-1])):
            state, cell = side.first, side.cell
            for word in before:
                state = torch.tanh(cell.weight_hh_l0 @ state + cell.weight_ih_l0 @ model.embedding[word])
            sides.append(state)
        rows.append(torch.cat((sides[0], model.embedding[words[place]], sides[1])))
    return torch.stack(rows)


def looped_scores(model: rcnn.RCNN, texts: list[list[int]]) -> torch.Tensor:
    """Training: every convolution position by position, normalised over all words of the batch."""
    seen = [looped_contexts(model, words) for words in texts]
    outputs = []
    for kernel, convolution in zip(rcnn.KERNELS, model.convolutions, strict=True):
        found = []
        for rows in seen:
            zeros = torch.zeros(kernel, rows.shape[1])
            wide = torch.cat((zeros[: (kernel - 1) // 2], rows, zeros[: kernel // 2]))
            found += [(convolution.weight * wide[i : i + kernel].T).sum((1, 2)) for i in range(len(rows))]
        outputs.append(torch.stack(found))
    normed = [nn.functional.batch_norm(values, None, None, training=True).relu() for values in outputs]
    features = torch.cat(normed, 1) + torch.cat(seen) @ model.shortcut.weight[:, :, 0].T + model.shortcut.bias
    return torch.stack([model.classes(part.amax(0)) for part in features.split([len(words) for words in texts])])


@pytest.mark.parametrize("length", [6, 9])
def test_scores_and_gradients_are_those_of_loops_however_long_the_padding_is(model, length):
    both = model(padded(TEXTS, length))[:, 0], looped_scores(model, TEXTS)
    torch.testing.assert_close(*both, atol=1e-11, rtol=1e-11)
    gradients = [
        torch.autograd.grad(scores.square().sum(), [*model.parameters()], allow_unused=True) for scores in both
    ]
    for (name, _), own, expected in zip(model.named_parameters(), *gradients, strict=True):
        if ".norms" not in f".{name}":  # the loop is without their scale and shift, which are 1 and 0
            torch.testing.assert_close(own, expected, atol=1e-9, rtol=1e-9, msg=name)


def test_batch_normalisation_is_torch_s_over_the_words_that_are_there():
    torch.manual_seed(0)
    ours, theirs = rcnn.BatchNorm(4), nn.BatchNorm1d(4)
    there = torch.rand(3, 1, 7) < 0.6
    for is_training in (True, True, False):
        ours.train(is_training), theirs.train(is_training)
        values = torch.randn(3, 4, 7) * 3 + 1
        rows = values.transpose(1, 2)[there[:, 0]]
        torch.testing.assert_close(ours(values, there).transpose(1, 2)[there[:, 0]], theirs(rows))
    torch.testing.assert_close(ours.running_mean, theirs.running_mean)
    torch.testing.assert_close(ours.running_var, theirs.running_var)


def test_known_numbers_of_parameters():
    """By hand: words; two contexts; convolutions over 2 + 3 + 5 words; norms; shortcut; classes."""
    shape = {"width": 100, "context": 100, "channels": 100, "classes": 4, "dropout": 0.5}
    own = sum(p.numel() for p in rcnn.RCNN(1000, positions=64, **shape).parameters())
    assert own == 1000 * 100 + 2 * (100 * 200 + 100) + 10 * 300 * 100 + 2 * 300 + 300 * 301 + 4 * 301
    own = sum(p.numel() for p in cnn.CNN(16, channels=32, width=64, dropout=0.0, positions=784).parameters())
    assert own == 16 * 64 + 32 * 10 + 64 * (32 * 9 + 1) + 64 * (64 * 49 + 1)


def test_an_epoch_sees_every_document_once_cut_to_the_block(folder):
    text, labels = tokens(folder / "classify", "train"), read_labels(folder / "classify", "train")
    documents = Documents(text, labels, 5, tokens_per_step=20, seed=2)
    assert documents.steps_per_epoch == 15 and documents.per_step == 4
    epoch = [documents.step(number) for number in range(15)]
    assert sorted(np.concatenate(epoch)) == list(range(60))
    assert not np.array_equal(np.concatenate(epoch), np.concatenate([documents.step(15 + i) for i in range(15)]))
    whole = [document[:5] for document in np.split(np.asarray(text), np.flatnonzero(text == 2) + 1)[:-1]]
    for update in epoch[:3]:
        (batch,) = documents.cut(update, 1)
        rows = [row[row != 1].tolist() for row in batch.inputs[0]]
        assert rows == [whole[i].tolist() for i in update]
        assert batch.targets[:, 0].tolist() == labels[update].tolist()
        assert documents.counts(update, N).sum() == sum(map(len, rows)) and documents.targets(update) == 4
    everything = [*documents.everything(17)]
    assert sum(len(batch.targets) for batch in everything) == 60
    assert all(batch.inputs[0].numel() <= 17 for batch in everything)
    assert (
        np.concatenate([batch.targets[:, 0] for batch in everything]).tolist() == labels[documents.by_length].tolist()
    )
    with pytest.raises(UserError, match="train on one process, not on 2"):
        documents.share(epoch[0], 0, 2)


def test_an_epoch_sees_every_image_once(folder):
    images = Images(*read_images(folder / "images", "train"), 4 * PIXELS, seed=2)
    epoch = [images.step(number) for number in range(15)]
    assert sorted(np.concatenate(epoch)) == list(range(60))
    pieces = [*images.cut(epoch[0], 3 * PIXELS)]
    assert [len(piece.targets) for piece in pieces] == [3, 1]
    assert torch.cat([piece.inputs[0] for piece in pieces]).tolist() == images.pixels[epoch[0]].tolist()


@pytest.mark.parametrize(("task", "name"), RUNS)
def test_micro_batches_change_nothing(folder, task, name):
    found = []
    for size in (10_000, 2 * PIXELS):
        trained = classifier(folder, task, name, micro_batch=size)
        trained.run()
        trained.state.remove()
        found.append(trainer.weights(trained))
    for key, value in found[0].items():
        torch.testing.assert_close(found[1][key], value, atol=1e-9, rtol=1e-9, msg=key)


@pytest.mark.parametrize(("task", "name"), STOPPED)
def test_a_stop_and_a_resume_change_nothing_to_the_bit(folder, task, name):
    settings = {"dropout": 0.2, "dtype": torch.float32}
    unbroken = classifier(folder, task, name, **settings)
    unbroken.run()
    unbroken.state.remove()
    stop(classifier(folder, task, name, save_updates=3, **settings), 8)
    torch.manual_seed(12345)
    resumed = classifier(folder, task, name, **settings)
    assert resumed.step == 6
    resumed.run()
    assert resumed.rows == unbroken.rows[6:]
    for key, value in trainer.weights(resumed).items():
        assert torch.equal(value, trainer.weights(unbroken)[key]), key
    resumed.state.remove()


def test_each_objective_changes_the_words_of_documents(folder):
    tables = {}
    for name in applying("classify"):
        trained = classifier(folder, "classify", name)
        trained.run()
        trained.state.remove()
        tables[name] = trained.embedding.detach()
    plain = tables.pop("mle")
    assert [name for name, table in tables.items() if torch.equal(table, plain)] == []


@pytest.mark.parametrize("name", sorted(REFUSED["classify"]))
def test_what_acts_on_a_softmax_is_refused_by_a_classifier_of_documents(folder, name):
    with pytest.raises(UserError, match="acts on a softmax over the embedding matrix"):
        classifier(folder, "classify", name).run()


def test_the_loss_is_the_mean_cross_entropy_of_the_classes(folder):
    """Of the first update, before any step, by hand."""
    trained = classifier(folder, "classify", "mle")
    (batch,) = trained.data.cut(trained.data.step(0), 1)
    scores = trained.model(*batch.inputs)[:, 0]
    rows = zip(scores.tolist(), batch.targets[:, 0].tolist(), strict=True)
    expected = [math.log(sum(map(math.exp, row))) - row[label] for row, label in rows]
    trained.run()
    trained.state.remove()
    assert trained.rows[0]["nll"] == pytest.approx(sum(expected) / len(expected), rel=1e-6)


@pytest.mark.parametrize("task", ["classify", "images"])
def test_predictions_are_in_the_order_of_the_text(folder, task):
    trained = classifier(folder, task, "mle")
    trained.run()
    trained.state.remove()
    trained.model.eval()
    place, model = folder / task, trained.model.requires_grad_(False)
    if task == "images":
        own = images._predict_images(model, place, PIXELS)
        pixels, _ = read_images(place, "test")
        alone = [(model(torch.from_numpy(row[None])) @ model.embedding.T)[0, 0].log_softmax(0)[4 : N - 2] for row in pixels]
    else:
        own = classify._predict_documents(model, place, 6)
        text = tokens(place, "test").astype(np.int64)
        documents = np.split(text, np.flatnonzero(text == 2) + 1)[:-1]
        alone = [model(torch.from_numpy(row[None, :6]))[0, 0].log_softmax(0) for row in documents]
    assert own == pytest.approx(torch.stack(alone).numpy(), abs=1e-6)


def test_the_stage_predicts_with_the_trained_weights(folder, tmp_path):
    torch.set_default_dtype(torch.float32)
    shape = SHAPES["images"] | {"dropout": 0.0}
    model = build("cnn", shape, N, PIXELS).eval()
    save_file(stored(model.state_dict()), tmp_path / "model.safetensors")
    place = tmp_path / "images"
    shutil.copytree(folder / "images", place)
    write_meta(place, read_meta(place) | {"vocabulary": N})
    job = SimpleNamespace(run=SimpleNamespace(name="cnn", architecture="cnn", shape=shape), block=PIXELS)
    classification.write_predictions(job, images._predict_images, place, tmp_path, tmp_path)
    with torch.no_grad():
        expected = images._predict_images(model, place, PIXELS)
    np.testing.assert_allclose(np.load(tmp_path / "logprob.npy"), expected, rtol=1e-5, atol=1e-6)


def test_a_classifier_is_compared_with_a_guess_among_its_classes(tmp_path, monkeypatch):
    monkeypatch.setattr(class_metrics, "geometry", lambda artifacts: {})
    shares, labels = (
        np.log([[0.7, 0.2, 0.1], [0.1, 0.6, 0.3], [0.5, 0.25, 0.25], [0.1, 0.1, 0.8]]),
        np.array([0, 1, 2, 2]),
    )
    np.save(tmp_path / "logprob.npy", shares)
    artifacts = SimpleNamespace(array=lambda name: np.load(tmp_path / f"{name}.npy"), summary={"kept": {"valid_nll": 0.9}})
    found = {name: value for name, (value, _) in class_metrics.class_metrics(artifacts, labels, "documents").items()}
    assert found["training.nll_to_uniform"] == pytest.approx(0.9 / math.log(3)) and found["accuracy"]["total"] == 75.0
    assert found["test_nll"] == pytest.approx(-np.log([0.7, 0.6, 0.25, 0.8]).mean())


def test_the_guess_without_a_model_is_the_most_frequent_class(tmp_path):
    for split, labels in {"train": "aabbb", "valid": "ab", "test": "abb"}.items():
        (tmp_path / f"{split}.labels").write_text("".join(f"{label}\n" for label in labels))
    job = MajorityBaseline(name="majority", task="classify", corpus="documents")
    class_metrics.score_majority(job, tmp_path, ".labels", tmp_path, {})
    found = json.loads((tmp_path / "majority.json").read_text())
    assert (found["run"], found["task"]) == ("majority", "classify")
    assert found["metrics"]["accuracy"]["total"] == pytest.approx(200 / 3, rel=1e-4)
    drawn = np.loadtxt(tmp_path / "majority.bootstrap.csv", skiprows=1)
    assert len(drawn) == 400 and drawn.mean() == pytest.approx(200 / 3, abs=5)
    points = (tmp_path / "majority.csv").read_text().splitlines()
    assert points[1:] == ["class_frequency,total,1,3", "class_frequency,total,2,2"]


def test_accuracy_by_hand():
    logprob = np.log([[0.7, 0.2, 0.1], [0.2, 0.3, 0.5], [0.4, 0.4, 0.2], [0.1, 0.1, 0.8]])
    labels = np.array([0, 1, 0, 2])
    value, signature = accuracy(logprob, labels)
    assert value["total"] == 75.0 and signature.startswith("unit:percent|examples:4")
    assert mean_nll(logprob, labels)[0] == pytest.approx(-np.log([0.7, 0.3, 0.4, 0.8]).mean())
    many = np.tile(logprob, (100, 1)), np.tile(labels, 100)
    drawn = bootstrap_accuracy(*many)
    assert drawn.mean() == pytest.approx(75, abs=0.5) and drawn.std() == pytest.approx(
        100 * (0.75 * 0.25 / 400) ** 0.5, rel=0.1
    )
    assert accuracy(*many)[0]["interval"] == pytest.approx(1.96 * drawn.std(), rel=0.1)
