"""A trained run of the pipeline, found by name or folder, with its job specs, tokens, model, scores and model card.

The model card has the metadata that the Hugging Face Hub reads: data, languages and evaluation results.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from huggingface_hub import EvalResult, ModelCardData

from raretokens.errors import UserError, nearest
from raretokens.metrics.score_files import flatten, signature_of
from raretokens.yaml_files import parsed_yaml, read_yaml
from reproduction import paths
from reproduction.corpora.registry import corpus_languages, known_corpora

MODEL = "model.safetensors"
JOBS_HINT = "dvc repro jobs makes it"
LICENCE = "apache-2.0"  # licence of this software, which wrote the weights
# Corpora that the Hub has as well, by the beginning of their names. The files of the pipeline come from other places.
DATASETS = {"wikitext": "Salesforce/wikitext", "multi30k": "bentrevett/multi30k", "wmt14": "wmt/wmt14"}
# Score-file metrics that the Hub knows; the card's own section lists all metrics.
METRICS = {"ppl": "perplexity", "bleu": "bleu", "chrf": "chrf"}
TASKS = {
    "lm": ("text-generation", "Language modelling"),
    "nmt": ("translation", "Translation"),
}  # the Hub's type, a name
INTERVAL = "bleu.interval"  # its half-width is no value of BLEU


@dataclass(frozen=True)
class TrainedRun:
    """A trained run in the folder of a scale."""

    scale: Path  # folder of params.yaml
    task: str
    name: str
    run: dict[str, Any]  # line of the run sheet, resolved
    training: dict[str, Any]
    groups: dict[str, Any]  # frequency groups as declared in params.yaml

    @property
    def folder(self) -> Path:
        return self.scale / paths.trained(self.task, self.name)

    @property
    def model(self) -> Path:
        return self.folder / MODEL

    @property
    def tokens(self) -> Path:
        return self.scale / paths.tokens(self.run["tokens"])

    def score(self) -> dict[str, Any]:
        """Return the score file of the run. Raise UserError if there is none."""
        return _read_json(self.scale / paths.SCORES / self.task / f"{self.name}.json", "score the run first")

    def job(self, stage: str, name: str | None = None) -> dict[str, Any]:
        """Return the parameters of a stage of the run."""
        return _read_json(self.scale / paths.job(stage, name or self.name), JOBS_HINT)["job"]


def find(name: str) -> TrainedRun:
    """Find a run by name (`mle` or `lm/mle`, in the folder of a scale) or by folder (`data/runs/lm/mle`).

    Raises:
        UserError: if there is no such run, or several tasks have one.
    """
    folder = Path(name).absolute()
    scale, wanted = (folder.parents[3], "/".join(folder.parts[-2:])) if _is_run(folder) else (Path(), Path(name).as_posix())
    known = sorted("/".join(path.parts[-3:-1]) for path in scale.glob(f"{paths.trained('*', '*')}/{MODEL}"))
    found = [one for one in known if wanted in (one, one.partition("/")[2])]
    if not found:
        raise UserError(f"{name}: no such trained run; of the trained runs, {nearest(wanted, known)}")
    if len(found) > 1:
        raise UserError(f"{name}: several tasks have this run: {', '.join(found)}")
    task, run = found[0].split("/")
    job = _read_json(scale / paths.job(f"train-{task}", run), JOBS_HINT)["job"]
    return TrainedRun(scale, task, run, job["run"], job["training"], job["groups"])


def _is_run(folder: Path) -> bool:
    """Whether the folder was written by the training stage."""
    return (folder / MODEL).is_file() and (folder / "training.json").is_file()


def _read_json(path: Path, hint: str) -> dict[str, Any]:
    if not path.is_file():
        raise UserError(f"{path}: no such file; {hint}")
    return json.loads(path.read_text(encoding="utf-8"))


# The model card.


def model_card(run: TrainedRun, model_class: str, tokenizer: str) -> str:
    """Return the model card (Markdown). `tokenizer` is a sentence about the tokenizer."""
    return "\n".join(_lines(run, model_class, tokenizer)) + "\n"


def _lines(run: TrainedRun, model_class: str, tokenizer: str) -> Iterator[str]:
    score, objective, corpus = run.score(), run.run["objective"], _corpus(run)
    yield f"---\n{_metadata(run, score, corpus).to_yaml()}\n---"
    yield f"# {run.name}\n"
    kind = "translation model" if run.task == "nmt" else "language model"
    yield f"A {kind} ({model_class}) trained with the objective `{objective}` by raretokens. {tokenizer}"
    yield "It was trained to compare objectives, and is not suited to any other use.\n"
    yield "## Data\n"
    yield f"Task `{run.task}`, tokens `{run.run['tokens']}`."
    yield from _licences(corpus["corpus"])
    yield "\n## Training\n"
    yield from (f"* {name.replace('_', ' ')}: {value}" for name, value in score["parameters"])
    yield f"* seed: {run.run['seed']}"
    yield from (f"* {name.replace('_', ' ')} (of the objective): {value}" for name, value in score["options"])
    yield "\n## Scores\n\n| metric | value | how it was measured |\n|---|---|---|"
    for path, value, signature in _scores(score):
        yield f"| {path} | {value:g} | {signature.replace('|', ', ')} |"
    yield f"\n## Licence\n\nThe weights: {LICENCE}, as the software that made them. The text has its own, above."


def _metadata(run: TrainedRun, score: dict[str, Any], corpus: dict[str, Any]) -> ModelCardData:
    name, (task, task_name) = corpus["corpus"], TASKS[run.task]
    dataset = next((known for start, known in DATASETS.items() if name.startswith(start)), None)
    results = [
        EvalResult(
            task_type=task,
            task_name=task_name,
            dataset_type=dataset or name,
            dataset_name=name,
            dataset_split=_test_set(path),
            metric_type=METRICS[path.partition(".")[0]],
            metric_name=path,
            metric_value=value,
            metric_args={"signature": signature},
        )
        for path, value, signature in _scores(score)
        if path.partition(".")[0] in METRICS and path != INTERVAL
    ]
    return ModelCardData(
        license=LICENCE,
        library_name="transformers",
        pipeline_tag=task,
        language=_languages(run, corpus) or None,
        datasets=None if dataset is None else [dataset],
        tags=["raretokens", run.run["objective"]],
        model_name=run.name,
        eval_results=results or None,
    )


def _scores(score: dict[str, Any]) -> Iterator[tuple[str, float, str]]:
    """Yield path, value and signature of each metric that has a value."""
    signatures = dict(map(tuple, score["signatures"]))
    for path, value in flatten(score["metrics"]):
        if isinstance(value, int | float):
            yield path, value, signature_of(path, signatures)


def _test_set(path: str) -> str:
    """Return the test set that a metric's path names, such as bleu.test_2017_flickr.sacrebleu."""
    return next((part for part in path.split(".") if part.startswith("test_")), "test")


