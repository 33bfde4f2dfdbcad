"""params.yaml is checked as a whole: each mistake gives one line with the key, the value and what is allowed."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from dvc.utils.hydra import apply_overrides
from tiny.world import served_environment

from raretokens import schema
from raretokens.errors import UserError
from reproduction.pipeline.jobs import all_jobs
from reproduction.pipeline.parameters_file import load

ROOT = Path(__file__).parents[1]


def edited(tmp_path: Path, key: str, value: object) -> Path:
    tree = yaml.safe_load((ROOT / "params.yaml").read_text())
    *sections, last = key.split("/")
    place = tree
    for section in sections:
        place = place[section]
    place[last] = value
    path = tmp_path / "params.yaml"
    path.write_text(yaml.safe_dump(tree))
    return path


def test_a_root_is_no_command(tmp_path):
    """The first stage checks params.yaml; its own command contains the root."""
    edited(tmp_path, "root", "'; touch X; '")
    shutil.copy(ROOT / "dvc.yaml", tmp_path)
    for command in (["init", "-q", "--no-scm"], ["repro", "-s", "jobs"]):
        done = subprocess.run(["dvc", *command], cwd=tmp_path, env=served_environment(), capture_output=True, text=True)
    assert done.returncode and "touch X; '/stages/run' does not exist" in done.stderr
    assert not (tmp_path / "X").exists()


@pytest.mark.parametrize("code", ["en", "EN", "en_US", "en-GB", "eng", "ENG"])
def test_every_code_of_english_gives_the_jobs_of_english(tmp_path, code):
    """Word similarity is measured for English alone."""
    tree = yaml.safe_load((ROOT / "params.yaml").read_text())
    tree["corpora"]["lm"] |= {"corpus": "own", "languages": {"text": code}}
    tree["own"] = {f"lm-{split}": "text" for split in ("train", "valid", "test")}
    path = tmp_path / "params.yaml"
    path.write_text(yaml.safe_dump(tree))
    jobs = {(stage, name): job for stage, name, job in all_jobs(load(path))}
    assert jobs["prepare", "lm"].languages == {"text": "en"} and jobs["score-lm", "mle"].english


@pytest.mark.parametrize("folder", [".", "scales/small", "scales/paper"])
def test_a_parameter_set_by_dvc_changes_one_line(folder, tmp_path):
    """`dvc exp run -S` writes the whole file anew: in another form than DVC's it would come back as hundreds of changed lines."""
    before = (ROOT / folder / "params.yaml").read_text(encoding="utf-8")
    path = tmp_path / "params.yaml"
    path.write_text(before, encoding="utf-8")
    apply_overrides(path, ["alpha=0.04"])
    lines = zip(before.splitlines(), path.read_text(encoding="utf-8").splitlines(), strict=True)
    assert [new.split("#")[0].strip() for old, new in lines if old != new] == ["alpha: 0.04"]


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("alpah", 0.04, "alpah: unknown key (value 0.04); the nearest is alpha"),
        ("alpha", "three", "alpha: 'three' is not allowed: input should be a valid number"),
        ("lm/training/steps", 0, "lm.training.steps: 0 is not allowed: input should be greater than 0"),
        ("runs/lm/agg/objective", "ag", "runs.lm.agg.objective: 'ag' has no file; the nearest is agg"),
        (
            "runs/nmt/base-mle/objective",
            "soft_cap",
            "runs.nmt.base-mle.objective: 'soft_cap' is not for nmt; allowed: runs of lm",
        ),
        ("runs/lm/agg/model", "deno", "runs.lm.agg.model: 'deno' is not one of lm.models; the nearest is demo"),
        ("runs/lm/agg/option_from", "alpa", "runs.lm.agg.option_from: 'alpa' is no key of params.yaml; the nearest is alpha"),
        ("runs/lm/agg/alpha_scal", 2.0, "runs.lm.agg.alpha_scal: unknown key (value 2.0); the nearest is alpha_scale"),
        ("runs/lm/agg/alpha_scale", "2", "runs.lm.agg.alpha_scale: '2' is not allowed: should be a number > 0"),
        (
            "corpora/lm/corpus",
            "bibel",
            "corpora.lm.corpus: 'bibel' is not known; allowed for lm: bible, enwik9, enwiki-2014, enwiki-2014-half, own, "
            "wikitext-103, wikitext-2",
        ),
        ("corpora/lm/task", "ml", "corpora.lm.task: 'ml' is not known; allowed: "),
        ("tokens/lm/corpus", "ml", "tokens.lm.corpus: 'ml' is not one of corpora; the nearest is lm"),
        ("alignments/nmd", {}, "alignments.nmd: not one of tokens; the nearest is nmt"),
        ("alignments/words", {}, "alignments.words: a text of one side has no links; allowed: tokens of pairs"),
        ("alignments", {}, "runs.nmt.base-mle.tokens: 'nmt' is not aligned; name it under alignments"),
        (
            "lm/models/demo/architecture",
            "decodr",
            "lm.models.demo.architecture: 'decodr' has no file; the nearest is dec",
        ),
        ("lm/models/demo/layer", 2, "lm.models.demo.layer: unknown key (value 2); the nearest is layers"),
        ("lm/models/demo/dropout", 1.5, "lm.models.demo.dropout: 1.5 is not allowed: input should be less than 1"),
        ("sources", ["bible-wed"], "sources: 'bible-wed' is not known; the nearest is bible-web"),
        (
            "lm/evaluation/context",
            128,
            "lm.evaluation.context: 128 leaves nothing to score in a window of 128; it must be smaller",
        ),
        (
            "tokens/lm/groups/fractions",
            [0.3, 0.5, 0.3],
            "tokens.lm.groups.fractions: [0.3, 0.5, 0.3] add to 1.1; they must add to 1",
        ),
        (
            "tokens/lm/groups/boundaries",
            [10, 20],
            "tokens.lm.groups: declare either fractions or boundaries, and only one of them",
        ),
        (
            "lm/training/validate_every",
            "never",
            "lm.training.validate_every: 'never' is not allowed: input should be a valid "
            "integer, or input should be 'epoch'",
        ),
        ("runs/lm/agg/tokens", "nmt", "runs.lm.agg.tokens: 'nmt' is text of nmt; a run of lm needs another"),
        ("runs/lm/agg/option_from", "seed", "runs.lm.agg.option_from: 'seed' is no option of agg; allowed: alpha, alpha_scale"),
        ("runs/lm/agg/tokens", "word", "runs.lm.agg.tokens: 'word' is not one of tokens; the nearest is words"),
        (
            "nmt/neighbour_ranks",
            {"hope": ["fear", "hope"]},
            "nmt.neighbour_ranks.hope: 'hope' is not its own neighbour; allowed: other words",
        ),
        ("lm/projection_steps", [40], "lm.projection_steps: [40] are no multiples of lm.training.snapshot_every (30)"),
        (
            "tokens/lm/vocabulary",
            {"model": "gpt2"},
            "tokens.lm.vocabulary.model: gpt2 needs the source gpt2-bpe; name it under",
        ),
        ("tokens/nmt/vocabulary", {"model": "bpe"}, "tokens.nmt.vocabulary.merges: None is needed by model bpe"),
        (
            "tokens/lm/vocabulary",
            {"model": "gpt3"},
            "tokens.lm.vocabulary: {'model': 'gpt3'} is not allowed: should be a number of subword tokens, or have a",
        ),
        (
            "tokens/lm/vocabulary",
            {"model": "bpe", "merge": 9},
            "tokens.lm.vocabulary.merge: unknown key (value 9); the nearest is merges",
        ),
        (
            "tokens/lm/vocabulary",
            4,
            "tokens.lm.vocabulary: 4 is not allowed: input should be greater than or equal to 16",
        ),
        ("alpha", -0.1, "alpha: -0.1 is not allowed: should be a number >= 0"),
        ("alpha", float("nan"), "alpha: nan is not allowed: input should be a finite number"),
        ("threads", 10**30, "threads: 1"),
        ("seed", -1, "seed: -1 is not allowed"),
        ("seed", "010", "seed: '010' is not allowed"),  # as `dvc exp run -S seed=010` writes it
        ("scale", "a|b", "scale: 'a|b' is not allowed: string should match pattern"),
        ("seed", 1 << 32, "seed: 4294967296 is not allowed"),
        ("lm/models/demo/layers", 9 * 10**18, "lm.models.demo.layers: 9000000000000000000 is not allowed"),
        ("lm/evaluation/window", 10_000_000, "lm.evaluation.window: 10000000 is not allowed"),
        ("lm/training/betas", [0.9, 1.0], "lm.training.betas.1: 1.0 is not allowed"),
        (
            "tokens/lm/groups",
            {"boundaries": [20, 10]},
            "tokens.lm.groups.boundaries: [20, 10] must rise, from 4 at least",
        ),
        (
            "tokens/lm/groups",
            {"boundaries": [2, 10]},
            "tokens.lm.groups.boundaries: [2, 10] must rise, from 4 at least",
        ),
        ("lm/models/word/steps", 40, "lm.models.word: lm.training.warmup: 60 is more than steps (40)"),
        (
            "lm/models/word/tokens_per_step",
            64,
            "lm.models.word: lm.training.block: 128 is more than tokens_per_step (64)",
        ),
        ("lm/models/word/snapshot_every", 7, "lm.models.word.snapshot_every: 7 is not allowed: one of lm.projection_steps"),
        ("sources", ["bible-web", "bible-web"], "sources: bible-web stands there twice"),
        ("corpora/nmt/extra_tests", ["train"], "corpora.nmt.extra_tests: 'train' is not known; allowed: "),
        ("corpora/lm/extra_tests", ["test_2017_flickr"], "corpora.lm.extra_tests: ['test_2017_flickr'] are of pairs"),
        (
            "corpora/nmt",
            {"task": "nmt", "corpus": "own", "baseline": "x", "languages": {"source": "Czech", "target": "en"}},
            "corpora.nmt.languages.source: 'Czech' is not allowed: should be a language code, such as de or zh-CN",
        ),
        ("own", {"lm-train": "~/train.txt"}, "own.lm-train: '~/train.txt' is not allowed: DVC does not expand ~; write '/"),
        ("own", {"lm-trian": "text"}, "own.lm-trian: 'lm-trian' is not allowed: string should match pattern"),
        ("own", {"lm-train": "s3://a/b"}, "own.lm-train: 's3://a/b' is not allowed: should be the path of a local file"),
        ("nmt/training/warmup", 10**6, "nmt.training.warmup: 1000000 is more than steps ("),
        ("own", {"lm-train": "src"}, "own.lm-train: 'src' is a folder; allowed: a plain-text file"),
        ("alignments/nmt", 3, "alignments.nmt: 3 is not allowed: input should be a section with keys"),
        ("root", "'; touch X; '", 'root: "\'; touch X; \'" is not allowed: should be a path of letters'),
        ("corpora/lm/baseline", "agg", "corpora.lm.baseline: 'agg' is a run of lm too; it needs another name"),
        ("corpora/lm/baseline", "awd-mle", None),  # a run of another task
        (
            "corpora/more",
            {"task": "lm", "corpus": "bible", "baseline": "human"},
            "corpora.more.baseline: 'human' is the baseline of corpora.lm too; it needs another name",
        ),
        ("corpora/more", {"task": "lm", "corpus": "bible", "baseline": "copy"}, None),
        (
            "corpora/similarity",
            {"task": "lm", "corpus": "bible", "baseline": "x"},
            "corpora.similarity: the word-similarity sets have the folder of that name; it needs another name",
        ),
        ("scale", "a" * 101, "scale: a name of 101 letters; allowed: at most 100"),
        ("scale", "a" * 100, None),
        ("corpora/lm/baseline", "a" * 300, "corpora.lm.baseline: a name of 300 letters; allowed: at most 100"),
        (
            f"runs/lm/{'a' * 300}",
            {"tokens": "lm", "model": "demo", "objective": "mle"},
            f"runs.lm.{'a' * 300}: a name of 300 letters; allowed: at most 100",
        ),
        ("nmt/models/base/heads", 5, "nmt.models.base.heads: 5; width 96 must be a multiple of twice that"),
    ],
)
def test_a_mistake_is_one_line_that_names_it(tmp_path, key, value, message):
    path = edited(tmp_path, key, value)
    if message is None:
        load(path)
        return
    with pytest.raises(UserError) as error:
        load(path)
    assert [line for line in str(error.value).split("\n") if line.startswith(f"{path}: {message}")], error.value


