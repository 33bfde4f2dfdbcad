"""The scores of a translation model, and how it compares with the one trained by maximum likelihood."""

import json
from pathlib import Path

from scipy import sparse

from raretokens.config import Parameters, Run, UserError
from raretokens.metrics import scores
from raretokens.metrics.alignsim import alignsim
from raretokens.metrics.artifacts import Artifacts, lines
from raretokens.metrics.bleu import chrf, sacre_bleu, sacre_bleu_interval, tokenised_bleu
from raretokens.metrics.paired import paired_bootstrap
from raretokens.metrics.score_files import write_json
from raretokens.metrics.scores import Signed

CORPUS, HYPOTHESES = Path("data/corpus/nmt"), Path("data/hypotheses")


def score(parameters: Parameters, name: str) -> None:
    """Write the files of scores.write for a translation model. Raises UserError where artifacts do not fit."""
    artifacts = Artifacts.read(parameters, "nmt", name)
    links = sparse.load_npz("data/alignment/links.npz")  # read both ways, so a reversed run has the same
    similar, signature = alignsim(artifacts.table, links, artifacts.groups)
    aligned = parameters.nmt.alignment.pairs
    metrics: Signed = {
        **bleu(parameters, HYPOTHESES / name, ".txt", artifacts.run.reverse),
        **scores.geometry(artifacts),
        "alignsim": (similar, signature + (f"|pairs:{aligned}" if aligned else "")),
        "valid_nll": (artifacts.summary["kept"]["valid_nll"], "log:e|unit:piece|checkpoint:scored|split:valid"),
    }
    scores.write(parameters, artifacts, metrics)


def bleu(parameters: Parameters, folder: Path, ending: str, reverse: bool = False) -> Signed:
    """Both BLEUs of the files <test><ending> of a folder, as far as the corpus has that test; of `test` also chrF."""
    side = "source" if reverse else "target"
    languages = json.loads((CORPUS / "counts.json").read_text(encoding="utf-8"))["languages"]
    language = languages[side].split("-")[0]  # en-ylt is English to a tokeniser
    signed: Signed = {}
    for test in ("test", *parameters.nmt.extra_tests):
        if test != "test" and not (CORPUS / f"{test}.{side}").exists():
            continue
        system, truth, suffix = _texts(parameters, folder / f"{test}{ending}", CORPUS / f"{test}.{side}")
        prefix = "bleu." if test == "test" else f"bleu.{test}."
        found: Signed = {
            prefix + "tokenised": tokenised_bleu(system, truth, language),
            prefix + "sacrebleu": sacre_bleu(system, truth),
        }
        if test == "test":
            found |= {"bleu.interval": sacre_bleu_interval(system, truth), "chrf": chrf(system, truth)}
        signed |= {path: (value, signature + suffix) for path, (value, signature) in found.items()}
    return signed


def _texts(parameters: Parameters, system: Path, reference: Path) -> tuple[list[str], list[str], str]:
    """Hypotheses, as many references, and what the signature says of decoding: how, and how many if not all sentences."""
    decoding = parameters.nmt.decoding
    translated, truth = lines(system), lines(reference)
    expected, decoded = truth[: decoding.sentences], f"|{decoding.signature}"
    if system.parent == reference.parent:  # the source itself stands for a translation
        translated, decoded = translated[: decoding.sentences], ""
    if len(translated) != len(expected):
        raise UserError(f"{system}: {len(translated)} lines; there are {len(expected)} references to score")
    return translated, expected, decoded + (f"|sentences:{len(expected)}" if len(expected) < len(truth) else "")


def compare(parameters: Parameters) -> None:
    """Every run against the first maximum-likelihood run of its size and direction: reports/runs/nmt/paired.json."""
    by_kind: dict[tuple, list[Run]] = {}
    for name in parameters.runs.nmt:
        run = parameters.run("nmt", name)
        by_kind.setdefault((run.size, run.reverse), []).append(run)
    found, signatures = {}, []
    for (_, reverse), runs in by_kind.items():
        baseline = next((run for run in runs if run.objective == "mle"), None)
        others = [run for run in runs if run is not baseline]
        if baseline is None or not others:
            continue
        side = CORPUS / f"test.{'source' if reverse else 'target'}"
        texts = {run.name: _texts(parameters, HYPOTHESES / run.name / "test.txt", side) for run in runs}
        own, truth, suffix = texts.pop(baseline.name)
        value, signature = paired_bootstrap(own, {name: text[0] for name, text in texts.items()}, truth)
        found |= value
        signatures += [[name, f"baseline:{baseline.name}|{signature}{suffix}"] for name in value]
    score = scores.layout({"run": "paired", "task": "nmt"}, {})
    write_json(scores.REPORTS / "nmt/paired.json", {**score, "metrics": found, "signatures": signatures})
