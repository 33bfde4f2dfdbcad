"""Model card of an exported run, with the metadata that the Hugging Face Hub reads: data, languages and evaluation results."""

from collections.abc import Iterator
from importlib import resources
from typing import Any

from huggingface_hub import EvalResult, ModelCardData

from raretokens.metrics.score_files import flatten, signature_of
from raretokens.yaml_files import parsed_yaml, read_yaml
from reproduction.commands.trained_run import TrainedRun
from reproduction.corpora.registry import corpus_languages, known_corpora
from reproduction.paths import PARAMETERS

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
    parameters = read_yaml(run.scale / PARAMETERS)
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
