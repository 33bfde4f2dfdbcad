"""Models of a server like the Hugging Face Hub: the numbers of their folders, from fewer bytes, or one line of advice."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
from safetensors.torch import load, save_file
from tiny.file_server import serving
from tiny.hub_server import COMMIT, HubServer
from tiny.measured import llama, write_llama, write_word_level
from tqdm import tqdm

from raretokens.errors import UserError
from raretokens.measure import hub as hub_requests
from raretokens.measure.measurement import MeasureOptions, measure_model
from raretokens.measure.model import load_model
from raretokens.measure.texts import find_texts

OFFLINE = """
import json, sys
from test_measure_hub import answers
for answer in answers(*sys.argv[1:]):
    print(json.dumps(answer, default=float))
"""
OF_TEXT = {"ppl", "uniq", "token_share", "continuation", "continuation_of_text", "loss_by_rank"}  # metrics that need all weights


def answers(text: str, *names: str) -> Iterator[list | str]:
    """What the embeddings of each model have, or the line that refuses it."""
    options = MeasureOptions(find_texts(Path(text), None), max_tokens=100)
    for name in names:
        try:
            found = measure_model(load_model(name), options, lambda line: None)
            yield [{"role": one.embedding, "facts": one.facts, "metrics": one.metrics, "notes": one.notes} for one in found]
        except UserError as error:
            yield str(error)


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> Iterator[SimpleNamespace]:
    """Models owner/NAME in `owner`, a server of them, and a text."""
    hf = pytest.importorskip("transformers")
    root, text = tmp_path_factory.mktemp("models"), tmp_path_factory.mktemp("text") / "text.txt"
    words = [f"w{number}" for number in range(297)]
    text.write_text("\n".join(" ".join(words[: 300 - number]) for number in range(200)))
    shape = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 4096}
    settings, owner = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, **shape}, root / "owner"
    write_llama(owner / "tied", 300, **settings, tie_word_embeddings=True)
    llama(300, **settings, tie_word_embeddings=False).save_pretrained(owner / "sharded", max_shard_size="1MB")
    hf.BertForMaskedLM(hf.BertConfig(vocab_size=300, **shape, max_position_embeddings=64)).save_pretrained(owner / "bert")
    config = json.loads((owner / "bert" / "config.json").read_text())
    del config["architectures"]  # then the names of all tensors decide what the model is
    (owner / "bert" / "config.json").write_text(json.dumps(config))
    weights = owner / "bert" / "model.safetensors"  # its header is longer than the first request for one
    save_file(load(weights.read_bytes()), weights, metadata={"format": "pt", "more": 150_000 * "x"})
    for name in ("tied", "sharded", "bert"):
        write_word_level(owner / name, ["<unk>", "<s>", "</s>", *words], unk_token="<unk>")
    for name in ("gated", "forbidden", "whole"):
        (owner / name).symlink_to(owner / "tied")
    for name, file in {"pickled": "pytorch_model.bin", "engine": "model-Q4_K_M.gguf", "inner": "unet/model.safetensors"}.items():
        (owner / name / file).parent.mkdir(parents=True)
        (owner / name / file).write_bytes(b"")

    with serving(HubServer(root)) as server:
        yield SimpleNamespace(owner=owner, server=server, text=str(text))


@pytest.fixture
def hub(models, tmp_path, monkeypatch, capsys) -> SimpleNamespace:
    """The same, and `measure(*names)`, which asks that server and keeps in `tmp_path` what it has read."""
    library = pytest.importorskip("huggingface_hub")
    constants, place = library.constants, partial(library.cached_assets_path, assets_dir=tmp_path / "assets")

    def ask(url: str) -> None:
        monkeypatch.setattr(constants, "ENDPOINT", url)
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", f"{url}/{{repo_id}}/resolve/{{revision}}/{{filename}}")

    def measure(*names: str) -> tuple[list, str]:
        found = json.loads(json.dumps([*answers(models.text, *names)], default=float))
        return found, capsys.readouterr().err

    def measure_offline(*names: str) -> list:
        """In a process that begins with HF_HUB_OFFLINE, which is read once."""
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("HF_", "TRANSFORMERS_"))}
        kept |= {"HF_ENDPOINT": models.server.url, "HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "1"}
        kept["PYTHONPATH"] = os.pathsep.join((str(Path(__file__).parent), *sys.path))
        command = [sys.executable, "-c", OFFLINE, models.text, *names]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=kept)
        return [json.loads(line) for line in done.stdout.splitlines()]

    ask(models.server.url)
    monkeypatch.setattr(library, "cached_assets_path", place)
    monkeypatch.setattr(hub_requests, "IS_OFFLINE", False)
    models.server.sent.clear(), models.server.requests.clear()
    return SimpleNamespace(**vars(models), ask=ask, measure=measure, measure_offline=measure_offline)


def header_length(path: Path) -> int:
    with open(path, "rb") as file:
        return 8 + int.from_bytes(file.read(8), "little")


def served_weights(server: HubServer, name: str) -> int:
    return sum(count for file, count in server.sent.items() if file.startswith(f"{name}/") and file.endswith(".safetensors"))


def test_numbers_are_those_of_the_folder_from_fewer_bytes_that_are_read_once(hub, tmp_path):
    names = ["tied", "sharded", "bert"]
    on_hub = [f"hf://owner/{name}" for name in names]
    found, told = hub.measure(*on_hub, *(str(hub.owner / name) for name in names))
    roles = [["input and output (tied)"], ["input", "output"], ["input and output (tied)"]]
    assert [[one["role"] for one in answer] for answer in found[:3]] == roles
    assert len(list((hub.owner / "sharded").glob("*.safetensors"))) > 3
    for name, remote, local in zip(names, found[:3], found[3:], strict=True):
        for one, other in zip(remote, local, strict=True):
            assert one["facts"] == other["facts"] and one["facts"]["token types that occur"] > 200
            of_rows = {path for path in other["metrics"] if path not in OF_TEXT and not path.startswith("hidden.")}
            assert one["metrics"] == {path: other["metrics"][path] for path in of_rows}
            # notes differ in the commit and in the predictions, which need the whole model
            assert f"revision main is commit {COMMIT}" in one["notes"]
            assert "perplexity, Uniq and continuations left out: of hf:// models only the embeddings" in "\n".join(one["notes"])
            assert {note for note in other["notes"] if "perplexity" not in note} <= {*one["notes"]}
        total = sum(path.stat().st_size for path in (hub.owner / name).glob("*.safetensors"))
        embeddings = 300 * 32 * 4 * len(remote)
        headers = sum(max(100_000, header_length(path)) for path in (hub.owner / name).glob("*.safetensors"))
        assert embeddings < served_weights(hub.server, name) <= embeddings + headers < total
        read = sum(count for file, count in hub.server.sent.items() if file.startswith(f"{name}/"))
        assert f"owner/{name}: read {tqdm.format_sizeof(read, 'B')} of {tqdm.format_sizeof(total, 'B')}; " in told
    assert not list(tmp_path.rglob("*.part"))

    hub.server.sent.clear(), hub.server.requests.clear()
    again, told = hub.measure(*on_hub)
    assert again == found[:3]
    assert {*hub.server.requests} == {f"/api/models/owner/{name}/revision/main" for name in names}
    assert "owner/tied: read nothing of " in told

    hub.server.requests.clear()
    names = f"hf://owner/tied@{COMMIT}", "hf://owner/tied", "hf://owner/elsewhere"
    at_commit, offline, refused = hub.measure_offline(*names)
    assert at_commit[0]["metrics"] == offline[0]["metrics"] == found[0][0]["metrics"]
    assert "the Hub was not reached, so the cached commit is measured (" in "\n".join(offline[0]["notes"])
    assert refused == (
        "hf://owner/elsewhere: HF_HUB_OFFLINE is set, and the cache lacks what is needed; unset HF_HUB_OFFLINE to download it"
    )
    assert not hub.server.requests


def test_refusals_are_one_line_that_says_what_to_do(hub, tmp_path):
    messages = {
        "hf://owner/gated": "access is restricted; accept the conditions on http://127.0.0.1:PORT/owner/gated, then log in with "
                            "`hf auth login`, or set HF_TOKEN",
        "hf://owner/forbidden": "http://127.0.0.1:PORT answers 403: no access; log in with `hf auth login`, or set HF_TOKEN",
        "hf://owner/nowhere": "no such model on http://127.0.0.1:PORT, or it is private; check the name, or log in with ",
        "hf://owner/tied@v2": "the model has no revision v2; http://127.0.0.1:PORT/owner/tied/tree/main lists branches and tags",
        "hf://owner/pickled": "has no .safetensors file, but pytorch_model.bin, a program that runs when it is opened",
        "hf://owner/engine": "has no .safetensors file, but model-Q4_K_M.gguf; download it (`hf download owner/engine --revision "
                             "main --local-dir FOLDER model-Q4_K_M.gguf`), and measure the file",
        "hf://owner/inner": "has no .safetensors file at its root, but unet/model.safetensors; download the model (`hf download ",
        "hf://owner/whole": "http://127.0.0.1:PORT ignores range requests (status 200 for model.safetensors); `hf download ",
        "hf://owner/tied/model.safetensors": "should be hf://owner/name or hf://owner/name@revision",
    }  # fmt: skip
    found, told = hub.measure(*messages)
    for (name, message), answer in zip(messages.items(), found, strict=True):
        assert answer.startswith(f"{name}: {message.replace('PORT', str(hub.server.server_port))}") and "\n" not in answer
    assert "Traceback" not in told
    assert not [path for path in tmp_path.rglob("commits/*") if path.is_dir() and path.suffix != ".part"]
    hub.ask("http://127.0.0.1:9")
    (unreachable,), _ = hub.measure("hf://owner/tied")
    assert unreachable.startswith("hf://owner/tied: http://127.0.0.1:9 cannot be reached (")
    assert unreachable.endswith("; check the network, or HF_ENDPOINT")


def test_a_connection_that_breaks_leaves_nothing_half_written(hub, tmp_path):
    headers = len(list((hub.owner / "sharded").glob("*.safetensors")))
    hub.server.breaks = [True, *[False] * headers, False, True]  # the only header of one model; the second tensor of the other
    (broken_header, broken_tensor, found), _ = hub.measure("hf://owner/tied", *["hf://owner/sharded"] * 2)
    assert broken_header.startswith("hf://owner/tied: the connection broke within model.safetensors (")
    assert broken_tensor.startswith("hf://owner/sharded: the connection broke within model-0000")
    assert hub.server.breaks == [] and [one["role"] for one in found] == ["input", "output"]
    assert len(list(tmp_path.rglob("tensors/*/*"))) == 2 and not list(tmp_path.rglob("tensors/**/*.part"))
