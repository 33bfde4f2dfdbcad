"""Archives: only the members that are wanted come out, and an evil archive leaves nothing."""

import stat
import tarfile
from pathlib import Path

import pytest
from tiny.fetching import from_mirror, tarred, zipped

from raretokens.errors import UserError

IN = {"in/text": {}}
MORE = {"in/text": {}, "in/more": {}}
REFUSED = [
    ("a.zip", zipped(("in/text", b"/etc/passwd", stat.S_IFLNK | 0o777)), IN, "no regular file"),
    ("a.tar.gz", tarred(("in/text", b"", tarfile.SYMTYPE)), IN, "no regular file"),
    ("a.tar.gz", tarred(("in/text", b"", tarfile.LNKTYPE)), IN, "no regular file"),
    ("a.tgz", tarred(("in/text", b"", tarfile.CHRTYPE)), IN, "no regular file"),
    ("a.zip", zipped(("in/text", bytes(5_000_000), 0)), IN, "more than the 1000000 bytes"),
    ("a.zip", zipped(("other", b"text", 0)), IN, "lacks in/text"),
    ("a.zip", zipped(("in/text", b"text", 0))[:-30], IN, "not a readable archive"),
    ("a.tar.gz", tarred(("in/text", b"text" * 1000, tarfile.REGTYPE))[:-30], IN, "not a readable archive"),
    ("a.zip", zipped(("in/text", b"one", 0), ("in/text", b"two", 0), ("in/more", b"", 0)), MORE, "in/text is in it twice"),
    ("a.tgz", tarred(*(("in/text", text, tarfile.REGTYPE) for text in (b"1", b"2"))), MORE, "in/text is in it twice"),
    ("a.zip", zipped(("a/text", b"one", 0), ("b/text", b"two", 0)), {"a/text": {}, "b/text": {}}, "there is another text; name"),
    ("a.zip", zipped(("in/..", b"one", 0)), {"in/..": {}}, "in/..: no name for a file; name it by `to`"),
]


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize(("name", "data", "unpack", "reason"), REFUSED, ids=[f"{row[0]}-{row[3]}" for row in REFUSED])
def test_an_evil_archive_leaves_nothing(in_tmp_path, name, data, unpack, reason):
    with pytest.raises(UserError, match=reason) as caught:
        from_mirror(data, name, unpack=unpack)
    assert "\n" not in str(caught.value) and not Path("data/raw").exists()
    assert [file.name for file in in_tmp_path.rglob("data/scratch/downloads/tiny/*")] == [name]  # nothing out of the archive


def test_members_are_counted_together_and_each_against_its_declared_size(in_tmp_path):
    data = zipped(("in/one", bytes(600), 0), ("in/two", bytes(600), 0))
    unpack = {"in/one": {}, "in/two": {}}
    for limit, size, message in (
        (999, None, "in/two: unpacks to more than the 399 bytes allowed"),
        (10**6, 599, "in/one: unpacks to more than the 599 bytes allowed"),
        (10**6, 601, "in/one: 600 bytes instead of 601"),
    ):
        with pytest.raises(UserError, match=message):
            from_mirror(data, "a.zip", limit=limit, unpack=unpack | {"in/one": {"bytes": size}})
    assert (from_mirror(data, "a.zip", limit=1200, unpack=unpack) / "two").read_bytes() == bytes(600)


@pytest.mark.parametrize("kind", ["zip", "tar.gz"])
def test_only_the_wanted_members_are_written(in_tmp_path, kind):
    absolute = in_tmp_path / "elsewhere" / "absolute"
    names = ["../outside", str(absolute), "in/text", "in/unwanted"]
    if kind == "zip":
        data = zipped(*((name, b"text", 0) for name in names))
    else:
        data = tarred(*((name, b"text", tarfile.REGTYPE) for name in names), ("in/link", b"", tarfile.SYMTYPE))
    into = from_mirror(data, f"a.{kind}", unpack={"in/text": {"bytes": 4}})
    assert [file.name for file in into.iterdir()] == ["text"]
    assert not list(in_tmp_path.rglob("outside")) and not absolute.parent.exists()
