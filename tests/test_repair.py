"""Repair of model folders: planted rows are found and made anew, everything else stays to the bit, and the record says how."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny.measured import llama, measured
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from raretokens import cli
from raretokens.errors import UserError
from raretokens.measure.repair import repair_folder
from raretokens.measure.repair.new_rows import encode_rows, split_tokens
from raretokens.measure.repair.repair_folder import RepairOptions
from raretokens.measure.stored_matrix import StoredMatrix
from raretokens.measure.tokenizers import FastTokenizer

transformers = pytest.importorskip("transformers", reason="optional: pip install transformers")

TOKENS, ROWS, WIDTH = 592, 600, 48  # the last rows have no token
PLANTED = np.arange(500, 516)  # long tokens
NEGATIVE = np.arange(300, 303)  # trained rows whose numbers are all negative
SPECIAL, NO_TOKEN = np.array([0, 1]), np.arange(TOKENS, ROWS)  # untrained as well
UNTRAINED = np.concatenate((SPECIAL, PLANTED, NO_TOKEN))
INPUT, OUTPUT = "model.embed_tokens.weight", "lm_head.weight"


def embedding(seed: int, is_output: bool) -> torch.Tensor:
    """Trained rows, and untrained ones: pushed along one direction in an output embedding, short in an input embedding."""
    random = np.random.default_rng(seed)
    spectrum = np.geomspace(3, 0.3, WIDTH) * np.exp(0.2 * random.standard_normal((ROWS, 1)))
    shared = random.standard_normal(WIDTH) * random.uniform(0, 1, (ROWS, 1))
    rows = random.standard_normal((ROWS, WIDTH)) * (1 + spectrum) + shared
    rows[NEGATIVE] = -np.abs(rows[NEGATIVE])
    initial = random.standard_normal((len(UNTRAINED), WIDTH))
    rows[UNTRAINED] = initial + 5 * random.standard_normal(WIDTH) if is_output else 0.2 * initial
    return torch.tensor(rows / 50, dtype=torch.float32)


def write_tokenizer(folder: Path) -> Tokenizer:
    random = np.random.default_rng(0)
    words = ["".join(random.choice([*"abcdefgh"], random.integers(3, 9))) for _ in range(800)]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=TOKENS, special_tokens=["<s>", "<extra>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )  # fmt: skip
    tokenizer.train_from_iterator([" ".join(words)], trainer)
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "text.txt").write_text(" ".join(words))
    return tokenizer


def write_model(
    folder: Path, is_tied: bool = True, shard_size: str = "1GB", dtype: torch.dtype = torch.float32
) -> Path:
    torch.manual_seed(0)
    shape = {"hidden_size": WIDTH, "num_attention_heads": 2, "intermediate_size": 32, "tie_word_embeddings": is_tied}
    model = llama(ROWS, **shape, bos_token_id=0, eos_token_id=0, pad_token_id=None)
    with torch.no_grad():
        model.get_input_embeddings().weight.copy_(embedding(1, is_tied))
        if not is_tied:
            model.get_output_embeddings().weight.copy_(embedding(2, True))
    model.to(dtype).save_pretrained(folder, max_shard_size=shard_size)
    write_tokenizer(folder)
    return folder


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return {name: tensor for path in sorted(folder.glob("*.safetensors")) for name, tensor in load_file(path).items()}


def run(monkeypatch, *words: object) -> None:
    monkeypatch.setattr(sys, "argv", ["raretokens", "repair", *map(str, words)])
    cli.main()


def changed_rows(folder: Path, new: Path) -> dict[str, list[int]]:
    """Compare all numbers of both folders by their bytes. Return the rows that differ, by tensor."""
    before, after = weights(folder), weights(new)
    assert before.keys() == after.keys()
    found = {}
    for name, one in before.items():
        assert one.dtype == after[name].dtype and one.shape == after[name].shape
        differs = one.view(torch.uint8) != after[name].view(torch.uint8)
        if differs.any():
            found[name] = differs.any(1).nonzero().flatten().tolist()
    return found


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("shard_size", ["1GB", "50KB"])
@pytest.mark.parametrize("is_tied", [True, False])
def test_planted_rows_alone_are_new(tmp_path, monkeypatch, capsys, is_tied, shard_size, dtype):
    """Neither special tokens, nor rows without a token, nor trained rows whose numbers are all negative."""
    folder, new = write_model(tmp_path / "model", is_tied, shard_size, dtype), tmp_path / "new"
    assert (folder / "model.safetensors.index.json").is_file() == (shard_size != "1GB")
    run(monkeypatch, folder, "--out", new, "--fdr", 0.02)
    expected = [INPUT] if is_tied else [INPUT, OUTPUT]
    changed = changed_rows(folder, new)
    assert sorted(changed) == sorted(expected)
    for rows in changed.values():
        assert {*PLANTED.tolist()} <= {*rows} and len(rows) <= len(PLANTED) + 2
        assert not {*rows} & {*SPECIAL.tolist(), *NO_TOKEN.tolist(), *NEGATIVE.tolist()}
    printed = capsys.readouterr().out
    assert "rows taken, found at a false-discovery rate of 0.02" in printed
    assert "not taken, since --rows does not name them: 2 special tokens and 8 rows without a token" in printed
    assert f"equal to the bit: {len(weights(folder)) - len(expected)} other tensors, " in printed
    record = json.loads((new / "repair.json").read_text())
    assert {name: one["rows"] for one in record["matrices"] for name in one["tensors"]} == changed
    files = sorted(path.name for path in folder.iterdir())
    assert (
        sorted(path.name for path in new.iterdir()) == sorted([*files, "repair.json"])
        and sorted(record["sha256"]) == files
    )
    assert not [path for path in tmp_path.iterdir() if path.name not in ("model", "new")]
    model = transformers.AutoModelForCausalLM.from_pretrained(new)
    is_one = model.get_input_embeddings().weight is model.get_output_embeddings().weight
    assert is_one is is_tied


def test_draws_have_the_mean_and_the_covariance_of_the_trained_rows(tmp_path):
    """Of an input and an output embedding together, and the seed and the id alone determine a draw."""
    folder = write_model(tmp_path / "model", is_tied=False)
    everything = RepairOptions(0.05, [(10, 99), (310, 499)])
    repair_folder.repair_folder(folder, tmp_path / "a", everything, print)
    taken = np.r_[10:100, 310:500]
    before, after = weights(folder), weights(tmp_path / "a")
    trained = np.setdiff1d(np.arange(ROWS), np.concatenate((UNTRAINED, taken)))
    old, new = (np.concatenate([found[INPUT][ids].numpy(), found[OUTPUT][ids].numpy()], 1)
                for found, ids in ((before, trained), (after, taken)))  # fmt: skip
    spread = old.std(axis=0)
    np.testing.assert_allclose((new.mean(axis=0) - old.mean(axis=0)) / spread, 0, atol=0.35)
    np.testing.assert_allclose(new.std(axis=0) / spread, 1, atol=0.25)
    repair_folder.repair_folder(folder, tmp_path / "b", everything, print)
    assert (tmp_path / "a" / "repair.json").read_bytes() == (tmp_path / "b" / "repair.json").read_bytes()
    assert not changed_rows(tmp_path / "a", tmp_path / "b")
    repair_folder.repair_folder(folder, tmp_path / "c", everything._replace(seed=1), print)
    assert [len(rows) for rows in changed_rows(tmp_path / "a", tmp_path / "c").values()] == [len(taken)] * 2
    repair_folder.repair_folder(folder, tmp_path / "d", everything._replace(scale=0.0), print)
    mean = weights(tmp_path / "d")[OUTPUT][taken]
    assert (mean == mean[0]).all()


def test_named_rows_are_taken_in_every_matrix_whatever_they_are(tmp_path, monkeypatch):
    folder, new = write_model(tmp_path / "model", is_tied=False), tmp_path / "new"
    (tmp_path / "ids").write_text("0\n300-302, 595\n")
    run(monkeypatch, folder, "--out", new, "--rows", f"@{tmp_path / 'ids'}")
    assert changed_rows(folder, new) == dict.fromkeys((INPUT, OUTPUT), [0, 300, 301, 302, 595])


def test_pieces_are_those_of_the_tokenizer_without_the_token(tmp_path, monkeypatch, capsys):
    """A single byte cannot be split, and gets the mean."""
    folder, new = write_model(tmp_path / "model"), tmp_path / "new"
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    run(monkeypatch, folder, "--out", new, "--by", "pieces", "--rows", "5,510", "--scale", 0)
    declared = json.loads(tokenizer.to_str())["model"]
    pair = next(pair for pair in declared["merges"] if "".join(pair) == tokenizer.id_to_token(510))
    pieces = [tokenizer.token_to_id(part) for part in pair]
    assert not {*pieces} & {*UNTRAINED.tolist()}
    before, after = weights(folder)[INPUT].double(), weights(new)[INPUT]
    assert torch.equal(after[510], before[pieces].mean(0).float())
    assert "1 are the mean of the token's subword tokens; 1 could not be split: the mean of" in capsys.readouterr().out
    assert json.loads((new / "repair.json").read_text())["matrices"][0]["from_pieces"] == [510]


def test_copies_of_a_tied_matrix_stay_equal(tmp_path, monkeypatch):
    """Else transformers would load two matrices."""
    folder, new = write_model(tmp_path / "model"), tmp_path / "new"
    tensors = weights(folder)
    save_file(tensors | {OUTPUT: tensors[INPUT].clone()}, folder / "model.safetensors", metadata={"format": "pt"})
    run(monkeypatch, folder, "--out", new)
    after = weights(new)
    assert torch.equal(after[INPUT], after[OUTPUT]) and {*changed_rows(folder, new)} == {INPUT, OUTPUT}


def test_rows_are_the_candidates_of_measure(tmp_path, monkeypatch):
    folder = write_model(tmp_path / "model", is_tied=False)
    run(monkeypatch, folder, "--out", tmp_path / "new")
    record = json.loads((tmp_path / "new" / "repair.json").read_text())
    for one, repaired in zip(measured(folder), record["matrices"], strict=True):
        found = {candidate["id"] for candidate in one.candidates}
        assert one.embedding == repaired["role"] and found - {*SPECIAL.tolist(), *NO_TOKEN.tolist()} == {*repaired["rows"]}


@pytest.mark.parametrize("is_tied", [True, False])
def test_training_changes_rows_whose_tokens_occur_and_lowers_the_loss(tmp_path, monkeypatch, capsys, is_tied):
    folder, new, plain = write_model(tmp_path / "model", is_tied), tmp_path / "new", tmp_path / "plain"
    ids = Tokenizer.from_file(str(folder / "tokenizer.json")).encode((folder / "text.txt").read_text()).ids
    words = [folder, "--rows", "0,500-515"]
    run(monkeypatch, *words, "--out", plain)
    run(monkeypatch, *words, "--out", new, "--text", folder / "text.txt", "--steps", 40, "--lr", 0.01)
    occurring = sorted({*ids} & {*PLANTED.tolist()})
    assert occurring and changed_rows(plain, new) == dict.fromkeys([INPUT] if is_tied else [INPUT, OUTPUT], occurring)
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("trained on"))
    first, last = (float(part.split()[0]) for part in line.split("loss ")[1].split(", "))
    assert last < first
    assert json.loads((new / "repair.json").read_text())["training"]["steps"] == 40
    with pytest.raises(SystemExit, match="contains none of the tokens whose rows were taken"):
        run(monkeypatch, folder, "--rows", 0, "--out", tmp_path / "none", "--text", folder / "text.txt")
    assert not (tmp_path / "none").exists()


def test_a_copy_that_differs_elsewhere_is_refused_and_nothing_stays(tmp_path, monkeypatch):
    folder = write_model(tmp_path / "model")
    write = repair_folder.write_rows

    def write_another(path, tensor, rows, encoded):
        write(path, tensor, rows + 1, encoded)

    monkeypatch.setattr(repair_folder, "write_rows", write_another)
    with pytest.raises(SystemExit, match=f"row 8 of {INPUT} differs, and was not taken"):
        run(monkeypatch, folder, "--rows", 7, "--out", tmp_path / "new")
    monkeypatch.setattr(repair_folder, "write_rows", lambda path, *_: path.open("r+b").write(b"?"))
    with pytest.raises(SystemExit, match="outside the rows taken"):
        run(monkeypatch, folder, "--rows", 7, "--out", tmp_path / "new")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


@pytest.mark.parametrize(("words", "message"), [
    (["--rows", "5,x"], "--rows: x is not allowed: should be ids and ranges such as 5,17,100-120, or @FILE"),
    (["--rows", "9-5"], "--rows: 9-5 is not allowed"),
    (["--rows", ""], "--rows: nothing is not allowed"),
    (["--rows", "600"], "--rows: 600 is not allowed: model.embed_tokens.weight has rows 0..599"),
    (["--rows", "@absent"], "--rows: absent: no such file"),
    (["--rows", "0-599"], "0 trained rows remain; at least 2 are needed"),
    (["--rows", "5", "--fdr", "0.1"], "--fdr: not allowed with --rows"),
    (["--fdr", "1"], "--fdr: 1 is not allowed: should be between 0 and 1"),
    (["--steps", "5"], "--steps: needs --text as well"),
    (["--text", "absent"], "--text: absent: no such file"),
])  # fmt: skip
def test_bad_input_is_one_line_and_writes_nothing(tmp_path, monkeypatch, words, message):
    folder = write_model(tmp_path / "model")
    with pytest.raises(SystemExit) as left:
        run(monkeypatch, folder, "--out", tmp_path / "new", *words)
    assert message in str(left.value) and "\n" not in str(left.value)
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_bad_folders_are_one_line(tmp_path, monkeypatch):
    folder = write_model(tmp_path / "model")
    (tmp_path / "empty").mkdir()
    for given, new, message in [
        (folder, tmp_path / "empty", "empty: exists; name a new folder"),
        (folder, folder / "new", "is inside"),
        (tmp_path / "absent", tmp_path / "new", "absent: no such folder; should be a model folder"),
        ("hf://owner/name", tmp_path / "new", "hf://owner/name: should be a model folder; `hf download owner/name --local-dir"),
        (folder / "config.json", tmp_path / "new", "config.json: a file; should be a model folder"),
        (tmp_path / "empty", tmp_path / "new", "contains no [*].safetensors file"),
    ]:
        with pytest.raises(SystemExit, match=message):
            run(monkeypatch, given, "--out", new)
    run(monkeypatch, folder, "--out", tmp_path / "new")
    with pytest.raises(
        SystemExit, match="no under-trained row at a false-discovery rate of 0.05 except 2 special tokens and 8"
    ):
        run(monkeypatch, tmp_path / "new", "--out", tmp_path / "again")
    assert not (tmp_path / "again").exists()


def split(model: models.Model, ids: list[int], removed: list[int], size: int) -> dict[int, list[int]]:
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.add_tokens(["<new ab>"])
    return split_tokens(FastTokenizer(tokenizer), ids, removed, np.ones(size, bool))


def test_splits_of_each_kind_of_tokenizer():
    """A removed part is split further. Words within others are split as such. What would be unknown has no split."""
    names = ["<unk>", "a", "b", "c", "ab", "abc", "bc", "cc"]
    merges = [("a", "b"), ("ab", "c"), ("b", "c"), ("c", "c")]
    bpe = models.BPE({name: id for id, name in enumerate(names)}, merges, unk_token="<unk>")
    assert split(bpe, [5], [5], 9) == {5: [4, 3]}
    assert split(bpe, [5, 4], [5, 4], 9) == {5: [1, 6], 4: [1, 2]}
    assert split(bpe, [5, 4, 7, 3], [5, 4, 7, 3, 6], 9) == {4: [1, 2]}
    unigram = models.Unigram([(name, -float(id)) for id, name in enumerate(names)], unk_id=0)
    assert split(unigram, [5, 4, 7, 1], [5, 4, 7, 1], 9) == {7: [3, 3]}
    assert split(unigram, [5], [5], 9) == {5: [1, 2, 3]}
    pieces = ["<unk>", "a", "##b", "##c", "##bc", "abc", "b", "##cc"]
    wordpiece = models.WordPiece({name: id for id, name in enumerate(pieces)}, unk_token="<unk>")
    assert split(wordpiece, [5, 4, 7, 6], [5, 4, 7, 6], 9) == {5: [1, 2, 3], 4: [2, 3], 7: [3, 3]}
    chars = models.WordPiece(
        {name: id for id, name in enumerate(["<unk>", "<", "##n", "##e", "##w", "a", "##b", "##>"])}, unk_token="<unk>"
    )
    assert split(chars, [8], [8], 9) == {8: [1, 2, 3, 4, 5, 6, 7]}  # an added token is a text


@pytest.mark.parametrize("dtype", ["BF16", "F16", "F32"])
def test_numbers_are_rounded_as_torch_does(dtype):
    numbers = np.random.default_rng(0).standard_normal((100, 20)) * 10.0 ** np.arange(-9, 1, 0.5)
    stored = StoredMatrix(Path("model"), 0, (100, 20), dtype)
    kind = {"BF16": torch.bfloat16, "F16": torch.float16, "F32": torch.float32}[dtype]
    expected = torch.tensor(numbers, dtype=torch.float32).to(kind)
    bits = encode_rows(numbers.astype(np.float32), stored).view(f"<i{expected.element_size()}")
    assert np.array_equal(bits, expected.view({2: torch.int16, 4: torch.int32}[expected.element_size()]).numpy())
    with pytest.raises(UserError, match="contains NaN or a number too large"):
        encode_rows(numbers * 1e45, stored)
