"""Vocabularies that SentencePiece does not learn: GPT-2's own pieces, and merges learnt on the words of both languages."""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from tiny.world import lines
from tokenizers.pre_tokenizers import ByteLevel

from raretokens.errors import UserError
from raretokens.vocabulary import EOS, SPECIALS, UNK, Vocabulary
from reproduction.corpora.download import fetch
from reproduction.corpora.registry import prepare
from reproduction.corpora.tokenization import token_files as streams
from reproduction.corpora.tokenization.encode import PairFilter, encode
from reproduction.corpora.tokenization.settings import EncodeJob as Job
from reproduction.corpora.tokenization.settings import Subword
from reproduction.corpora.tokenization.subword_models import BPE
from reproduction.corpora.tokenization.tokenizer import Tokenizer
from reproduction.tasks.evaluation.bleu import sacre_bleu

TEXT, PAIRS = (".txt",), (".source", ".target")


def told(sides: tuple[str, ...], **declared) -> Job:
    return Job(name="tokens", sides=sides, vocabulary=Subword(**declared))


def write(path: Path, text: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in text), encoding="utf-8", newline="\n")


def gpt2_files(folder: Path) -> None:
    """In the form of the published files: every byte, and a few merges."""
    merges = ["\u0120 t", "h e", "\u0120t he", "\u0120 r"]
    pieces = [*sorted(ByteLevel.alphabet()), *(merge.replace(" ", "") for merge in merges), "<|endoftext|>"]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "encoder.json").write_text(json.dumps({piece: number for number, piece in enumerate(pieces)}))
    (folder / "vocab.bpe").write_text("\n".join(["#version: 0.2", *merges, ""]), encoding="utf-8")


def test_gpt2_s_pieces_are_bytes_with_a_blank_in_front_of_each_line(tmp_path):
    text = ["the river", "", "naïve “quotes” 漢字 <unk>\ta tab", "line\u2028separator", "mthe"]
    write(tmp_path / "train.txt", text)
    write(tmp_path / "test.txt", ["the ж", "", "there"])
    gpt2_files(tmp_path / "gpt2-bpe")
    encode(told(TEXT, model="gpt2"), tmp_path, tmp_path / "tokens")
    encoder = Tokenizer(tmp_path / "tokens")
    pieces = encoder.vocabulary.tokens
    assert [pieces[i] for i in encoder.encode("the river")] == ["▁the", "▁r", *"iver"]
    assert [pieces[i] for i in encoder.encode_without_space("the")] == ["t", "he"]
    assert [encoder.decode(encoder.encode(line)) for line in text] == text
    ids = streams.tokens(tmp_path / "tokens", "test").tolist()
    assert ids == [*encoder.encode("the ж"), EOS, EOS, *encoder.encode("there"), EOS]  # an empty line is its end alone
    assert UNK in ids  # a byte that training has not shown
    assert "<|endoftext|>" not in pieces and len(pieces) % 8 == 0


def joint(folder: Path, merges: int = 60, **declared) -> Path:
    for side, text in zip(("source", "target"), lines(300, 1), strict=True):
        for split, part in {"train": text[:250], "valid": text[250:280], "test": text[280:]}.items():
            odd = ["x" * 40, "Ωmega well-worn"] if split != "test" else ["new жук words", "y" * 40]
            write(folder / f"{split}.{side}", [*part, *(odd if side == "source" else ["short", "omega"])])
    encode(told(PAIRS, model="bpe", merges=merges, **declared), folder, folder / "tokens")
    return folder / "tokens"


def segmented(word: tuple[str, ...], pair: tuple[str, str]) -> tuple[str, ...]:
    out, i = [], 0
    while i < len(word):
        both = word[i : i + 2] == pair
        out.append(word[i] + word[i + 1] if both else word[i])
        i += 1 + both
    return tuple(out)