@pytest.mark.parametrize(
    ("key", "named", "new"),
    [
        ("lm/training/steps_before", "steps_before", "steps"),  # by its name
        ("lm/training/steps_before", "lm.training.steps_before", "steps"),  # by its place
        ("lm/models/demo/depth", "depth", "layers"),
        ("runs/lm/agg/strength", "strength", "alpha"),
        ("runs/lm/agg/size", "size", "model"),  # whose present key is required
    ],
)
def test_a_key_of_a_former_version_is_one_line_that_names_the_new_key(tmp_path, monkeypatch, key, named, new):
    monkeypatch.setitem(schema.RENAMED_KEYS, named, new)
    path = edited(tmp_path, key, "x")
    if new == "model":
        path.write_text(re.sub(r"(size: x\n.*\n) *model: \w+\n", r"\1", path.read_text()))
    with pytest.raises(UserError) as error:
        load(path)
    assert str(error.value) == f"{path}: {key.replace('/', '.')}: unknown key (value 'x'); it is called {new} now"


def test_all_mistakes_are_reported_at_once(tmp_path):
    tree = yaml.safe_load((ROOT / "params.yaml").read_text())
    tree["runs"]["lm"]["agg"].update(objective="ag", model="deno")
    tree["alpha"] = -1.0  # which several runs use
    path = tmp_path / "params.yaml"
    path.write_text(yaml.safe_dump(tree))
    with pytest.raises(UserError) as error:
        load(path)
    assert len(str(error.value).split("\n")) == 3


