"""Names reach shell commands and paths of DVC: none that means something there gets so far."""

import pytest
import yaml
from tiny import world

from raretokens.errors import UserError
from raretokens.yaml_files import checked
from reproduction.pipeline.parameters_file import schema

BAD = ["$(touch x)", ";touch x", "a b", "a/b", "../x", ".", "", "A", "-a", "a_b", "a'b", "a\n"]
PLACES = ["runs.nmt", "corpora", "tokens", "alignments", "own", "lm.models"]


def renamed(place: str, name: str) -> dict:
    """The tiny parameters with the first entry of a section called otherwise."""
    tree = world.parameters()
    *sections, last = place.split(".")
    node = tree
    for section in sections:
        node = node[section]
    first = next(iter(node[last]))
    node[last] = {name: node[last].pop(first), **node[last]}
    return tree


@pytest.mark.parametrize(("place", "name"), [*(("runs.lm", name) for name in BAD), *((place, "a b") for place in PLACES)])
def test_only_plain_names_pass(place, name):
    with pytest.raises(UserError) as error:
        checked(schema(), renamed(place, name), "params.yaml")
    assert str(error.value).startswith(
        f"params.yaml: {place}.{name}: {name!r} is not allowed: string should match pattern"
    )


def test_dvc_neither_deletes_nor_runs_anything_by_a_bad_name(tmp_path):
    """`jobs` checks params.yaml before any other stage, and a name is quoted where its stage alone is asked for."""
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious/file").write_text("precious")
    folder, tree = world.create(tmp_path / "project"), world.parameters()
    tree["own"] = {"../../../../precious": "texts/train.source", **tree["own"]}
    tree["runs"]["lm"] = {";touch x": tree["runs"]["lm"]["mle"], "$(touch x)": tree["runs"]["lm"]["mle"]}
    (folder / "params.yaml").write_text(yaml.safe_dump(tree, sort_keys=False))
    done = world.run(folder, "dvc", "repro", check=False)
    for section, name in (("own", "../../../../precious"), ("runs.lm", ";touch x"), ("runs.lm", "$(touch x)")):
        assert f"params.yaml: {section}.{name}: {name!r} is not allowed" in done.stderr
    assert world.run(folder, "dvc", "repro", "-s", "train-lm@;touch x", check=False).returncode
    assert done.returncode and (tmp_path / "precious/file").read_text() == "precious"
    assert not list(tmp_path.rglob("x"))


def test_every_word_of_a_command_that_comes_from_params_is_quoted():
    stages = yaml.safe_load((world.ROOT / "dvc.yaml").read_text())["stages"]
    for stage in stages.values():
        words = stage.get("do", stage)["cmd"].split(" ")
        assert all(word.startswith("'") and word.endswith("'") for word in words if "${" in word)
