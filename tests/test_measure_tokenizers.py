"""Generated tokenizers and texts: counts are those of the tokenizer on the whole text, and unreadable files are noted."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

os.environ["HF_HUB_OFFLINE"] = "1"
hf = pytest.importorskip("transformers")

from sentencepiece import SentencePieceProcessor  # noqa: E402
from tiny import measured as tiny  # noqa: E402
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers  # noqa: E402

from raretokens.measure import texts  # noqa: E402
from raretokens.measure.candidates import can_reach  # noqa: E402
from raretokens.measure.measurement import MeasureOptions, measure_model  # noqa: E402
from raretokens.measure.model import load_model  # noqa: E402
from raretokens.measure.texts import TextPaths, count_tokens, read_ids  # noqa: E402

RANDOM = np.random.default_rng(0)
WORDS = ["don't", "the", "fox", "2024", "12345", "cats.", "(well)", "Größe", "ñandú", "犬", "猫が好き", "é", "🙂", "x=y;", "…"]
BREAKS = [" "] * 12 + ["\n"] * 3 + ["\n\n", "  ", "\n\n\n", " \n", ".\n", "\t", "\r\n", "。"]
QWEN2 = r"""(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"""


def text(words: int = 3000) -> str:
    return "".join(word + gap for word, gap in zip(RANDOM.choice(WORDS, words), RANDOM.choice(BREAKS, words), strict=True))


def train(model, trainer, **parts) -> Tokenizer:
    tokenizer = Tokenizer(model)
    for name, part in parts.items():
        setattr(tokenizer, name, part)
    tokenizer.train_from_iterator([text()], trainer)
    return tokenizer


def bpe(**further) -> trainers.BpeTrainer:
    return trainers.BpeTrainer(vocab_size=400, show_progress=False, **further)


def byte_level(special: str = "<|endoftext|>", pre_tokenizer=None) -> Tokenizer:
    return train(
        models.BPE(), bpe(special_tokens=[special], initial_alphabet=pre_tokenizers.ByteLevel.alphabet()),
        pre_tokenizer=pre_tokenizer or pre_tokenizers.ByteLevel(add_prefix_space=False), decoder=decoders.ByteLevel(),
    )  # fmt: skip


def metaspace() -> Tokenizer:
    return train(
        models.Unigram(),
        trainers.UnigramTrainer(vocab_size=150, unk_token="<unk>", special_tokens=["<unk>"], show_progress=False),
        pre_tokenizer=pre_tokenizers.Metaspace(), decoder=decoders.Metaspace(),
    )  # fmt: skip


def word_piece() -> Tokenizer:
    return train(
        models.WordPiece(unk_token="[UNK]"),
        trainers.WordPieceTrainer(vocab_size=200, special_tokens=["[UNK]"], show_progress=False),
        normalizer=normalizers.BertNormalizer(), pre_tokenizer=pre_tokenizers.BertPreTokenizer(), decoder=decoders.WordPiece(),
    )  # fmt: skip


FAST = {"byte-level": byte_level, "metaspace": metaspace, "word-piece": word_piece}


@pytest.fixture
def folder(tmp_path) -> Path:
    """A model without a tokenizer."""
    tiny.write_llama(tmp_path, 600)
    return tmp_path


def write(folder: Path, content: str | bytes) -> Path:
    path = folder / "text.txt"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def counts_of(ids: list[int], size: int) -> np.ndarray:
    return np.bincount(ids, minlength=size)


@pytest.mark.parametrize("kind", FAST)
@pytest.mark.parametrize("block", [500, 3000])
def test_a_text_in_blocks_is_encoded_as_the_whole_text(folder, kind, block, monkeypatch):
    tokenizer, content = FAST[kind](), text()
    tokenizer.save(str(folder / "tokenizer.json"))
    monkeypatch.setattr(texts, "BLOCK", block)
    monkeypatch.setattr(texts, "READ", 700)
    found = load_model(str(folder)).tokenizer
    right = tokenizer.encode(content, add_special_tokens=False).ids
    assert read_ids(found, write(folder, content), None, None).tolist() == right
    assert read_ids(found, write(folder, "\ufeff" + content), None, None).tolist() == right  # a byte order mark


def transformers_folder(folder: Path, kind: str) -> None:
    """Files as hubs have them, without tokenizer.json."""
    if kind == "biogpt":  # Moses, and </w> at the end of words
        model = train(
            models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"),
            bpe(special_tokens=["<s>", "<pad>", "</s>", "<unk>"], end_of_word_suffix="</w>"),
            pre_tokenizer=pre_tokenizers.BertPreTokenizer(),
        ).model
        model.save(str(folder))
        merges = (folder / "merges.txt").read_text().splitlines()
        (folder / "merges.txt").write_text("\n".join(line for line in merges if not line.startswith("#")) + "\n")
        settings = {"tokenizer_class": "BioGptTokenizer"}
    elif kind == "qwen2":  # digits one by one, line feeds with what stands before them
        split = pre_tokenizers.Split(Regex(QWEN2), "isolated")
        byte_level(
            pre_tokenizer=pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
        ).model.save(str(folder))
        settings = {"tokenizer_class": "Qwen2Tokenizer", "unk_token": "<|endoftext|>", "eos_token": "<|endoftext|>"}
    elif kind == "gpt2":
        byte_level().model.save(str(folder))
        settings = {"tokenizer_class": "GPT2Tokenizer"}
    elif kind == "bert":
        vocabulary = word_piece().get_vocab()
        (folder / "vocab.txt").write_text("\n".join(sorted(vocabulary, key=vocabulary.get)))
        settings = {"tokenizer_class": "BertTokenizer", "do_lower_case": True}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


@pytest.mark.parametrize("kind", ["biogpt", "qwen2", "gpt2", "bert"])
def test_a_folder_without_tokenizer_json_is_encoded_as_by_transformers(folder, kind, monkeypatch):
    if kind == "biogpt":
        pytest.importorskip("sacremoses")
    transformers_folder(folder, kind)
    content = text(600)
    right = hf.AutoTokenizer.from_pretrained(folder)(content, add_special_tokens=False)["input_ids"]
    model = load_model(str(folder))
    monkeypatch.setattr(texts, "BLOCK", 1500)
    found = count_tokens(model.tokenizer, write(folder, content), None)
    assert np.array_equal(found, counts_of(right, model.tokenizer.size))
    assert [note for note in model.notes if "tokenizer" in note] == []


@pytest.fixture
def sentence_piece(folder) -> Path:
    """tokenizer.model and four trained tokens that added_tokens.json adds."""
    trained = tiny.train_sentencepiece(
        folder / "tokenizer", write(folder, text()), 110, model_type="bpe", character_coverage=1.0
    )
    size = trained.get_piece_size()
    added = ["<|im_start|>", "<|im_end|>", "<tool>", "</tool>"]
    (folder / "added_tokens.json").write_text(json.dumps({token: size + place for place, token in enumerate(added)}))
    tiny.write_llama(folder, size + 4, bos_token_id=1, eos_token_id=2)
    return folder


def test_added_tokens_are_tokens_of_the_text_and_not_known_to_be_unused(sentence_piece):
    model = load_model(str(sentence_piece))
    path = write(sentence_piece, "<|im_start|>the fox<|im_end|>\n" * 50)
    counts = count_tokens(model.tokenizer, path, None)
    size = model.tokenizer.size
    assert counts[size - 4 : size].tolist() == [50, 50, 0, 0]
    (one, *_) = measure_model(model, MeasureOptions(TextPaths(path, path)), print)
    assert one.facts["measured rows"] == size


def test_whatever_a_text_contains_is_reachable(sentence_piece, tmp_path):
    model = load_model(str(sentence_piece))
    counts = count_tokens(model.tokenizer, write(sentence_piece, text()), None)
    ids = np.flatnonzero(counts).tolist()
    assert can_reach(model.tokenizer, ids, [True] * len(ids)) == [True] * len(ids)
    without_counts = can_reach(model.tokenizer, ids, [False] * len(ids))
    assert without_counts.count(False) <= 0.05 * len(ids)  # parts of words are reached after other text


def test_a_token_of_incomplete_bytes_is_neither_reachable_nor_not(folder):
    tokenizer = byte_level()
    tokenizer.save(str(folder / "tokenizer.json"))
    found = load_model(str(folder)).tokenizer
    ids = [tokenizer.token_to_id(token) for token in ("ð", "Ġthe", "Ā")]  # a first byte of four, a word, a NUL
    assert can_reach(found, ids, [False] * 3) == [None, True, True]


def test_each_id_has_its_token_where_pieces_are_duplicates(folder):
    pieces = [("<unk>", 0.0), ("a", -1.0), ("b", -2.0), ("a", -3.0), ("c", -4.0)]
    Tokenizer(models.Unigram(pieces, unk_id=0)).save(str(folder / "tokenizer.json"))
    found = load_model(str(folder))
    assert dict(found.tokens) == dict(enumerate(["<unk>", "a", "b", "a", "c"])) and found.tokenizer.size == 5
    (one, *_) = measure_model(found, MeasureOptions(), print)
    assert one.facts["measured rows"] == 5


UNREADABLE = {
    "broken": ("tokenizer.json", b"{not json"),
    "tiktoken": ("tokenizer.model", b"IQ== 0\nIg== 1\n"),
    "tekken": ("tekken.json", b"{}"),
    "vocabulary of another class": ("vocab.txt", b"[UNK]\nthe\n"),
    "another SentencePiece": ("spiece.model", b"\0\1"),
    "none": ("notes.txt", b""),
}


@pytest.mark.parametrize("kind", UNREADABLE)
def test_a_folder_whose_tokenizer_cannot_be_read_is_measured_without_text(folder, kind, capsys):
    name, content = UNREADABLE[kind]
    (folder / name).write_bytes(content)
    path = write(folder, text(50))
    for options in (MeasureOptions(), MeasureOptions(TextPaths(path, path))):
        measured = tiny.measured(folder, options)
        assert [one.embedding for one in measured] == ["input", "output"]
        assert all("isotropy" in one.metrics and "ppl" not in one.metrics for one in measured)
    assert "frequencies, perplexity, Uniq and continuations left out: no tokenizer" in capsys.readouterr().out


def test_the_decoder_of_two_vocabularies_gets_no_counts_of_the_encoder(tmp_path):
    spm = tiny.train_sentencepiece(tmp_path / "source", write(tmp_path, text()), 90, model_type="bpe")
    (tmp_path / "source.model").rename(tmp_path / "source.spm")
    (tmp_path / "target.spm").write_bytes((tmp_path / "source.spm").read_bytes())
    vocabulary = {spm.id_to_piece(id): id for id in range(spm.get_piece_size())} | {"<pad>": spm.get_piece_size()}
    for name in ("vocab.json", "target_vocab.json"):
        (tmp_path / name).write_text(json.dumps(vocabulary))
    settings = {"tokenizer_class": "MarianTokenizer", "separate_vocabs": True, "source_lang": "en", "target_lang": "de"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    sides = {f"{side}_{key}": value for side in ("encoder", "decoder")
             for key, value in {"layers": 1, "attention_heads": 1, "ffn_dim": 8}.items()}  # fmt: skip
    config = hf.MarianConfig(
        vocab_size=len(vocabulary), decoder_vocab_size=95, d_model=8, share_encoder_decoder_embeddings=False, **sides,
        pad_token_id=len(vocabulary) - 1, eos_token_id=2, decoder_start_token_id=2,
    )  # fmt: skip
    hf.MarianMTModel(config).save_pretrained(tmp_path)
    path = write(tmp_path, "the fox\n" * 30)
    encoder, decoder = tiny.measured(tmp_path, MeasureOptions(TextPaths(path, path)))
    assert (encoder.embedding, decoder.embedding) == ("encoder input", "decoder input and output (tied)")
    assert encoder.facts["token types that occur"] and decoder.facts["token types that occur"] is None
    assert "no frequencies, since it has a vocabulary of its own" in "".join(decoder.notes)


@pytest.mark.parametrize("settings", [{"unk_token": "[UNK]"}, {}])
def test_tokens_beyond_the_rows_and_unknown_words_are_noted_and_not_measured(folder, settings):
    words = ["[UNK]", *(f"w{place}" for place in range(1, 700))]  # the embedding has 600 rows
    tiny.write_word_level(folder, words, unk_token="[UNK]")
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    path = write(folder, "w1 w2 w650 w3 w699 " * 9)
    pairs = [("w1", "w2", 1.0), ("w3", "w4", 2.0), ("w5", "w7", 3.0), ("w1", "unseen", 4.0), ("w2", "w650", 5.0)]
    sets = {"known": pairs, "unknown": [("one", "two", 1.0), ("w1", "three", 2.0)]}
    one, _ = tiny.measured(folder, MeasureOptions(TextPaths(path, path), similarity_sets=sets))
    assert "18 of the counted tokens have ids beyond its 600 rows" in "".join(one.notes)
    assert one.metrics["similarity_pairs"][0] == {"known": 3 / 5}
    assert "word similarity of unknown: no pair has rows" in "".join(one.notes)


def test_without_transformers_the_files_are_read_by_name_and_that_is_noted(sentence_piece, monkeypatch):
    tiny.remove_transformers(monkeypatch)
    model = load_model(str(sentence_piece))
    assert "tokenizer.model is read by SentencePiece, since transformers is not installed" in "".join(model.notes)
    assert model.tokenizer.size == len(json.loads((sentence_piece / "added_tokens.json").read_text())) + len(
        SentencePieceProcessor(model_file=str(sentence_piece / "tokenizer.model"))
    )