def test_each_merge_is_of_a_most_frequent_pair_and_words_are_cut_by_them_in_order(tmp_path):
    """Sennrich et al. (2016), algorithm 1, beside the learnt merges; among equally frequent pairs any may be the next."""
    tokens = joint(tmp_path)
    text = " ".join((tmp_path / f"train.{side}").read_text().replace("\n", " ") for side in ("source", "target"))
    counts = Counter(text.split())
    cut = {word: (*word[:-1], word[-1] + "</w>") for word in counts}
    merges = [tuple(pair) for pair in json.loads((tokens / "merges.json").read_text())["model"]["merges"]]
    assert len(merges) == 60
    for merge in merges:
        pairs = Counter[tuple[str, str]]()
        for word, parts in cut.items():
            for pair in zip(parts, parts[1:], strict=False):
                pairs[pair] += counts[word]
        assert pairs[merge] == max(pairs.values()) >= 2
        cut = {word: segmented(parts, merge) for word, parts in cut.items()}
    encoder = Tokenizer(tokens)
    for word, parts in cut.items():
        shown = [part.removesuffix("</w>") if part.endswith("</w>") else part + "@@" for part in parts]
        assert [encoder.vocabulary.tokens[i] for i in encoder.encode(word)] == shown


def test_learning_is_the_same_each_time_and_decoding_gives_words_back(tmp_path):
    first, again = joint(tmp_path / "one"), joint(tmp_path / "two")
    names = sorted(path.name for path in first.iterdir())
    assert names == ["merges.json", "meta.json", "test.bin", "train.bin", "valid.bin", "vocabulary.tsv"]
    assert all((first / name).read_bytes() == (again / name).read_bytes() for name in names)
    encoder = Tokenizer(first)
    for line in lines(300, 1)[1]:
        assert encoder.decode(encoder.encode(line)) == line
    unknown = encoder.encode("new жук words")
    assert unknown.count(UNK) == 3 and encoder.decode(unknown) == "new words"


def test_the_rarest_words_are_not_learnt_from_but_cut(tmp_path, monkeypatch):
    """As if the text had only the others; what is left out would win a merge otherwise."""
    write(tmp_path / "text", ["ab ab ab abc", "xyz xyv xyw ab"])
    write(tmp_path / "some", ["ab ab ab abc", "ab"])
    monkeypatch.setattr("reproduction.corpora.tokenization.subword_models.WORD_TYPES", 2)
    found, expected = (BPE.learn([tmp_path / name], 1, tmp_path / f"{name}.json") for name in ("text", "some"))
    shown = [[model.token(number) for number in model.encode(["ab xyz"])[0]] for model in (found, expected)]
    assert shown == [["ab", "x@@", "y@@", "z"], ["ab", "<unk>", "<unk>", "<unk>"]]


def test_pairs_of_unlike_lengths_are_left_out_of_training_and_validation(tmp_path):
    everything, filtered = joint(tmp_path / "all"), joint(tmp_path / "some", longest=30, ratio=1.5)
    before, after = (streams.read_meta(folder)["splits"] for folder in (everything, filtered))
    for split in ("train", "valid"):
        lengths = streams.Bitext(everything, split).lengths - 1  # without the end
        long = lengths.max(1) > 30
        uneven = (lengths.max(1) > 1.5 * lengths.min(1)) & ~long
        assert after[split]["dropped"] == {
            "longer than 30 pieces": long.sum(),
            "length ratio above 1.5": uneven.sum(),
        }
        assert long.sum() == 1 and uneven.sum() >= 1
        kept = streams.Bitext(filtered, split).lengths - 1
        assert np.array_equal(kept, lengths[~long & ~uneven]) and after[split]["lines"] == len(kept)
    assert after["test"] == before["test"] and before["test"]["lines"] == 22
    vocabulary, ids = Vocabulary.read(filtered / "vocabulary.tsv"), streams.tokens(filtered, "train")
    assert np.array_equal(vocabulary.counts, np.bincount(ids, minlength=len(vocabulary)))
    pairs = streams.Bitext(filtered, "train")
    targets = Counter(i for number in range(len(pairs)) for i in pairs.pair(number)[1].tolist())
    assert vocabulary.target_counts.tolist() == [targets[i] for i in range(len(vocabulary))]


def test_left_out_pairs_are_printed_and_none_left_names_the_keys(tmp_path, capsys):
    joint(tmp_path / "some", longest=30)
    expected = "encode: train: 1 of 252 pairs are left out (longer than 30 pieces: 1)"
    assert expected in capsys.readouterr().out.splitlines()
    with pytest.raises(UserError, match=r"^vocabulary.longest, vocabulary.ratio: all 252 pairs of train are left out \(longer"):
        joint(tmp_path / "none", longest=1)