def _corpus(run: TrainedRun) -> dict[str, Any]:
    """Return the job spec that prepared the run's text."""
    parameters = read_yaml(run.scale / paths.PARAMETERS)
    return run.job("prepare", parameters["tokens"][run.run["tokens"]]["corpus"])


def _languages(run: TrainedRun, corpus: dict[str, Any]) -> list[str]:
    """Return the ISO 639 codes of the languages of the run's text, which may be unknown for a user's own text."""
    kind = "bitext" if run.task == "nmt" else "text"
    file = known_corpora(kind).get(corpus["corpus"])
    known = corpus.get("languages", {}) if file is None else corpus_languages(file)
    sides = ("source", "target") if kind == "bitext" else ("text",)
    return list(dict.fromkeys(known[side].partition("-")[0] for side in sides if side in known))


def _licences(corpus: str) -> Iterator[str]:
    """Yield the licences of the archives that the corpus comes from. They are not recorded for a user's own text."""
    for entry in sorted(resources.files("reproduction.corpora").joinpath("table").iterdir(), key=lambda one: one.name):
        source = entry.name.removesuffix(".yaml")
        if source.startswith(corpus) or corpus.startswith(source):
            declared = parsed_yaml(entry.read_bytes(), entry.name)
            yield f"* {source}: {declared['licence']}. {declared.get('note', '')}".rstrip()
