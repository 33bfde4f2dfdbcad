"""From text to ids and back, the order of the vocabulary, and its frequency groups."""

from collections import Counter

import numpy as np
import pytest
from tiny.world import lines

from raretokens.errors import UserError
from raretokens.subword import streams
from raretokens.subword.encode import encode
from raretokens.subword.encoder import Encoder
from raretokens.subword.job import Job, WordVocabulary
from raretokens.subword.vocabulary import EOS, FILLER, FREQ, MED, RARE, SPECIALS, UNK, Vocabulary

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
    encoder = Encoder(folders / "tokens/lm")
    for line in (*lines(20, 1)[0], *ODD):
        assert encoder.decode(encoder.encode(line)) == line


def test_a_split_is_its_lines_with_an_end_each(folders):
    encoder, ids = Encoder(folders / "tokens/lm"), streams.tokens(folders / "tokens/lm", "test")
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
    assert vocabulary.reversed().target_counts.tolist() == [sources[i] for i in range(len(vocabulary))]


def test_whole_words(folders, tmp_path):
    meta = encode(words(20, True), folders / "lm", tmp_path)
    vocabulary, ids = Vocabulary.read(tmp_path / "vocabulary.tsv"), streams.tokens(tmp_path, "test")
    assert meta["unit"] == "word" and vocabulary.types == len(SPECIALS) + 20
    split = [[*line.replace("“", "“ ").replace("”", " ”").split(), "</s>"] for line in (*lines(20, 1)[0], *ODD)]
    known = {piece: number for number, piece in enumerate(vocabulary.pieces)}
    assert ids.tolist() == [known.get(word, UNK) for line in split for word in line]
    assert vocabulary.counts[UNK] > 0  # what the twenty words leave over
    encode(words(None, False), folders / "lm", tmp_path / "all")
    everything = Vocabulary.read(tmp_path / "all/vocabulary.tsv")
    assert everything.counts[UNK] == 0 and "“quotes”" in everything.pieces


def test_pairs_are_source_and_target(folders):
    encoder, pairs = Encoder(folders / "tokens/nmt"), streams.Bitext(folders / "tokens/nmt", "test")
    assert len(pairs) == 26
    for number, texts in enumerate(zip(*(part + ODD for part in lines(20, 1)), strict=True)):
        for ids, text in zip(pairs.pair(number), texts, strict=True):
            assert ids.tolist() == [*encoder.encode(text), EOS]


def test_a_bare_word_has_no_space_mark(folders):
    encoder = Encoder(folders / "tokens/lm")
    pieces = encoder.vocabulary.pieces
    assert pieces[encoder.encode("river")[0]].startswith("▁")
    assert not any(pieces[i].startswith("▁") for i in encoder.encode_bare("river"))


def test_unseen_characters_are_unknown(folders):
    assert UNK in Encoder(folders / "tokens/lm").encode("ж")


def test_groups_follow_the_declared_boundaries():
    counts = np.arange(24, 0, -1)
    vocabulary = Vocabulary(
        tuple(f"p{i}" for i in range(20)) + tuple(f"<filler{i}>" for i in range(4)), counts, counts, 4
    )
    by_fractions = vocabulary.groups({"fractions": [0.3, 0.5, 0.2]})
    by_boundaries = vocabulary.groups({"boundaries": [6, 16]})
    assert (by_fractions == by_boundaries).all()
    assert by_fractions.tolist() == [FREQ] * 6 + [MED] * 10 + [RARE] * 4 + [FILLER] * 4
    with pytest.raises(ValueError, match="groups.boundaries: 6, 26"):
        vocabulary.groups({"boundaries": [6, 26]})


def test_too_many_pieces_for_the_text_is_one_clear_error(folders, tmp_path):
    with pytest.raises(UserError, match="vocabulary: 50000 pieces cannot be learnt"):
        encode(told("lm", 50_000), folders / "lm", tmp_path)