def test_a_merge_is_learnt_where_it_occurs_twice(tmp_path):
    write(tmp_path / "text", ["ab ab cd"])
    assert BPE.learn([tmp_path / "text"], 1, tmp_path / "one.json").encode(["ab"]) != [[]]
    with pytest.raises(UserError, match="vocabulary.merges: 2 cannot be learnt from this text, only 1"):
        BPE.learn([tmp_path / "text"], 2, tmp_path / "two.json")


@pytest.mark.filterwarnings("error")
def test_a_pair_at_the_limit_stays_and_one_beyond_it_goes():
    lengths = np.array([[30, 30], [31, 30], [30, 20], [19, 30], [1, 0], [0, 0], [40, 4]])
    both = PairFilter(Subword(model="bpe", merges=1, longest=30, ratio=1.5))
    assert both(lengths).tolist() == [True, False, True, False, False, True, False]
    assert both.dropped == {"longer than 30 pieces": 2, "length ratio above 1.5": 2}  # too long is not counted twice
    long = PairFilter(Subword(model="bpe", merges=1, longest=30))
    assert long(lengths).tolist() == [True, False, True, True, True, True, False]
    uneven = PairFilter(Subword(model="bpe", merges=1, ratio=1.5))
    assert uneven(lengths).tolist() == [True, True, True, False, False, True, False]


def test_what_a_tokenised_corpus_decodes_to_is_plain_text_of_the_right_language(tmp_path):
    joint(tmp_path / "tokenised")
    for split in ("train", "valid", "test"):
        for side, text in (
            ("source", "He &apos;s a well @-@ worn &quot; A &amp; B &quot; ."),
            ("target", "Das ist &quot; X @-@ Y &quot; , ja !"),
        ):
            write(tmp_path / f"tokenised/{split}.{side}", [text] * 3)
    (tmp_path / "counts.json").write_text(json.dumps({"languages": {"source": "en", "target": "de"}}))
    write(tmp_path / "test.target", ["plain"])  # for scoring; nothing is encoded from it
    meta = encode(told(PAIRS, model="bpe", merges=20), tmp_path, tmp_path / "tokens")
    assert meta["tokenised"] == {"source": "en", "target": "de"} and meta["splits"]["test"]["lines"] == 3
    source, target = streams.Bitext(tmp_path / "tokens", "test").pair(0)
    assert Tokenizer(tmp_path / "tokens").decode(target) == 'Das ist "X-Y", ja!'
    assert Tokenizer(tmp_path / "tokens", reverse=True).decode(source) == 'He\'s a well-worn "A & B".'


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ({"model": "gpt2"}, "encoder.json or vocab.bpe is missing; name the source gpt2-bpe under `sources`"),
        ({"model": "bpe", "merges": 50_000}, r"vocabulary.merges: 50000 cannot be learnt from this text, only \d+"),
        ({"model": "bpe", "merges": 5, "rows": 8}, r"vocabulary.rows: 8 are declared, but .*train\* gives \d+"),
    ],
)
def test_what_cannot_be_is_one_clear_line(tmp_path, declared, said):
    joint(tmp_path)
    with pytest.raises(UserError, match=said):
        encode(told(PAIRS, **declared), tmp_path, tmp_path / "other")


