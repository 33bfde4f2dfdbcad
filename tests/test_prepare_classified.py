"""Preparing documents and images with a class each, from tiny raw files made here."""

import gzip
import hashlib
import io
import json
import struct
import tarfile
from pathlib import Path

import numpy as np
import pytest
from test_prepare import put, translation

from raretokens.errors import UserError
from raretokens.vocabulary import EOS
from reproduction.corpora.download import fetch
from reproduction.corpora.registry import prepare
from reproduction.corpora.tokenization.encode import encode
from reproduction.corpora.tokenization.settings import EncodeJob as Job
from reproduction.corpora.tokenization.token_files import (
    add_labels_and_images,
    read_images,
    read_labels,
    read_meta,
    tokens,
)

pytestmark = pytest.mark.usefixtures("in_tmp_path")
RAW, OUT, TOKENS = Path("raw"), Path("corpus/out"), Path("tokens/out")
GROUPS = ("alt.atheism", "comp.graphics", "comp.windows.x", "rec.autos", "sci.space", "talk.politics.guns",
          "soc.religion.christian", "talk.religion.misc")  # fmt: skip


def archive(path: Path, members: dict[str, bytes]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as out:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            out.addfile(info, io.BytesIO(content))


def rows(path: Path, objects: list[dict]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in objects))


def prepared(kind: str, corpus: str, out: Path = OUT) -> dict[str, list[str]]:
    """Without published counts: split -> class and text of each document, or its class."""
    prepare(kind, corpus, RAW, out, table=Path("no-table"))
    found = {}
    for split in ("train", "valid", "test"):
        texts = (out / f"{split}.txt").read_text(encoding="utf-8").split("\n")[:-1]
        labels = (out / f"{split}.labels").read_text().split("\n")[:-1] if kind == "documents" else texts
        found[split] = [f"{label}: {text}" for label, text in zip(labels, texts, strict=True)]
    return found


def post(split: str, group: str, number: int) -> str:
    return f"From: b\xe9\nSubject:  {group}\n\n{split} {number}\n"


def test_newsgroups_are_the_same_from_the_archive_and_from_a_sample():
    posts = [(split, group, number) for split in ("train", "test") for group in GROUPS for number in (12, 9)]
    members = {f"20news-bydate-{s}/{g}/{n}": post(s, g, n).encode("latin-1") for s, g, n in reversed(posts)}
    for corpus in ("20news", "20news-4"):
        archive(RAW / corpus / "20news-bydate.tar.gz", members)
    whole, four = prepared("documents", "20news"), prepared("documents", "20news-4")
    assert {line.split(":")[0] for line in whole["test"]} == {"computers", "politics", "recreation", "religion"}
    assert len(whole["train"]) + len(whole["valid"]) == len(whole["test"]) == 14  # sci.space is of no kind
    assert four["test"][0] == "alt.atheism: From: b\xe9 Subject: alt.atheism test 9"
    assert len(four["valid"]) == 1 and len(four["train"]) == 7
    (RAW / "20news-4/20news-bydate.tar.gz").unlink()
    for split in ("train", "test"):
        rows(RAW / f"20news-4/{split}.jsonl", [{"id": f"{s}/{g}/{n}", "label": g, "text": post(s, g, n)}
             for s, g, n in posts if s == split and g in four_groups(four)])  # fmt: skip
    assert prepared("documents", "20news-4") == four


def four_groups(four: dict[str, list[str]]) -> set[str]:
    return {line.split(":")[0] for line in four["test"]}


def test_film_reviews_are_the_same_from_the_archive_and_from_a_sample():
    ids = (0, 1, 2, 1999, 2000, 12)
    reviews = [(s, side, i) for s in ("train", "test") for side in ("pos", "neg") for i in ids]
    text = "good<br /><br />film {} \u2019s".format
    members = {f"aclImdb/{s}/{side}/{i}_7.txt": text(i).encode() for s, side, i in reviews}
    members |= {"aclImdb/train/unsup/3_0.txt": b"no class", "aclImdb/imdb.vocab": b"good"}
    for corpus in ("imdb", "imdb-sample"):
        archive(RAW / corpus / "aclImdb_v1.tar.gz", members)
    whole, sample = prepared("documents", "imdb"), prepared("documents", "imdb-sample")
    assert len(whole["test"]) == 12 and whole["test"][0] == "negative: good film 0 \u2019s"
    assert (
        len(sample["test"]) == 10 and len(sample["train"]) + len(sample["valid"]) == 9
    )  # without 2000 and train/pos/0
    (RAW / "imdb-sample/aclImdb_v1.tar.gz").unlink()
    for split in ("train", "test"):
        rows(RAW / f"imdb-sample/{split}.jsonl", [{"id": f"{s}/{side}/{i}_7", "text": text(i)}
             for s, side, i in reviews if s == split])  # fmt: skip
    assert prepared("documents", "imdb-sample") == sample


def test_news_of_four_topics():
    (RAW / "ag-news").mkdir(parents=True)
    lines = [f'"{1 + i % 4}","Title {i}","He said ""no""\\and left"' for i in range(40)]
    for split in ("train", "test"):
        (RAW / f"ag-news/{split}.csv").write_text("\n".join(lines) + "\n")
    found = prepared("documents", "ag-news")
    assert found["test"][1] == 'sports: Title 1 He said "no" and left'
    assert [len(found[split]) for split in ("train", "valid", "test")] == [38, 2, 40]
    (RAW / "ag-news/train.csv").write_text('"5","a","b"\n')
    with pytest.raises(UserError, match="train.csv: row 1 is not a class from 1 to 4"):
        prepared("documents", "ag-news")
    assert not Path("corpus/out.part").exists()


