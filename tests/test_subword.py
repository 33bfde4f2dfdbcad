"""From text to ids and back, the order of the vocabulary, and its frequency groups."""

from collections import Counter

import numpy as np
import pytest
from tiny.world import lines

from raretokens import files
from raretokens.errors import UserError
from raretokens.vocabulary import EOS, FILLER, FREQ, MED, RARE, SPECIALS, UNK, Vocabulary
from reproduction.corpora.tokenization import token_files as streams
from reproduction.corpora.tokenization.encode import encode
from reproduction.corpora.tokenization.settings import EncodeJob as Job
from reproduction.corpora.tokenization.settings import Groups, Subword, WordVocabulary
from reproduction.corpora.tokenization.tokenizer import Tokenizer

SIDES = {"lm": (".txt",), "nmt": (".source", ".target")}
ODD = ["a tab\there", "  two  blanks ", "naïve “quotes” 漢字", "a carriage\rreturn", "line\u2028separator", ""]


def told(task: str, vocabulary: object) -> Job:
    return Job(name=task, sides=SIDES[task], vocabulary=vocabulary)


def words(size: int | None, tokenise: bool) -> Job:
    return told("lm", WordVocabulary(model="words", size=size, tokenise=tokenise))


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    texts = tmp_path_factory.mktemp("corpus")
    for task, sides in SIDES.items():
        (texts / task).mkdir()
        for split, count in (("train", 300), ("test", 20)):
            for side, text in zip(sides, lines(count, 1), strict=False):
                body = "".join(f"{line}\n" for line in [*text, *ODD])
                (texts / task / f"{split}{side}").write_text(body, encoding="utf-8", newline="\n")
        encode(told(task, 120), texts / task, texts / "tokens" / task)
    return texts


def test_ids_give_the_text_back(folders):
    encoder = Tokenizer(folders / "tokens/lm")
    for line in (*lines(20, 1)[0], *ODD):
        assert encoder.decode(encoder.encode(line)) == line


def test_a_split_is_its_lines_with_an_end_each(folders):
    encoder, ids = Tokenizer(folders / "tokens/lm"), streams.tokens(folders / "tokens/lm", "test")
    expected = [i for line in [*lines(20, 1)[0], *ODD] for i in [*encoder.encode(line), EOS]]
    assert ids.tolist() == expected
    assert streams.read_meta(folders / "tokens/lm")["splits"]["test"] == {"tokens": len(expected), "lines": 26}


@pytest.mark.parametrize("task", ["lm", "nmt"])
def test_the_vocabulary_is_sorted_by_training_count(folders, task):
    vocabulary = Vocabulary.read(folders / "tokens" / task / "vocabulary.tsv")
    ids = streams.tokens(folders / "tokens" / task, "train")
    counts = np.bincount(ids, minlength=len(vocabulary))
    assert (vocabulary.counts == counts).all()
    assert (np.diff(counts[len(SPECIALS) : vocabulary.types]) <= 0).all()
    assert counts[len(SPECIALS) : vocabulary.types].min() > 0
    assert len(vocabulary) % 8 == 0 and vocabulary.fillers < 8
    if task == "nmt":
        pairs = streams.Bitext(folders / "tokens/nmt", "train")
        targets = Counter(i for number in range(len(pairs)) for i in pairs.pair(number)[1].tolist())
        assert vocabulary.target_counts.tolist() == [targets[i] for i in range(len(vocabulary))]


def test_a_reversed_vocabulary_counts_sources_as_targets(folders):
    vocabulary = Vocabulary.read(folders / "tokens/nmt/vocabulary.tsv")
    pairs = streams.Bitext(folders / "tokens/nmt", "train")
    sources = Counter(i for number in range(len(pairs)) for i in pairs.pair(number)[0].tolist())
    turned = Vocabulary.read(folders / "tokens/nmt/vocabulary.tsv", reverse=True)
    assert turned.target_counts.tolist() == [sources[i] for i in range(len(vocabulary))]


def test_whole_words(folders, tmp_path):
    meta = encode(words(20, True), folders / "lm", tmp_path)
    vocabulary, ids = Vocabulary.read(tmp_path / "vocabulary.tsv"), streams.tokens(tmp_path, "test")
    assert meta["unit"] == "word" and vocabulary.types == len(SPECIALS) + 20
    split = [[*line.replace("“", "“ ").replace("”", " ”").split(), "</s>"] for line in (*lines(20, 1)[0], *ODD)]
    known = {piece: number for number, piece in enumerate(vocabulary.tokens)}
    assert ids.tolist() == [known.get(word, UNK) for line in split for word in line]
    assert vocabulary.counts[UNK] > 0  # what the twenty words leave over
    encode(words(None, False), folders / "lm", tmp_path / "all")
    everything = Vocabulary.read(tmp_path / "all/vocabulary.tsv")
    assert everything.counts[UNK] == 0 and "“quotes”" in everything.tokens


def test_text_that_looks_like_a_special_row_is_a_word_like_any_other(tmp_path):
    """But <unk>, which stands for an unknown word where a corpus has been cut to its vocabulary."""
    line = r"the <unk> </s> <filler0> <fillers \</s> <pad> <s> </s>"
    for split in ("train", "test"):
        (tmp_path / f"{split}.txt").write_text(f"{line}\n", encoding="utf-8")
    encode(words(None, False), tmp_path, tmp_path / "tokens")
    vocabulary, ids = Vocabulary.read(tmp_path / "tokens/vocabulary.tsv"), streams.tokens(tmp_path / "tokens", "test")
    named = [r"\</s>", r"\<filler0>", r"\<fillers", r"\\</s>", r"\<pad>", r"\<s>", r"\</s>"]
    assert [vocabulary.tokens[i] for i in ids] == ["the", "<unk>", *named, "</s>"]
    assert len(set(vocabulary.tokens)) == len(vocabulary) == 16
    assert vocabulary.fillers == 16 - len(SPECIALS) - len({"the", *named})
    assert vocabulary.counts[UNK] == vocabulary.counts[EOS] == 1


