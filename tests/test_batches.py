"""What an update holds: every block or pair once an epoch, the same however it is cut, inputs one token behind."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from raretokens.errors import UserError
from raretokens.vocabulary import EOS, PAD
from reproduction.corpora.tokenization.token_files import Bitext, write_meta
from reproduction.pipeline.parameters_file import load
from reproduction.training import example_batches as sentence_pairs
from reproduction.training.batches import LEAST_ON_GPU, PreparedSteps, check_size
from reproduction.training.example_batches import Documents, Images, Pairs
from reproduction.training.rule import learning_rate
from reproduction.training.token_batches import Blocks, Columns

RNG = np.random.default_rng(0)
TEXT = RNG.integers(4, 60, 1003).astype("<u2")


@pytest.fixture
def pairs(tmp_path) -> Bitext:
    sentences = [np.append(RNG.integers(4, 60, RNG.integers(1, 30)), EOS) for _ in range(2 * 200)]
    np.concatenate(sentences).astype("<u2").tofile(tmp_path / "train.bin")
    write_meta(tmp_path, {"dtype": "<u2"})
    return Bitext(tmp_path, "train")


def test_an_epoch_sees_every_block_once_and_the_next_in_another_order():
    blocks = Blocks(TEXT, 10, 50, seed=3)
    epochs = [np.concatenate([blocks.step(u) for u in range(e * 20, e * 20 + 20)]) for e in (0, 1)]
    assert blocks.steps_per_epoch == 20
    assert (np.sort(epochs[0]) == np.arange(0, 1000, 10)).all() and (np.sort(epochs[1]) == np.sort(epochs[0])).all()
    assert (epochs[0] != epochs[1]).any()
    assert (Blocks(TEXT, 10, 50, seed=4).step(0) != blocks.step(0)).any()


def test_few_validation_tokens_are_at_least_one_example(pairs):
    """Of no example the validation loss would be a quotient of zeros, which the run would take for a learning rate too high."""
    labels = np.zeros(2, dtype=np.int64)
    data = [
        Blocks(TEXT, 10, first=1), Columns(TEXT, 10, 8, first=1), Pairs(pairs, 64, first=1),
        Documents(np.array([5, 6, EOS, 7, EOS]), labels, 10, first=1), Images(np.ones((2, 9)), labels, first=1),
    ]  # fmt: skip
    assert [sum(batch.targets.numel() > 0 for batch in one.everything(100)) for one in data] == [1] * 5


def test_the_input_is_the_token_before_its_target():
    stream = np.concatenate(([EOS], TEXT)).astype(np.int64)
    blocks = Blocks(TEXT, 10, 50)
    for start, batch in ((start, next(blocks.cut(np.array([start]), 10))) for start in (0, 40, 990)):
        assert batch.inputs[0][0].tolist() == stream[start : start + 10].tolist()
        assert batch.targets[0].tolist() == TEXT[start : start + 10].tolist()


@pytest.mark.parametrize("tokens", [10, 25, 1000])
def test_micro_batches_cut_an_update_and_change_nothing(tokens):
    blocks = Blocks(TEXT, 10, 50)
    update = blocks.step(7)
    targets = np.concatenate([batch.targets.numpy().ravel() for batch in blocks.cut(update, tokens)])
    assert (np.bincount(targets, minlength=60) == blocks.counts(update, 60)).all()


def test_validation_scores_every_token_once():
    targets = np.concatenate([batch.targets.numpy().ravel() for batch in Blocks(TEXT, 10).everything(64)])
    assert (targets == TEXT).all()


def test_validation_can_be_cut_short(pairs):
    assert sum(batch.targets.numel() for batch in Blocks(TEXT, 10, first=105).everything(64)) == 105
    part = Pairs(pairs, longest=31, first=100)
    lengths = pairs.lengths[part.kept, 1]
    assert lengths.sum() <= 100 < pairs.lengths[: len(lengths) + 1, 1].sum()
    text, labels = np.array([5, 6, EOS, 7, EOS, 8, 9, EOS]), np.arange(3)
    for first, kept in ((1, 1), (4, 1), (5, 2), (7, 2), (8, 3)):  # the documents that end there or before, at least one
        batches = Documents(text, labels, 10, first=first).everything(64)
        assert sorted(label for batch in batches for label in batch.targets.flatten().tolist()) == [*range(kept)]


def test_reversed_pairs_swap_their_sides(pairs, tmp_path):
    backwards = Bitext(tmp_path, "train", reverse=True)
    for number in (0, 7, 199):
        source, target = pairs.pair(number)
        assert [side.tolist() for side in backwards.pair(number)] == [target.tolist(), source.tolist()]
    assert (backwards.lengths == pairs.lengths[:, ::-1]).all()


def test_updates_of_pairs_cover_the_text_once_and_fit(pairs, monkeypatch):
    monkeypatch.setattr(sentence_pairs, "SMALLEST_BUCKET", 32)
    updates = Pairs(pairs, longest=31, tokens_per_step=256, seed=1)
    seen = np.concatenate([updates.step(u) for u in range(updates.steps_per_epoch)])
    assert len(np.unique(seen)) == len(seen) > 0.95 * len(pairs)  # the last, unfilled update of an epoch is left out
    for number in range(updates.steps_per_epoch):
        assert updates.size[updates.step(number)].sum() <= 256 + 8 * 31


class Lengths:
    """A bitext of given lengths, without text."""

    def __init__(self, lengths: np.ndarray) -> None:
        self.lengths = lengths

    def __len__(self) -> int:
        return len(self.lengths)

    def pair(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        source, target = (np.full(length, 5) for length in self.lengths[index])
        return source, target


@cache
def lengths_as_in_wmt14(pairs: int) -> Lengths:
    random = np.random.default_rng(1)
    target = random.lognormal(3.25, 0.57, pairs)
    source = target * random.lognormal(0.0, 0.2, pairs)
    return Lengths(np.stack((source, target), axis=1).clip(2, 256).astype(int))


@pytest.mark.parametrize("processes", [1, 8])
@pytest.mark.parametrize(("pairs", "tokens", "micro_batch"), [(29_000, 8192, 65536), (500_000, 65536, 8192)])
def test_padding_stays_below_a_twentieth(pairs, tokens, micro_batch, processes):
    """Lengths spread as those of WMT14 in pieces; of a small corpus with small updates and a large one with the papers'."""
    updates = Pairs(lengths_as_in_wmt14(pairs), 256, tokens, seed=1)
    real = padded = 0
    for number in range(4):
        chosen = updates.step(number)
        parts = [updates.share(chosen, rank, processes) for rank in range(processes)]
        assert sorted(np.concatenate(parts)) == sorted(chosen)
        for batch in (batch for part in parts for batch in updates.cut(part, micro_batch)):
            for side in (batch.inputs[0], batch.targets):
                real, padded = real + int((side != PAD).sum()), padded + side.numel()
    assert 1 - real / padded < 0.05


