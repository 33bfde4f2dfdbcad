"""From the artifacts of a run to its score file; paths are those of docs/artifacts.md below the current directory."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from raretokens.config import Parameters, Run, UserError
from raretokens.metrics import similarity
from raretokens.metrics.alignsim import alignsim
from raretokens.metrics.bleu import sacre_bleu, tokenised_bleu
from raretokens.metrics.cosine import mean_cosine, rare_freq_cosine
from raretokens.metrics.isotropy import isotropy, isotropy_both_signs, log_partitions
from raretokens.metrics.neighbours import neighbours
from raretokens.metrics.perplexity import perplexity, token_share
from raretokens.metrics.score_files import write_json, write_points
from raretokens.metrics.spectrum import projection, singular_values
from raretokens.metrics.uniq import uniq
from raretokens.subword.bpe import VOCABULARY, Encoder
from raretokens.subword.streams import read_meta, tokens
from raretokens.subword.vocabulary import GROUP_NAMES, Vocabulary

REPORTS = Path("reports/runs")
POINTS = 500  # of the projection, a group
CURVE = 1000  # updates
Signed = dict[str, tuple[Any, str]]  # metric -> (value, signature)


def language_model(parameters: Parameters, name: str) -> None:
    """Score a language model: reports/runs/lm/<name>.json and .csv. Raises UserError where artifacts do not fit."""
    run, task = parameters.run("lm", name), parameters.lm
    probe, folder = Path("data/probes/lm") / name, Path("data/tokens/lm")
    encoder = Encoder(folder)
    groups, targets = _groups(encoder.vocabulary, task), tokens(folder, "test")
    table = _table(probe, encoder.vocabulary)
    sets = {key: similarity.read_pairs(Path(f"data/corpus/similarity/{key}.tsv")) for key in similarity.SETS}
    reach = {"window": task.probe.window, "context": task.probe.context}
    metrics: Signed = {
        "ppl": perplexity(np.load(probe / "logprob.npy"), targets, groups, **reach),
        "uniq": uniq(np.load(probe / "prediction.npy"), groups, block=task.probe.block),
        **_geometry(table, groups),
        "spearman": similarity.word_similarity(table, sets, encoder.encode, form="leading-space"),
        "spearman_bare": similarity.word_similarity(table, sets, encoder.encode_bare, form="bare"),
        "coverage": similarity.coverage(sets, encoder.encode),
    }
    near = neighbours(table, encoder.vocabulary.pieces, groups, parameters.neighbours.lm)
    _write(run, metrics, near, table, groups)


def translation(parameters: Parameters, name: str) -> None:
    """Score a translation model: reports/runs/nmt/<name>.json and .csv. Raises UserError where artifacts do not fit."""
    run, probe = parameters.run("nmt", name), Path("data/probes/nmt") / name
    vocabulary = Vocabulary.read(Path("data/tokens/nmt") / VOCABULARY)
    groups = _groups(vocabulary, parameters.nmt)
    table = _table(probe, vocabulary)
    trained = json.loads((Path("data/runs/nmt") / name / "training.json").read_text(encoding="utf-8"))
    metrics: Signed = {
        **_bleu(parameters, Path("data/hypotheses") / name, ".txt"),
        **_geometry(table, groups),
        "alignsim": alignsim(table, sparse.load_npz("data/alignment/links.npz"), groups),
        "valid_nll": (trained["kept"]["valid_nll"], "log:e|unit:piece|checkpoint:scored|split:valid"),
    }
    _write(run, metrics, neighbours(table, vocabulary.pieces, groups, parameters.neighbours.nmt), table, groups)


def data(parameters: Parameters) -> None:
    """Score what needs no model: reports/runs/lm/human.json (Human's Uniq, facts of the corpus) and nmt/copy.json."""
    folder = Path("data/tokens/lm")
    vocabulary, targets = Vocabulary.read(folder / VOCABULARY), tokens(folder, "test")
    groups, splits = _groups(vocabulary, parameters.lm), read_meta(folder)["splits"]
    types = {group: int(np.sum(groups == code)) for group, code in GROUP_NAMES.items()}
    human: Signed = {
        "uniq": uniq(targets, groups),
        "token_share": token_share(targets, groups),
        "types": ({"total": vocabulary.types} | types, "fillers:no|specials:freq"),
        "tokens": ({split: facts["tokens"] for split, facts in splits.items()}, "unit:piece|line-ends:yes"),
    }
    write_json(REPORTS / "lm/human.json", _score({"run": "human", "task": "lm"}, human, {}, {}))
    copy = _bleu(parameters, Path("data/corpus/nmt"), ".source")
    write_json(REPORTS / "nmt/copy.json", _score({"run": "copy", "task": "nmt"}, copy, {}, {}))


def _geometry(table: np.ndarray, groups: np.ndarray) -> Signed:
    partitions = log_partitions(table, groups)
    return {
        "isotropy": isotropy(partitions),
        "isotropy_both_signs": isotropy_both_signs(partitions),
        "mean_cosine": mean_cosine(table, groups),
        "rare_freq_cosine": rare_freq_cosine(table, groups),
    }


def _bleu(parameters: Parameters, folder: Path, ending: str) -> Signed:
    """Both BLEUs of the files <test><ending> of a folder, as far as the corpus has that test; paths as metric names."""
    corpus, signed = Path("data/corpus/nmt"), {}
    language = json.loads((corpus / "counts.json").read_text(encoding="utf-8"))["languages"]["target"]
    for test in ("test", *parameters.nmt.extra_tests):
        if test != "test" and not (corpus / f"{test}.target").exists():
            continue
        system, truth = _lines(folder / f"{test}{ending}"), _lines(corpus / f"{test}.target")
        limit = parameters.nmt.decoding.sentences
        expected = truth[:limit]
        if folder == corpus:
            system = system[:limit]
        if len(system) != len(expected):
            raise UserError(
                f"{folder / test}{ending}: {len(system)} lines; there are {len(expected)} references to score"
            )
        limited = f"|sentences:{len(expected)}" if len(expected) < len(truth) else ""
        prefix = "bleu." if test == "test" else f"bleu.{test}."
        for kind, (value, signature) in (
            ("tokenised", tokenised_bleu(system, expected, language)),
            ("sacrebleu", sacre_bleu(system, expected)),
        ):
            signed[prefix + kind] = value, signature + limited
    return signed


def _write(run: Run, metrics: Signed, near: tuple, table: np.ndarray, groups: np.ndarray) -> None:
    facts = {"run": run.name, "task": run.task, "objective": run.objective, "size": run.size, "seed": run.seed}
    score = _score(facts, metrics, near[0], run.options)
    score["signatures"].append(["neighbours", near[1]])
    points = [*_points(run, table, groups)]
    write_json(REPORTS / run.task / f"{run.name}.json", score)
    write_points(REPORTS / run.task / f"{run.name}.csv", points)


def _score(facts: dict[str, Any], metrics: Signed, near: dict[str, list], options: dict[str, Any]) -> dict[str, Any]:
    """The layout of a score file; a dotted metric name opens a dictionary."""
    values: dict[str, Any] = {}
    for path, (value, _) in metrics.items():
        *parents, name = path.split(".")
        place = values
        for parent in parents:
            place = place.setdefault(parent, {})
        place[name] = value
    return {
        "run": None,
        "task": None,
        "objective": None,
        "size": None,
        "seed": None,
        **facts,
        "metrics": values,
        "neighbours": [[query, found] for query, found in near.items()],
        "signatures": [[path, signature] for path, (_, signature) in metrics.items()],
        "options": [[key, value] for key, value in options.items()],
    }


def _points(run: Run, table: np.ndarray, groups: np.ndarray) -> Iterator[tuple[str, str, float, float]]:
    """Points of figures: series, group, x, y."""
    for group, coordinates in projection(table, groups, sample=POINTS)[0].items():
        yield from (("projection", group, x, y) for x, y in coordinates)
    for rank, value in enumerate(singular_values(table, groups)[0], start=1):
        yield "singular_values", "total", rank, value
    # AGG reports the size of its rare group; its figure 4 shows the first thousand updates.
    header, *rows = (line.split("\t") for line in _lines(Path("data/runs") / run.task / run.name / "log.tsv"))
    if "rare_group_size" in header:
        update, size = header.index("update"), header.index("rare_group_size")
        yield from (("rare_group_size", "rare", int(row[update]), int(row[size])) for row in rows[:CURVE])


def _groups(vocabulary: Vocabulary, task: Any) -> np.ndarray:
    try:
        return vocabulary.groups(task.groups.model_dump())
    except ValueError as error:
        raise UserError(str(error)) from None


def _table(probe: Path, vocabulary: Vocabulary) -> np.ndarray:
    """The embedding table (N x d), left on disk."""
    table = np.load(probe / "table.npy", mmap_mode="r")
    if len(table) != len(vocabulary):
        raise UserError(f"{probe}/table.npy: {len(table)} rows for {len(vocabulary)} types; probe the run again")
    if not all(np.isfinite(table[start : start + 1024]).all() for start in range(0, len(table), 1024)):
        raise UserError(f"{probe}/table.npy: not all numbers are finite; the run has diverged")
    return table


def _lines(path: Path) -> list[str]:
    """Lines of a text, split at \\n alone."""
    text = path.read_bytes().decode("utf-8")
    return text.removesuffix("\n").split("\n") if text else []
