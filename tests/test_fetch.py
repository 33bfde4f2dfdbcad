"""Fetching against real servers, real archives and a real kill: nothing here leaves this machine."""

import hashlib
import io
import lzma
import os
import signal
import subprocess
import sys
import tarfile
import time
import zipfile
from pathlib import Path

import pytest
import yaml
from tiny.fetching import DATA, digest, from_mirror, get, table, tarred, zipped
from tiny.file_server import Answer, FileServer, serving

from raretokens.errors import UserError
from reproduction.corpora.sources import TABLE, Source

ROOT = Path(__file__).parents[1]


@pytest.fixture
def server():
    """Serves `files`; `mode` may be no-range, cut or slow."""

    def answer(path: str, _start: int) -> Answer:
        if path not in running.files:
            return Answer(error=404)
        sent, pause = running.cut if running.mode == "cut" else None, 0.1 if running.mode == "slow" else 0.0
        return Answer(running.files[path], has_ranges=running.mode != "no-range", sent=sent, pause=pause)

    with serving(FileServer(answer)) as running:
        running.files, running.mode, running.cut = {"/data.bin": DATA}, "", 150_000
        yield running


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    return tmp_path


def begun(data: bytes) -> Path:
    part = Path("data/scratch/downloads/tiny/data.bin.part")
    part.parent.mkdir(parents=True)
    part.write_bytes(data)
    return part


def test_the_mirror_comes_first_and_may_be_packed(place, server):
    Path("mirror/tiny").mkdir(parents=True)
    Path("mirror/tiny/data.bin.xz").write_bytes(lzma.compress(DATA))
    into = get(table(mirror="tiny/data.bin.xz", urls=[f"{server.root}/data.bin"]), Path("mirror"))
    assert (into / "data.bin").read_bytes() == DATA
    assert not server.seen and not Path("data/scratch/downloads/tiny").exists()


@pytest.mark.parametrize(
    ("mode", "start"),
    [
        ("", b""),
        ("", DATA[:100_000]),
        ("", DATA),
        ("", b"corrupt" * 1000),
        ("", DATA + b"too long"),
        ("no-range", DATA[:100_000]),
        ("cut", DATA[:50_000]),
    ],
    ids=["fresh", "resumed", "complete", "corrupt", "too-long", "range-ignored", "cut-twice"],
)
def test_a_begun_download_ends_with_the_right_bytes(place, server, mode, start):
    server.mode = mode
    if start:
        begun(start)
    into = get(table(urls=[f"{server.root}/data.bin"]))
    assert (into / "data.bin").read_bytes() == DATA
    if start in (DATA[:100_000], DATA[:50_000]):
        assert server.seen[0][1] == f"bytes={len(start)}-"
    assert not list(place.rglob("*.part"))


def test_a_place_whose_file_is_shorter_than_what_was_begun_is_asked_for_all_of_it(place, server):
    """It answers 416; what is here cannot be of its file, so nothing of it stays."""
    server.files["/short.bin"] = DATA[:200_000]
    begun(b"x" * 300_000)
    into = get(table(urls=[f"{server.root}/short.bin", f"{server.root}/data.bin"]))
    assert (into / "data.bin").read_bytes() == DATA
    asked = [("/short.bin", "bytes=300000-"), ("/short.bin", None), ("/data.bin", "bytes=200000-")]
    assert server.seen == asked


def test_every_place_that_failed_is_named_in_one_line(place, server):
    server.files |= {"/wrong.bin": b"x" * len(DATA), "/long.bin": DATA + b"x"}
    urls = [f"{server.root}/{name}" for name in ("wrong.bin", "long.bin", "missing.bin")] + [
        "http://127.0.0.1:9/data.bin"
    ]
    secret = ["http://user:secret@127.0.0.1:9/data.bin?token=secret"]
    with pytest.raises(UserError) as caught:
        get(table(urls=urls + secret), Path("mirror"))
    line = str(caught.value)
    assert "\n" not in line and line.startswith("tiny: data.bin") and "secret" not in line
    reasons = ("wrong content", "more than the 400000 bytes", "HTTP status 404", "unreachable")
    for expected in (digest(DATA), "mirror/tiny/data.bin: no such file", *reasons, *urls):
        assert expected in line
    assert not Path("data/raw").exists() and not list(place.rglob("*.part"))