def test_ids_of_more_types_than_two_bytes_hold(tmp_path):
    """The paper's words have 267,744 types; 65,536 still fit into two bytes."""
    assert [streams.token_dtype(types).itemsize for types in (65_536, 65_537, 267_744)] == [2, 4, 4]
    (tmp_path / "train.txt").write_text(" ".join(f"w{i}" for i in range(70_000)) + "\n", encoding="utf-8")
    meta = encode(words(None, False), tmp_path, tmp_path / "tokens")
    ids, pieces = (
        streams.tokens(tmp_path / "tokens", "train"),
        Vocabulary.read(tmp_path / "tokens/vocabulary.tsv").tokens,
    )
    assert meta["dtype"] == "<u4" and [pieces[i] for i in ids[[0, 65_535, 69_999, 70_000]]] == [
        "w0",
        "w65535",
        "w69999",
        "</s>",
    ]


def test_special_rows_and_fillers_are_left_out_of_text(folders):
    encoder = Tokenizer(folders / "tokens/lm")
    vocabulary = encoder.vocabulary
    assert vocabulary.fillers > 0
    others = [*range(len(SPECIALS)), *range(vocabulary.types, len(vocabulary))]
    assert encoder.decode([*others[:4], *encoder.encode("the river"), *others[4:]]) == "the river"


def test_pairs_are_source_and_target(folders):
    encoder, pairs = Tokenizer(folders / "tokens/nmt"), streams.Bitext(folders / "tokens/nmt", "test")
    assert len(pairs) == 26
    for number, texts in enumerate(zip(*(part + ODD for part in lines(20, 1)), strict=True)):
        for ids, text in zip(pairs.pair(number), texts, strict=True):
            assert ids.tolist() == [*encoder.encode(text), EOS]


def test_a_bare_word_has_no_space_mark(folders):
    encoder = Tokenizer(folders / "tokens/lm")
    pieces = encoder.vocabulary.tokens
    assert pieces[encoder.encode("river")[0]].startswith("▁")
    assert not any(pieces[i].startswith("▁") for i in encoder.encode_without_space("river"))


def test_unseen_characters_are_unknown(folders):
    assert UNK in Tokenizer(folders / "tokens/lm").encode("ж")


def test_groups_follow_the_declared_boundaries():
    counts = np.arange(24, 0, -1)
    vocabulary = Vocabulary(
        tuple(f"p{i}" for i in range(20)) + tuple(f"<filler{i}>" for i in range(4)), counts, counts, 4
    )
    by_fractions = vocabulary.frequency_groups(Groups(fractions=[0.3, 0.5, 0.2]))
    by_boundaries = vocabulary.frequency_groups(Groups(boundaries=[6, 16]))
    assert (by_fractions == by_boundaries).all()
    assert by_fractions.tolist() == [FREQ] * 6 + [MED] * 10 + [RARE] * 4 + [FILLER] * 4
    for boundaries in ([6, 26], [6, 20], [10, 6], [3, 10]):
        with pytest.raises(UserError, match=f"groups.boundaries: {boundaries[0]}, {boundaries[1]}; they must rise"):
            vocabulary.frequency_groups(Groups(boundaries=boundaries))


def test_shares_of_types_are_rounded_to_the_nearest():
    """Of 23 types 0.3 are 6.9 and 0.8 are 18.4."""
    counts = np.arange(24, 0, -1)
    vocabulary = Vocabulary((*(f"p{i}" for i in range(23)), "<filler0>"), counts, counts, 1)
    assert vocabulary.group_boundaries(Groups(fractions=[0.3, 0.5, 0.2])) == (7, 18)


def test_too_many_pieces_for_the_text_is_one_clear_error(folders, tmp_path):
    with pytest.raises(UserError, match="vocabulary: 50000 subword tokens cannot be learnt"):
        encode(told("lm", 50_000), folders / "lm", tmp_path)


@pytest.mark.parametrize("kind", ["words", "bpe"])
def test_blocks_of_any_size_give_what_one_line_alone_gives(tmp_path, monkeypatch, kind):
    body = [line for pair in zip(*lines(300, 1), strict=True) for line in pair] + ODD + ["zebra\u00a0x \x1c y\u2003z"]
    for side in SIDES["nmt"]:
        (tmp_path / f"train{side}").write_text("".join(f"{line}\n" for line in body), encoding="utf-8", newline="\n")
    vocabulary = {
        "words": WordVocabulary(model="words", size=20, tokenise=True),
        "bpe": Subword(model="bpe", merges=40),
    }
    found = []
    for size in (files.LINES, 7):
        monkeypatch.setattr(files, "LINES", size)
        folder = tmp_path / f"{size}"
        encode(told("nmt", vocabulary[kind]), tmp_path, folder)
        found.append({path.name: path.read_bytes() for path in folder.iterdir()})
        assert len(found[-1]) > 2 and found[-1] == found[0]
    if kind == "bpe":
        tokenizer, ids = Tokenizer(folder), streams.tokens(folder, "train")
        assert ids.tolist() == [i for line in body for _ in SIDES["nmt"] for i in [*tokenizer.encode(line), EOS]]