def test_the_printed_number_of_types_in_the_test_text_of_wikitext_103(tmp_path, mirror):
    """AGG tables 3 and 4: people use 10,844 + 7,146 + 300 types, line ends among them; the recipe gives just these."""
    table = tmp_path / "table"
    table.mkdir()
    (table / "held-out.yaml").write_text(
        "{licence: '', note: '', files: [{name: test.txt, mirror: wikitext-103/wiki.test.tokens.xz, bytes: 1281077,"
        " sha256: 56db52eb157b1ab5c89646eef70510c1eca6e12a3bfdb99f0d6b05b4eacb75b9}]}"
    )
    fetch("held-out", tmp_path / "raw", mirror, table=table, scratch=tmp_path / "scratch")
    text = [line.strip() for line in (tmp_path / "raw/test.txt").read_text(encoding="utf-8").split("\n")[:-1]]
    write(tmp_path / "train.txt", text)
    fetch("gpt2-bpe", tmp_path / "gpt2-bpe", mirror, scratch=tmp_path / "scratch")
    meta = encode(told(TEXT, model="gpt2"), tmp_path, tmp_path / "tokens")
    encoder, ids = Tokenizer(tmp_path / "tokens"), streams.tokens(tmp_path / "tokens", "train")
    assert len(np.unique(ids)) == 18_290 == encoder.vocabulary.types - len(SPECIALS) + 1
    assert meta["splits"]["train"] == {"tokens": 280_876, "lines": 4358}
    numbers = {"homepage": 34940, "Werewolf": 40261, "policymakers": 29484}  # in the published file
    assert {word: encoder.model.encode([word])[0][0] for word in numbers} == numbers
    ends = np.split(ids, np.flatnonzero(ids == EOS) + 1)[:-1]
    assert [encoder.decode(line) for line in ends] == text


def test_the_recipe_of_wmt14_on_its_first_pairs(tmp_path, mirror):
    """Europarl's first 5,000 pairs and both real test sets: counts, the same text back, the reverse direction."""
    raw, samples = tmp_path / "raw", []
    for side, size, digest in (
        ("en", 3070325, "4fc27e152d74d7c587b9dca8aa785da898f5995a3432155245aa064cc1862969"),
        ("de", 3473622, "c40e45eeb5b92156422a9c9781bafdab1dbbb525b09c0f410ad21943d205cafb"),
    ):
        sample = f"wmt-train-samples/europarl-v7.first20k.{side}.xz"
        samples.append({"name": f"europarl-v7.de-en.{side}", "mirror": sample, "bytes": size, "sha256": digest})
    (tmp_path / "table").mkdir()
    (tmp_path / "table/wmt14.yaml").write_text(json.dumps({"licence": "", "note": "", "files": samples}))
    fetch("wmt14", raw / "wmt14", mirror, table=tmp_path / "table", scratch=tmp_path / "scratch")
    fetch("wmt-newstest", raw / "wmt-newstest", mirror, scratch=tmp_path / "scratch")
    for side in ("en", "de"):
        text = (raw / f"wmt14/europarl-v7.de-en.{side}").read_text(encoding="utf-8").split("\n")
        for part, some in {
            "europarl-v7": text[:3000],
            "commoncrawl": text[3000:5000],
            "news-commentary-v9": [],
        }.items():
            write(raw / f"wmt14/{part}.de-en.{side}", some)
    prepare(
        "bitext", "wmt14", raw, tmp_path / "corpus", ("newstest2013",), processes=2
    )  # 3,003 and 3,000 lines are checked
    job = told(PAIRS, model="bpe", merges=3000, longest=250, ratio=1.5)
    meta = encode(job, tmp_path / "corpus", tmp_path / "tokens")["splits"]
    prepared = json.loads((tmp_path / "corpus/counts.json").read_text())["splits"]
    for split, pairs in (("train", 4950), ("valid", 50)):
        assert prepared[split]["lines"] + prepared[split]["dropped"]["empty"] == pairs
        assert meta[split]["lines"] + sum(meta[split]["dropped"].values()) == prepared[split]["lines"]
    assert 0.7 < meta["train"]["lines"] / 4950 < 0.95  # about 4.0 of 4.5 million in full
    for test, count in (("test", 3003), ("newstest2013", 3000)):
        pairs = streams.Bitext(tmp_path / "tokens", test)
        assert len(pairs) == count
        for side, reverse in (("source", True), ("target", False)):
            encoder = Tokenizer(tmp_path / "tokens", reverse)
            ids = [pairs.pair(number)[not reverse] for number in range(300)]
            known = [number for number in range(300) if UNK not in ids[number]]
            plain = (tmp_path / f"corpus/{test}.{side}").read_text(encoding="utf-8").split("\n")
            back = [encoder.decode(ids[number]) for number in known]
            assert len(known) > 280 and sacre_bleu(back, [plain[number] for number in known])[0] > 99
