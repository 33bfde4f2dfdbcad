"""What people bring: is the answer right, or is it refused in one line?

    python tests/faults/inputs.py [--only order,trainer,...] [--rounds 40] [--seed 0]

* order: ids in another order train alike, with any objective
* trainer: models of many architectures, unchanged, frozen, adapted, with a further term in their loss, or a batch without targets
* tables: folders of transformers with tensors removed, added or tied otherwise: the embeddings are those that transformers loads,
  and perplexity is given to models that cannot look ahead and lack nothing, and to no other
* tokens: the counts of a text are those of the tokenizer on the whole text
* folders: a file beside the weights is cut, emptied, has a bit turned, or is of another kind: the geometry is given,
  and a note says what is not known, such as the id of padding
* vectors: files of word vectors with odd words, headers, ends and compression are read
* scalars: values in YAML are what DVC reads
* environment: environment.sh after copies, moves and failed installations, with an installer that is faked
* scripts: stages/run, stages/parallel and stages/cluster with odd variables, in a folder that is no scale

The cases are drawn by chance from the generators of the tests. Rows are kept in tests/faults/faults.csv.
"""

import gzip
import json
import os
import random
import shutil
import string
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from tally import ROOT, Tally, parser, tried, use_tests

use_tests()
os.environ |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"}


def differing(value: object, right: object) -> str | None:
    return None if value == right else f"{value!r:.200} instead of {right!r:.200}"


def order(folder: Path) -> Callable[[], str | None]:
    import torch
    from test_id_order import BESIDE, TYPES, VARIANTS, N, trained

    torch.set_default_dtype(torch.float64)
    name, options = random.choice([*VARIANTS, *BESIDE])
    if name == "ul_agg" and options.get("alpha_scale"):
        options = {**options, "alpha": 0.3}
    new = torch.cat((torch.tensor(random.sample(range(TYPES), TYPES)), torch.arange(TYPES, N)))

    def trial() -> str | None:
        both = zip(*(sum(trained(name, options, ids), []) for ids in (torch.arange(N), new)), strict=True)
        worst = max(float((before - after).abs().max()) for before, after in both)
        return None if worst < 1e-8 else f"{name} {options}: differs by {worst}"

    return trial


def trainer(folder: Path) -> Callable[[], str | None]:
    import torch
    import transformers as hf
    from test_architectures import CAUSAL, Adapted, batch, loss_of, made
    from test_architectures import trainer as make_trainer

    from raretokens import UserError

    kind, change = random.choice(CAUSAL), random.choice(("nothing", "frozen", "adapted", "term", "no targets"))
    model = made(kind, hf.AutoModelForCausalLM).eval()
    embedding = model.get_output_embeddings().weight.requires_grad_(change != "frozen")
    given, before = batch(len(embedding)), embedding.detach().clone()
    if change == "adapted":
        model.set_output_embeddings(Adapted(model.get_output_embeddings()))
    if change == "no targets":
        given["labels"] = torch.full_like(given["labels"], -100)
    forward, more = model.forward, random.choice((1e-3, 0.1, 30.0))
    if change == "term":
        model.forward = lambda **inputs: (lambda out: out | {"loss": out.loss + more})(forward(**inputs))

    def trial() -> str | None:
        own = float(model(**given).loss.detach()) if change in ("nothing", "frozen") else 0.0
        ours = make_trainer(folder, model, random.choice(("mle", "agg", "mu_centering")))
        model.eval()
        try:
            loss = loss_of(ours, given)
        except UserError as error:
            return None if change in ("adapted", "term") and "\n" not in str(error) else f"{kind}, {change}: refused: {error}"
        if change in ("adapted", "term"):
            return f"{kind}, {change}: accepted"
        if change == "frozen":
            ours.train()
            return None if torch.equal(embedding, before) else f"{kind}: a frozen embedding moved"
        return None if abs(float(loss.detach()) - own) < 1e-4 * max(1.0, own) else f"{kind}, {change}: {float(loss)} for {own}"

    return trial


