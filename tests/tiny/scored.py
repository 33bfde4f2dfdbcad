"""What the stages before scoring leave, made up: a scale's folder with tiny corpora, runs, predictions and translations."""

import json
from pathlib import Path

import numpy as np
import yaml
from safetensors.numpy import save_file
from scipy import sparse

from raretokens.vocabulary import Vocabulary
from reproduction.corpora.tokenization.encode import encode
from reproduction.corpora.tokenization.settings import EncodeJob as Job
from reproduction.corpora.tokenization.settings import WordVocabulary
from reproduction.corpora.tokenization.token_files import tokens
from reproduction.pipeline.jobs import write_jobs
from reproduction.pipeline.parameters_file import load

CODE = Path(__file__).parents[2]
TRAINED = {"updates": 4, "updates_per_epoch": 2, "kept": {"update": 4, "valid_nll": 4.25}, "parameters": 999}
TRAIN = [
    "the shepherd saw a well-worn way in the wilderness",
    "and the prophecy was of a shepherd and of the sea",
    "in the sea there is a way",
    "a wilderness and the sea",
] * 5
TEST = [
    "the shepherd saw the sea in the wilderness.",
    "a well-worn way of the shepherd and of the sea.",
    "the prophecy was in the sea and in the way.",
]
SOURCE = [
    "the shepherd hath seen the sea in the wilderness.",
    "a way of the shepherd and of the sea.",
    "the prophecy is in the sea and the way.",
]


def put(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="\n")


def lines(text):
    return "".join(f"{line}\n" for line in text)

CLOUDS = {"lm": ["projection", "projection@", "similarity:"], "nmt": ["pca", "pca@", "projection@", "similarity:"]}


def make_parameters(root):
    """The demo's parameters with runs of this world, and what its stages are told."""
    tree = yaml.safe_load((CODE / "params.yaml").read_text(encoding="utf-8"))
    tree["lm"] |= {"neighbours": ["sea", "policymakers"], "projection_steps": [0, 2, 40]}  # no run has 40 updates
    tree["nmt"] |= {"neighbours": ["way"], "projection_steps": [2], "neighbour_ranks": {"way": ["sea"]}}
    tree["corpora"]["nmt"]["extra_tests"] = ["later", "absent"]
    tree["own"] = {f"nmt-{test}-source": "texts/unused" for test in ("later", "absent")}
    del tree["continued"]
    tree["tokens"]["words"]["groups"] = {"fractions": [0.3, 0.5, 0.2]}
    tree["lm"]["evaluation"]["continuation"] = {"samples": 5, "prefix": 4, "length": 6}
    for task in ("lm", "nmt"):
        tree[task]["training"]["snapshot_every"] = 2
    tree["nmt"]["decoding"]["sentences"] = 2
    pieces = {"model": "demo", "objective": "agg", "option_from": "alpha", "seed": 7, "tokens": "lm"}
    base, again = ({"tokens": "nmt", "model": "base", "objective": name} for name in ("mle", "cosreg"))
    tree["runs"] = {
        "lm": {"tiny": pieces, "words": {"model": "demo", "objective": "mle", "tokens": "words"}},
        "nmt": {"tiny": base, "other": again, "back": {**base, "reverse": True}},
    }
    put(root / "params.yaml", yaml.safe_dump(tree))
    write_jobs(load(root / "params.yaml"), root / "data/jobs")
    for task, clouds in CLOUDS.items():  # as if a figure drew them
        file = root / f"data/jobs/score-{task}/tiny.json"
        told = json.loads(file.read_text())
        file.write_text(json.dumps({**told, "job": {**told["job"], "clouds": clouds}}))


def make_run(root, task, name, folder, random):
    """Table, snapshots and training log of a run; returns its vocabulary."""
    vocabulary = Vocabulary.read(root / f"data/tokens/{folder}/vocabulary.tsv")
    run = root / f"data/runs/{task}/{name}"
    table = random.normal(0.1, 1, (len(vocabulary), 8)).astype(np.float32)
    extra = ["rare_group_size"] if folder == "lm" else []
    log = [["update", "loss", "nll", "lr", *extra, "valid_nll"]]
    for update in range(1, 5):
        log.append(
            [str(update), "4.5", f"{6 - update}", "0.1", *[f"{40 - update}"] * len(extra), ["", "3.5"][update == 3]]
        )
    put(run / "log.tsv", lines("\t".join(row) for row in log))
    put(run / "training.json", json.dumps(TRAINED))
    save_file({"table": table}, run / "model.safetensors")
    save_file({f"{u:06}": (table * u / 4 + 0.1).astype(np.float16) for u in (0, 2, 4)}, run / "snapshots.safetensors")
    return vocabulary


def make_predictions(root, name, folder, random):
    targets, predictions = tokens(root / f"data/tokens/{folder}", "test"), root / f"data/predictions/lm/{name}"
    predictions.mkdir(parents=True)
    np.save(predictions / "logprob.npy", -random.exponential(3, len(targets)).astype(np.float32))
    np.save(predictions / "prediction.npy", np.where(targets % 2, np.roll(targets, 1), targets[0]).astype(np.int32))
    np.save(predictions / "rare.npy", np.full(len(targets), -3, np.float32))
    np.save(predictions / "continuation.npy", np.tile(np.arange(4, 7), (5, 2)).astype(np.int32))


def create(root):
    """Fill the folder of a scale: two language models, of pieces and of words, and three translation models."""
    random = np.random.default_rng(0)
    make_parameters(root)
    corpus = root / "data/corpus"
    for split, text, source in (("train", TRAIN, TRAIN), ("test", TEST, SOURCE), ("later", TEST[:1], SOURCE[:1])):
        put(corpus / f"nmt/{split}.source", lines(source))
        put(corpus / f"nmt/{split}.target", lines(text))
        put(corpus / f"lm/{split}.txt", lines(text))
    put(corpus / "nmt/counts.json", json.dumps({"corpus": "tiny", "languages": {"source": "en", "target": "en"}}))
    for name in ("men", "ws353", "rg65", "rw"):
        put(corpus / f"similarity/{name}.tsv", "sea\tway\t1.5\nsea\twilderness\t8\nshepherd\tqueue\t2\n")
    words = WordVocabulary(model="words", size=None, tokenise=True)
    for name, sides, kind in (("lm", [".txt"], 60), ("words", [".txt"], words), ("nmt", [".source", ".target"], 60)):
        job = Job(name=name, sides=sides, vocabulary=kind)
        encode(job, corpus / {"words": "lm"}.get(name, name), root / "data/tokens" / name)
    for name, folder in (("tiny", "lm"), ("words", "words")):
        make_run(root, "lm", name, folder, random)
        make_predictions(root, name, folder, random)
    for name in ("tiny", "back"):
        types = len(make_run(root, "nmt", name, "nmt", random))
    (root / "data/alignment/nmt").mkdir(parents=True)
    links = sparse.random_array((types, types), density=0.2, rng=random, format="csr")
    sparse.save_npz(root / "data/alignment/nmt/links.npz", links)
    for name, text, later in (("tiny", TEST, SOURCE), ("other", SOURCE, TEST), ("back", SOURCE, TEST)):
        put(root / f"data/predictions/nmt/{name}/test.txt", lines(text[:2]))  # the limit of 2 sentences
        put(root / f"data/predictions/nmt/{name}/later.txt", lines(later[:1]))
    return root
