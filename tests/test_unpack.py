"""Archives: only the members that are wanted come out, and an evil archive leaves nothing."""

import stat
import tarfile
from pathlib import Path

import pytest
from tiny.fetching import get, table, tarred, zipped

from raretokens.errors import UserError

EVIL = [
    ("a.zip", zipped(("in/text", b"/etc/passwd", stat.S_IFLNK | 0o777)), "no regular file"),
    ("a.tar.gz", tarred(("in/text", b"", tarfile.SYMTYPE)), "no regular file"),
    ("a.tar.gz", tarred(("in/text", b"", tarfile.LNKTYPE)), "no regular file"),
    ("a.tgz", tarred(("in/text", b"", tarfile.CHRTYPE)), "no regular file"),
    ("a.zip", zipped(("in/text", bytes(5_000_000), 0)), "more than the 1000000 bytes"),
    ("a.zip", zipped(("other", b"text", 0)), "lacks in/text"),
    ("a.zip", zipped(("in/text", b"text", 0))[:-30], "not a readable archive"),
    ("a.tar.gz", tarred(("in/text", b"text" * 1000, tarfile.REGTYPE))[:-30], "not a readable archive"),
]


@pytest.mark.parametrize(("name", "data", "reason"), EVIL, ids=[f"{row[0]}-{row[2]}" for row in EVIL])
def test_an_evil_archive_leaves_nothing(in_tmp_path, name, data, reason):
    Path("mirror/tiny").mkdir(parents=True)
    Path("mirror/tiny", name).write_bytes(data)
    with pytest.raises(UserError, match=reason) as caught:
        get(table(data, name, unpack={"in/text": {}}), Path("mirror"))
    assert "\n" not in str(caught.value) and not Path("data/raw").exists()
    assert [file.name for file in in_tmp_path.rglob("data/scratch/downloads/tiny/*")] == [
        name
    ]  # the archive, nothing out of it


TWICE = [
    (
        "a.zip",
        zipped(("in/text", b"one", 0), ("in/text", b"two", 0), ("in/more", b"", 0)),
        {"in/text": {}, "in/more": {}},
        "in/text is in it twice",
    ),
    (
        "a.tar.gz",
        tarred(*(("in/text", text, tarfile.REGTYPE) for text in (b"one", b"two")), ("in/more", b"", tarfile.REGTYPE)),
        {"in/text": {}, "in/more": {}},
        "in/text is in it twice",
    ),
    (
        "a.zip",
        zipped(("a/text", b"one", 0), ("b/text", b"two", 0)),
        {"a/text": {}, "b/text": {}},
        "there is another text; name",
    ),
    ("a.zip", zipped(("in/..", b"one", 0)), {"in/..": {}}, "in/..: no name for a file; name it by `to`"),
]


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize(("name", "data", "unpack", "reason"), TWICE)
def test_no_member_takes_the_place_of_another_or_of_a_folder(in_tmp_path, name, data, unpack, reason):
    Path("mirror/tiny").mkdir(parents=True)
    Path("mirror/tiny", name).write_bytes(data)
    with pytest.raises(UserError, match=reason) as caught:
        get(table(data, name, unpack=unpack), Path("mirror"))
    assert "\n" not in str(caught.value) and not Path("data/raw").exists()


def test_members_are_counted_together_and_each_against_its_declared_size(in_tmp_path):
    data = zipped(("in/one", bytes(600), 0), ("in/two", bytes(600), 0))
    Path("mirror/tiny").mkdir(parents=True)
    Path("mirror/tiny/a.zip").write_bytes(data)
    unpack = {"in/one": {}, "in/two": {}}
    with pytest.raises(UserError, match="in/two: unpacks to more than the 399 bytes allowed"):
        get(table(data, "a.zip", limit=999, unpack=unpack), Path("mirror"))
    with pytest.raises(UserError, match="in/one: unpacks to more than the 599 bytes allowed"):
        get(table(data, "a.zip", unpack=unpack | {"in/one": {"bytes": 599}}), Path("mirror"))
    with pytest.raises(UserError, match="in/one: 600 bytes instead of 601"):
        get(table(data, "a.zip", unpack=unpack | {"in/one": {"bytes": 601}}), Path("mirror"))
    assert (get(table(data, "a.zip", limit=1200, unpack=unpack), Path("mirror")) / "two").read_bytes() == bytes(600)


@pytest.mark.parametrize("kind", ["zip", "tar.gz"])
def test_only_the_wanted_members_are_written(in_tmp_path, kind):
    absolute = in_tmp_path / "elsewhere" / "absolute"
    names = ["../outside", str(absolute), "in/text", "in/unwanted"]
    if kind == "zip":
        data = zipped(*((name, b"text", 0) for name in names))
    else:
        data = tarred(*((name, b"text", tarfile.REGTYPE) for name in names), ("in/link", b"", tarfile.SYMTYPE))
    Path("mirror/tiny").mkdir(parents=True)
    Path(f"mirror/tiny/a.{kind}").write_bytes(data)
    into = get(table(data, f"a.{kind}", unpack={"in/text": {"bytes": 4}}), Path("mirror"))
    assert [file.name for file in into.iterdir()] == ["text"]
    assert not list(in_tmp_path.rglob("outside")) and not absolute.parent.exists()
