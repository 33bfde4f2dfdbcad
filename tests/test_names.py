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


def test_every_word_of_a_command_that_comes_from_params_is_quoted():
    stages = yaml.safe_load((world.ROOT / "dvc.yaml").read_text())["stages"]
    for stage in stages.values():
        words = stage.get("do", stage)["cmd"].split(" ")
        assert all(word.startswith("'") and word.endswith("'") for word in words if "${" in word)