def test_verses_have_the_class_of_their_book_and_passages_end_with_a_chapter():
    books = {1: "law-and-history", 17: "law-and-history", 18: "wisdom", 22: "wisdom", 23: "prophets", 39: "prophets",
             40: "new-testament", 66: "new-testament"}  # fmt: skip
    numbers = [(book, chapter, verse) for book in books for chapter in range(1, 6) for verse in range(1, 7)]
    text = {1_000_000 * book + 1000 * chapter + verse: f"b{book} c{chapter} v{verse}. " for book, chapter, verse in numbers}
    put("bible-web/verses.py.txt", translation(text))
    verses, passages = prepared("documents", "bible-verses"), prepared("documents", "bible-passages")
    for line in verses["train"]:
        label, book = line.split(": b")[0], int(line.split(": b")[1].split()[0])
        assert books[book] == label
    assert len(verses["test"]) == 12 and len(passages["test"]) == 4  # two chapters: of four verses, and of two
    assert [line.count(" v") for line in passages["train"][:2]] == [4, 2]


def test_digits_are_bright_up_to_255():
    image = [0, 16, 8] + [1] * 61
    (RAW / "digits").mkdir(parents=True)
    with gzip.open(RAW / "digits/digits.csv.gz", "wt") as out:
        out.writelines(",".join(map(str, [*image, i % 10])) + "\n" for i in range(20))
    assert [line[0] for line in prepared("images", "digits")["test"]] == ["8", "9", "8", "9"]
    pixels = np.fromfile(OUT / "test.images", np.uint8).reshape(4, 64)
    assert pixels[0, :4].tolist() == [0, 255, 128, 16]
    with gzip.open(RAW / "digits/digits.csv.gz", "at") as out:
        out.write("1,2\n")
    with pytest.raises(UserError, match="line 21 is not 64 pixels from 0 to 16 and a digit"):
        prepared("images", "digits")


def idx(name: str, values: np.ndarray) -> None:
    (RAW / "mnist-t10k").mkdir(parents=True, exist_ok=True)
    header = bytes((0, 0, 8, values.ndim)) + struct.pack(f">{values.ndim}I", *values.shape)
    (RAW / "mnist-t10k" / name).write_bytes(header + values.tobytes())


def test_images_and_their_classes_reach_the_token_files():
    random = np.random.default_rng(0)
    pixels, digits = random.integers(0, 256, (100, 4, 4), dtype=np.uint8), random.integers(0, 10, 100, dtype=np.uint8)
    idx("t10k-images-idx3-ubyte", pixels), idx("t10k-labels-idx1-ubyte", digits)
    prepared("images", "mnist-t10k")
    words = {"model": "words", "size": None, "tokenise": False}
    encode(Job(name="out", sides=(".txt",), vocabulary=words), OUT, TOKENS)
    assert add_labels_and_images(OUT, TOKENS)["pixels"] == 16
    found, ids = read_images(TOKENS, "test")
    kept = np.arange(100) % 10 == 9
    assert (found == pixels[kept].reshape(10, 16)).all()
    names = [line.split("\t")[0] for line in (TOKENS / "vocabulary.tsv").read_text().split("\n")[1:]]
    assert [names[i] for i in ids] == digits[kept].astype(str).tolist()
    with pytest.raises(UserError, match="not an idx file of bytes in 1 dimensions"):
        idx("t10k-labels-idx1-ubyte", digits[None])
        prepared("images", "mnist-t10k")


def test_labels_are_numbered_and_as_many_as_the_documents():
    OUT.mkdir(parents=True)
    for split, classes in (("train", "baca"), ("valid", "ab"), ("test", "c")):
        (OUT / f"{split}.txt").write_text("".join(f"word number {n}\n" for n, _ in enumerate(classes)))
        (OUT / f"{split}.labels").write_text("".join(f"{name}\n" for name in classes))
    words = {"model": "words", "size": None, "tokenise": True}
    encode(Job(name="out", sides=(".txt",), vocabulary=words), OUT, TOKENS)
    add_labels_and_images(OUT, TOKENS)
    assert read_meta(TOKENS)["classes"] == ["a", "b", "c"]
    assert read_labels(TOKENS, "train").tolist() == [1, 0, 2, 0]
    assert (tokens(TOKENS, "train") == EOS).sum() == 4
    (OUT / "valid.labels").write_text("a\n")
    with pytest.raises(UserError, match="valid.labels: 1 entries for 2"):
        add_labels_and_images(OUT, TOKENS)
    (OUT / "valid.labels").write_text("a\nd\n")
    with pytest.raises(UserError, match="valid.labels: d is no class of the training text"):
        add_labels_and_images(OUT, TOKENS)


def test_one_archive_may_stand_for_several_files():
    table, mirror = Path("table"), Path("mirror/both")
    for folder in (table, mirror):
        folder.mkdir(parents=True)
    archive(mirror / "whole.tar.gz", {"a": b"x"})
    content = (mirror / "whole.tar.gz").read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    whole = f"{{name: whole.tar.gz, bytes: {len(content)}, sha256: {digest}}}"
    files = "".join(f"  - {{name: {name}, bytes: 1, sha256: {'a' * 64}, copies: [{whole}]}}\n" for name in ("a", "b"))
    (table / "both.yaml").write_text(f"licence: none\nnote: two files\nfiles:\n{files}")
    fetch("both", RAW / "both", Path("mirror"), table, Path("scratch"))
    assert [path.name for path in (RAW / "both").iterdir()] == ["whole.tar.gz"]