def tables(folder: Path) -> Callable[[], str | None]:
    import torch
    from safetensors.torch import load_file, save_file
    from test_measure_architectures import ARCHITECTURES, check

    from raretokens.tools.measure.predictions import Reading, load_causal_model

    name = random.choice([*ARCHITECTURES])
    model = ARCHITECTURES[name]()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, 0.05, 0.3)
    model.save_pretrained(folder)
    path, settings = folder / "model.safetensors", json.loads((folder / "config.json").read_text())
    tensors, change = load_file(path), random.choice(("nothing", "tensor removed", "stray file", "other tying"))
    if change == "tensor removed":
        spared = {weight.data_ptr() for weight in (model.get_input_embeddings().weight,)}
        names = [name for name, weight in model.state_dict().items() if name in tensors and weight.data_ptr() not in spared]
        del tensors[random.choice(names)]
        save_file(tensors, path, {"format": "pt"})
    if change == "stray file":
        save_file({key: torch.zeros_like(one) for key, one in tensors.items()}, folder / "consolidated.safetensors")
    if change == "other tying":
        settings["tie_word_embeddings"] = not settings.get("tie_word_embeddings", True)
        (folder / "config.json").write_text(json.dumps(settings))

    def trial() -> str | None:
        architecture, missing = type(model), True
        try:
            loaded, report = architecture.from_pretrained(folder, output_loading_info=True)
            missing = bool(report["missing_keys"])
            if not missing:
                check(folder, architecture)
            ids = torch.randint(3, 50, (1, 12))
            later = torch.cat((ids[:, :-1], 53 - ids[:, -1:]), 1)
            loaded.eval()
            with torch.no_grad():
                first, other = (loaded(input_ids=one).logits[0, :-1] for one in (ids, later))
            is_causal = torch.allclose(first, other, atol=1e-6)
        except (AttributeError, TypeError, ValueError):  # a model without logits, or of other inputs
            is_causal = False
        from raretokens.tools.measure.model import load_model

        try:
            load_causal_model(load_model(str(folder)), Reading(window=16, context=4, block=8))
        except Exception as error:
            return f"{name}, {change}: no perplexity: {error}" if is_causal and not missing else None
        return None if is_causal and not missing else f"{name}, {change}: perplexity of a model that is not causal or whole"

    return trial


def tokens(folder: Path) -> Callable[[], str | None]:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    from raretokens.tools.measure import texts
    from raretokens.tools.measure.tokenizers import load_tokenizer

    odd = ("\n", "\n\n", " ", "  ", "\t", "é", "猫", "\u00a0", ".\n", "<|end|>", "👩‍👧", "\u2028")
    words = ["".join(random.choices("abcde", k=random.randint(1, 4))) for _ in range(40)]
    text = "".join(random.choice((random.choice(words) + " ", random.choice(odd))) for _ in range(random.randint(20, 3000)))
    made = Tokenizer(models.BPE())
    made.pre_tokenizer, made.decoder = pre_tokenizers.ByteLevel(add_prefix_space=random.random() < 0.5), decoders.ByteLevel()
    made.train_from_iterator([text], trainers.BpeTrainer(vocab_size=400, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                                         special_tokens=["<|end|>"]))  # fmt: skip
    made.save(str(folder / "tokenizer.json"))
    (folder / "text.txt").write_text(text, encoding="utf-8", newline="")
    right = np.bincount(made.encode(text, add_special_tokens=False).ids, minlength=made.get_vocab_size())

    def trial() -> str | None:
        tokenizer = load_tokenizer(folder, {}, [])
        counts = texts.count_tokens(tokenizer, folder / "text.txt", None)
        return None if np.array_equal(counts[: len(right)], right) else f"{np.flatnonzero(counts[: len(right)] != right)}"

    return trial


def damaged(data: bytes, turns: bool) -> bytes:
    at = random.randrange(len(data) or 1)
    turned = bytes([data[at] ^ 1 << random.randrange(8)]) if data and turns else b""
    junk = random.choice((b"[]", b"null", b"{", b"\xff\xfe", b'"x"'))
    return random.choice((b"", data[:at], data[:at] + turned + data[at + len(turned) :] if turned else b"", junk))


def folders(folder: Path) -> Callable[[], str | None]:
    import test_measure_damage as damage

    (folder / "intact").mkdir()
    intact = damage.folder.__wrapped__(_Factory(folder / "intact"))
    name = random.choice([path.name for path in intact.iterdir() if path.suffix in (".json", ".txt")])
    one = damage.copy(intact, folder / "one")
    turns = name != "config.json"  # where another digit is another setting
    (one / name).write_bytes(damaged((one / name).read_bytes(), turns))

    def trial() -> str | None:
        found, right = damage.measured(one), damage.geometry(damage.measured(intact))
        is_same = all(abs(one - right.get(role, np.inf)) < 1e-6 for role, one in damage.geometry(found).items())
        if not found or not all("isotropy" in part.metrics for part in found):
            return f"{name}: no geometry"
        return None if is_same or damage.notes(found) else f"{name}: other geometry without a note"

    return trial