def test_a_short_file_stays_for_the_next_call(place, server):
    server.mode, server.cut = "cut", 60_000
    path = table(urls=[f"{server.root}/data.bin"])
    with pytest.raises(UserError, match="180000 of 400000 bytes are here"):
        get(path)
    assert not Path("data/raw").exists()
    server.mode = ""
    assert (get(path) / "data.bin").read_bytes() == DATA
    assert server.seen[-1][1] == "bytes=180000-"


def test_a_copy_in_another_archive_serves_where_the_file_cannot_be_had(place, server):
    whole, copy = tarred(("in/text", b"a\nb\n", tarfile.REGTYPE)), zipped(("in/text", b"a\nb\n", 0))
    server.files["/copy.zip"] = copy
    url = f"{server.root}/copy.zip"
    row = {"name": "copy.zip", "urls": [url], "bytes": len(copy), "sha256": digest(copy)}
    path = table(whole, "a.tgz", urls=[f"{server.root}/a.tgz"], unpack={"in/text": {"lines": 2}}, copies=[row])
    assert (get(path) / "text").read_bytes() == b"a\nb\n"
    del server.files["/copy.zip"]
    with pytest.raises(UserError, match=f"tiny: a.tgz: not fetched.*/a.tgz: HTTP status 404.*; {url}: HTTP status 404"):
        get(path)


def test_md5_serves_where_no_sha256_is_published(place, server):
    weak, url = hashlib.md5(DATA).hexdigest(), f"{server.root}/data.bin"
    assert (get(table(urls=[url], sha256=None, md5=weak)) / "data.bin").read_bytes() == DATA
    with pytest.raises(UserError, match=f"expected md5 {'0' * 32}.*wrong content, its md5 is {weak}"):
        get(table(urls=[url], sha256=None, md5="0" * 32))
    for more in ({"sha256": None}, {"md5": weak}):
        with pytest.raises(UserError, match="table/tiny.yaml: files.0: .* data.bin: declare sha256, or md5"):
            get(table(urls=[url], **more))


def test_a_member_with_another_number_of_lines_is_refused(place):
    with pytest.raises(UserError, match="tiny: a.zip: in/text: 2 lines instead of 1,920,209"):
        from_mirror(zipped(("in/text", b"a\nb\n", 0)), "a.zip", unpack={"in/text": {"lines": 1920209}})
    assert not Path("data/raw").exists()


def call(path: Path) -> list[str]:
    """The stage, with another table of sources."""
    Path("params.yaml").write_text("mirror: null\n")
    code = (
        "import sys; from functools import partial; from pathlib import Path; from reproduction.corpora import download;"
        "from reproduction.pipeline import __main__ as pipeline; sys.argv = ['stages/run', 'fetch', 'tiny'];"
        f"download.fetch = partial(download.fetch, table=Path({str(path)!r})); pipeline.main()"
    )
    return [sys.executable, "-c", code]


def environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(ROOT / "src"), "PYTHONDONTWRITEBYTECODE": "1"}


def test_killed_and_resumed(place, server):
    server.mode = "slow"
    path = table(urls=[f"{server.root}/data.bin"])
    part = Path("data/scratch/downloads/tiny/data.bin.part")
    running = subprocess.Popen(call(path), env=environment(), stderr=subprocess.DEVNULL)
    until = time.monotonic() + 20
    while not (part.exists() and part.stat().st_size) and time.monotonic() < until:
        time.sleep(0.01)
    running.send_signal(signal.SIGKILL)
    running.wait()
    have = part.stat().st_size
    assert 0 < have < len(DATA) and not Path("data/raw").exists()
    server.mode = ""
    assert (get(path) / "data.bin").read_bytes() == DATA
    assert server.seen[-1][1] == f"bytes={have}-"


def test_a_package_comes_from_the_configured_index_and_is_not_run(place, server, monkeypatch):
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as wheel:
        wheel.writestr("tiny/text.py", "raise SystemExit('executed')")
        wheel.writestr("tiny/other.py", "")
    data, name = archive.getvalue(), "tiny-1.0-py3-none-any.whl"
    link = f'<html><body><a href="/files/{name}#sha256={digest(data)}">{name}</a></body></html>'
    server.files |= {"/simple/tiny/": link.encode(), f"/files/{name}": data}
    monkeypatch.setenv("PIP_INDEX_URL", f"{server.root}/simple")
    unpack = {"tiny/text.py": {"to": "text.txt"}}
    into = get(table(data, name, package={"project": "tiny", "version": "1.0"}, unpack=unpack))
    assert [file.name for file in into.iterdir()] == ["text.txt"]
    monkeypatch.delenv("PIP_INDEX_URL")  # now from pip's own configuration
    Path("pip.py").write_text("print('http://user:secret@127.0.0.1:9/simple')")  # found first by `python -m`
    monkeypatch.delenv("UV_DEFAULT_INDEX", raising=False)
    monkeypatch.delenv("UV_INDEX_URL", raising=False)
    with pytest.raises(UserError, match="package tiny 1.0: the package index cannot be reached") as caught:
        get(table(data, name, package={"project": "tiny", "version": "1.0"}))
    assert "secret" not in str(caught.value)