parameters_of = cache(load)


def micro_batches(scale: str, model: str, device: str, micro_batch: int, taken: int = 4) -> list[list[int]]:
    """Padded tokens of the micro-batches of the first steps of a model config."""
    parameters = parameters_of(Path(__file__).parents[1] / scale / "params.yaml")
    settings = parameters.task("nmt")
    training = settings.models[model].training(settings.training)
    data = Pairs(lengths_as_in_wmt14(100_000), training.block, training.tokens_per_step, seed=1)
    steps = PreparedSteps(data, 8, micro_batch, device=device)
    sides = [[(batch.inputs[0].numel(), batch.targets.numel()) for batch in steps[number].batches] for number in range(taken)]
    return [[*map(max, step)] for step in sides]


@pytest.mark.parametrize("micro_batch", [1024, 4096, 65536])
def test_on_a_gpu_micro_batches_span_short_buckets(micro_batch):
    """FRAGE's translation model of the paper scale: eight buckets of 512 tokens would be eight passes of 8 ms each."""
    most = min(micro_batch, LEAST_ON_GPU)
    steps = micro_batches("scales/paper", "iwslt", "cuda", micro_batch, taken=100)
    for filled in steps:
        assert max(filled) <= most and len(filled) <= 8 * 1024 // most + 1
    assert np.mean([tokens for filled in steps for tokens in filled[:-1]]) > 0.75 * most  # the last has what is left


@pytest.mark.parametrize(("scale", "model", "device", "micro_batch", "number"), [
    (".", "base", "cpu", 2048, 1), ("scales/small", "base-1k", "cpu", 2048, 2), ("scales/small", "base", "cpu", 2048, 8),
    ("scales/small", "base", "cpu", 65536, 8), ("scales/paper", "base", "cuda", 65536, 8),
])  # fmt: skip
def test_other_micro_batches_are_from_one_bucket_each(scale, model, device, micro_batch, number):
    """On a CPU always, so that runs keep their bits; on a GPU where buckets are large, because padding takes time there."""
    for filled in micro_batches(scale, model, device, micro_batch):
        assert len(filled) == number


def test_processes_share_an_update_whole_buckets_each(pairs, monkeypatch):
    """Three processes, two buckets: one bucket is divided; every pair is trained once."""
    monkeypatch.setattr(sentence_pairs, "SMALLEST_BUCKET", 32)
    updates = Pairs(pairs, longest=31, tokens_per_step=64, seed=1)
    for processes in (1, 2, 3, 5):
        for number in range(5):
            chosen = updates.step(number)
            parts = [updates.share(chosen, rank, processes) for rank in range(processes)]
            assert sorted(np.concatenate(parts)) == sorted(chosen)
            if processes == 2:
                assert all(len(np.unique(updates.bucket_of[part])) == 1 for part in parts)


def test_long_pairs_are_left_out(pairs):
    updates = Pairs(pairs, longest=12, tokens_per_step=128)
    assert updates.size[updates.kept].max() <= 12
    assert len(updates.kept) == (pairs.lengths.max(1) <= 12).sum()


@pytest.mark.parametrize("tokens", [31, 100, 10_000])
def test_pairs_are_shifted_padded_and_counted(pairs, tokens):
    updates = Pairs(pairs, longest=31, tokens_per_step=256)
    update, seen = updates.step(2), []
    for batch in updates.cut(update, tokens):
        source, inputs = batch.inputs
        assert max(source.numel(), inputs.numel()) <= max(tokens, 31)
        assert (inputs[:, 0] == EOS).all()
        for row_in, row_out in zip(inputs.tolist(), batch.targets.tolist(), strict=True):
            length = row_out.index(EOS) + 1
            assert row_in[1:length] == row_out[: length - 1]
            assert set(row_out[length:]) <= {PAD} and set(row_in[length:]) <= {PAD}
            seen += row_out[:length]
    assert (np.bincount(seen, minlength=60) == updates.counts(update, 60)).all()


def test_an_update_larger_than_the_text_is_refused():
    with pytest.raises(UserError, match="lm.training.tokens_per_step: 5000 is more than the whole training text"):
        check_size(Blocks(TEXT, 10, 5000), "lm", 5000)


def test_the_learning_rate_warms_up_and_falls_with_the_root():
    assert learning_rate(4000, 7e-4, 4000) == pytest.approx(7e-4)
    assert learning_rate(1, 7e-4, 4000) == pytest.approx(1e-7 + (7e-4 - 1e-7) / 4000)
    assert learning_rate(16000, 7e-4, 4000) == pytest.approx(3.5e-4)
