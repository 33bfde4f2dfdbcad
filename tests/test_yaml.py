"""How YAML is read: as DVC reads it, and what cannot be read or reads differently elsewhere is refused in one line."""

import re
from pathlib import Path

import pytest
from dvc.utils.hydra import apply_overrides
from dvc.utils.serialize import parse_yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from raretokens.errors import UserError
from raretokens.yaml_files import parsed_yaml
from reproduction.pipeline.parameters_file import load

ROOT = Path(__file__).parents[1]


@settings(max_examples=500, deadline=None)
@example("1:30")  # 90 in YAML 1.1
@given(st.text("0123456789_.-+:eExobnNyYaAtTfFuUrRlLsS~ ", min_size=1, max_size=7))
def test_a_scalar_is_what_dvc_reads_or_is_refused(scalar):
    text = f"key: {scalar}\n"
    try:
        found = parsed_yaml(text.encode(), "params.yaml")
    except UserError:
        return
    read = parse_yaml(text, "params.yaml")
    assert repr(found) == repr(read)


@pytest.mark.parametrize("language", ["no", "'no'", "on"])
def test_a_language_code_is_text_also_after_dvc_has_rewritten_the_file(tmp_path, language):
    path, text = tmp_path / "params.yaml", (ROOT / "params.yaml").read_text(encoding="utf-8")
    declared = f"    task: nmt\n    corpus: own\n    languages: {{source: {language}, target: en}}\n"
    path.write_text(re.sub(r" +task: nmt\n +corpus: bible\n", declared, text))
    apply_overrides(path, ["alpha=0.04"])
    assert load(path).corpora["nmt"].languages == {"source": language.strip("'"), "target": "en"}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("alpha: 0.03\n".encode("utf-16"), "not UTF-8 at byte 0"),
        (b"alpha: [", "not YAML: "),
        (b"alpha: 0.03\nalpha: 0.04\n", "not YAML: 'alpha' stands twice"),
        (b"[" * 5000, "not YAML: "),
        (b"alpha: 2020-13-45", "line 1, 'alpha: 2020-13-45': 2020-13-45 is a date to some readers of YAML"),
        (b"seed: 010", "line 1, 'seed: 010': 010 is octal in YAML 1.1 and decimal in 1.2; write it without"),
        (b"a: 1\nseed: 0o17 # x", "line 2, 'seed: 0o17 # x': 0o17 is a number in YAML 1.2 and text in 1.1; write"),
        (b"", "None is not allowed"),
    ],
    ids=["utf-16", "open", "twice", "deep", "date", "octal", "0o17", "empty"],
)
def test_a_file_that_cannot_be_read_is_one_line(tmp_path, content, said):
    path = tmp_path / "params.yaml"
    path.write_bytes(content)
    with pytest.raises(UserError) as error:
        load(path)
    assert said in str(error.value) and str(error.value).startswith(f"{path}: ") and "\n" not in str(error.value)


@pytest.mark.parametrize("written", ["5e-05", "5e-5", "5E-5", "+5e-05", "0.5e-4", ".5e-4", "5.e-5"])
def test_a_float_may_be_written_as_dvc_writes_it(tmp_path, written):
    """YAML 1.1 takes 5e-05 for a text."""
    path = tmp_path / "params.yaml"
    path.write_text((ROOT / "params.yaml").read_text().replace("peak_lr: 0.003", f"peak_lr: {written}"))
    assert load(path).lm.training.peak_lr == 5e-5