class _Factory:
    """Stands in for pytest's factory of temporary folders."""

    def __init__(self, folder: Path) -> None:
        self.mktemp = lambda name: folder


def vectors(folder: Path) -> Callable[[], str | None]:
    import test_measure_files as files

    words, rows = files.vectors()
    separator, end = random.choice((" ", "\t")), random.choice(("", "\n", "\n\n", "\r\n"))
    header = random.choice((None, 0, 1, -3, 1000))
    first = [] if header is None else [f"{len(words) + header} {rows.shape[1]}"]
    content = ("\n".join([*first, *files.lines(words, rows, separator)]) + end).encode()
    path = folder / random.choice(("v.txt", "v.vec", "v", "v.txt.gz"))
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)

    def trial() -> str | None:
        files.check(path, words, rows)
        return None

    return trial


def scalars(folder: Path) -> Callable[[], str | None]:
    from dvc.utils.serialize import parse_yaml

    from raretokens.yaml_files import parsed_yaml

    value = "".join(random.choices("0123456789_.-+:eExobnNyYaAtTfFuUrRlLsS~ ", k=random.randint(1, 8)))

    def trial() -> str | None:
        found = parsed_yaml(f"key: {value}\n".encode(), "params.yaml")
        return differing(repr(found), repr(parse_yaml(f"key: {value}\n", "params.yaml")))

    return trial


def environment(folder: Path) -> Callable[[], str | None]:
    import test_environment as tests
    from pytest import MonkeyPatch

    patch = MonkeyPatch()
    place = tests.checkout.__wrapped__(folder, patch)
    events = random.choices(("copy", "move", "no-cpu-build", "no-cublas", "newer lock"), k=random.randint(1, 4))

    def trial() -> str | None:
        here, fakes = place, Path(os.environ["FAKES"])
        try:
            tests.made(here)
            for number, event in enumerate(events):
                if event in ("copy", "move"):
                    other = folder / f"place-{number}"
                    shutil.copytree(here, other, symlinks=True) if event == "copy" else shutil.move(here, other)
                    here = other
                elif event == "newer lock":
                    (here / "requirements.lock").write_text(f"# {number}\n")
                else:
                    (fakes / event).touch()
                    tests.made(here)
                    (fakes / event).unlink()
            tests.made(here)
            if str(here / ".venv") not in (here / ".venv/bin/activate").read_text():
                return f"{events}: the environment is that of another folder"
            return differing(tests.made(here), ("", "", []))
        finally:
            patch.undo()

    return trial


def scripts(folder: Path) -> Callable[[], str | None]:
    names = ("CDPATH", "PIP_USER", "PYTHONPATH", "PIP_TARGET", "LANG", "POSIXLY_CORRECT", "GREP_OPTIONS", "LC_ALL", "IFS")
    values = ("1", "/tmp:/", "/nowhere", "C", "xx_YY.UTF-8", "".join(random.choices(string.ascii_letters, k=5)))
    variables = os.environ | {name: random.choice(values) for name in random.sample(names, 3)}
    expected = "error: params.yaml: no such file; run from the folder of a scale (the top level or scales/*)\n"

    def trial() -> str | None:
        command = random.choice(([f"{ROOT}/stages/parallel"], [f"{ROOT}/stages/cluster"], [f"{ROOT}/stages/run", "1", "jobs"]))
        done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True)
        return differing((done.returncode, done.stdout, done.stderr), (1, "", expected))

    return trial


DRILLS = {"order": order, "trainer": trainer, "tables": tables, "tokens": tokens, "folders": folders, "vectors": vectors,
          "scalars": scalars, "environment": environment, "scripts": scripts}  # fmt: skip
REFUSED = {"scalars": "params.yaml: "}  # how a line begins that refuses; elsewhere refusing is wrong


def main() -> None:
    options = parser(__doc__, 40)
    options.add_argument("--only", default=",".join(DRILLS))
    arguments = options.parse_args()
    for name in arguments.only.split(","):
        random.seed(arguments.seed)
        tally = Tally(f"inputs: {name}")
        for number in range(arguments.rounds):
            folder = Path(tempfile.mkdtemp())
            try:
                tried(tally, f"round {number}", REFUSED.get(name), DRILLS[name](folder))
            finally:
                shutil.rmtree(folder)
        tally.keep()


if __name__ == "__main__":
    main()