def test_option_from_sets_the_option_of_its_name(tmp_path):
    parameters = load(edited(tmp_path, "nmt/alpha", 0.5))
    assert parameters.run("nmt", "base-agg").options["alpha"] == 0.5
    assert parameters.run("lm", "mle-2").seed == 2


def test_a_size_of_translation_may_be_decoded_and_trained_otherwise(tmp_path):
    decoding = {"beam": 8, "length_penalty": 1.1, "length_penalty_form": "gnmt"}
    path = edited(tmp_path, "nmt/models/big/decoding", decoding)
    path.write_text(path.read_text().replace("    big:\n", "    big:\n      warmup: 7\n", 1))
    told = {(stage, name): job for stage, name, job in all_jobs(load(path))}
    for run, beam, warmup in (("base-mle", 4, 80), ("big-mle", 8, 7)):
        assert told["translate", run].decoding == told["score-nmt", run].texts.decoding
        assert (told["translate", run].decoding.beam, told["train-nmt", run].training.warmup) == (beam, warmup)
    assert told["baseline", "nmt"].texts.decoding.beam == 4
    with pytest.raises(UserError, match="nmt.models.big.decoding.bean: unknown key .* the nearest is beam"):
        load(edited(tmp_path, "nmt/models/big/decoding", {**decoding, "bean": 1}))


def test_tables_are_projected_where_a_size_keeps_them(tmp_path):
    """Each size at those updates that are multiples of its own `snapshot_every`."""
    told = {
        (stage, name): job for stage, name, job in all_jobs(load(edited(tmp_path, "lm/models/word/snapshot_every", 50)))
    }
    assert told["score-lm", "word-mle"].projection_steps == [300, 450]
    assert told["score-lm", "mle"].projection_steps == [30, 120, 300, 450]