def test_sacrebleu_is_asked_for_a_test_set(place):
    # A stand-in: `python -m` looks in the current folder first.
    Path("sacrebleu.py").write_text("import os, sys; open('asked', 'w').write(' '.join(sys.argv[1:])); print('a\\nb')")
    wanted = {"set": "wmt13", "pair": "en-de", "side": "src"}
    into = get(table(b"a\nb\n", sacrebleu=wanted, lines=2))
    assert (into / "data.bin").read_text() == "a\nb\n"
    assert Path("asked").read_text() == "-t wmt13 -l en-de --echo src"
    with pytest.raises(UserError, match="sacreBLEU wmt13 en-de: 2 lines instead of 3"):
        get(table(b"a\nb\n", sacrebleu=wanted, lines=3))
    assert (into / "data.bin").exists()


def test_a_mirror_s_file_is_checked_like_any_other(place, server):
    Path("mirror/tiny").mkdir(parents=True)
    Path("mirror/tiny/data.bin").write_bytes(DATA[:-1] + b"x")
    assert (get(table(urls=[f"{server.root}/data.bin"]), Path("mirror")) / "data.bin").read_bytes() == DATA
    with pytest.raises(
        UserError, match="mirror mirror/tiny/data.bin: not readable .wrong content|data.bin: wrong content"
    ):
        get(table(), Path("mirror"))


def test_a_source_without_any_address_says_so(place, server):
    page = (ROOT / "docs/parameters.md").read_text(encoding="utf-8")
    for mirror, tried in (
        (None, "no place.*RARETOKENS_MIRROR"),
        (Path("mirror"), "mirror mirror/tiny/data.bin: no such file"),
    ):
        with pytest.raises(UserError, match=f"{tried}.*tiny has no address for it.*parameters.md, Without a mirror$"):
            get(table(), mirror)
    assert "\n## Without a mirror\n" in page
    with pytest.raises(UserError) as caught:
        get(table(urls=[f"{server.root}/none"]))
    assert "has no address" not in str(caught.value)


def test_a_source_is_fetched_anew_into_a_folder_that_is_there(place, server):
    into = Path("data/raw/tiny")
    into.mkdir(parents=True)
    (into / "old").write_text("old")
    assert [file.name for file in get(table(urls=[f"{server.root}/data.bin"])).iterdir()] == ["data.bin"]


@pytest.mark.parametrize(
    "url", ["no address", "http://[::1", "http://", "gopher://x/y", "http://..", "http://a b/\x00"]
)
def test_an_address_that_is_none_is_one_line(place, url):
    with pytest.raises(UserError, match="tiny: data.bin: not fetched") as caught:
        get(table(urls=[url]))
    assert "\n" not in str(caught.value)


def test_the_table_is_sound():
    for path in TABLE.glob("*.yaml"):
        name, source = path.stem, Source.model_validate(yaml.safe_load(path.read_text()))
        for file in source.files:
            found = source.urls or file.urls or file.package or (file.sacrebleu and file.lines)
            only_a_mirror = file.mirror and "Only a mirror has" in source.note
            assert found or only_a_mirror or any(copy.urls for copy in file.copies), (name, file.name)
    with pytest.raises(ValueError, match="pattern"):
        Source.model_validate({"licence": "", "note": "", "files": [{"name": "../x", "bytes": 1, "sha256": "0" * 64}]})


def test_a_mistake_in_the_entry_of_a_source_is_one_line(place):
    with pytest.raises(UserError) as caught:
        get(table(unpack={"in/text": {"too": "x"}}))
    said = "files.0.unpack.in/text.too: unknown key (value 'x'); the nearest is to"
    assert str(caught.value) == f"table/tiny.yaml: {said}"


def test_the_stage_names_the_known_sources(place):
    Path("params.yaml").write_text((ROOT / "params.yaml").read_text())
    done = subprocess.run([ROOT / "stages/run", "1", "fetch", "nosuch"], capture_output=True, text=True)
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert "'nosuch' is not known" in done.stderr and "bible-web" in done.stderr
