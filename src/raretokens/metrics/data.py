"""The scores that need no model: what people wrote, and the source taken for its own translation."""

from pathlib import Path

import numpy as np

from raretokens.config import Parameters, UserError
from raretokens.metrics.artifacts import group_of
from raretokens.metrics.continuation import continuation, human
from raretokens.metrics.corpus import corpus_in_words, rank_frequency
from raretokens.metrics.perplexity import token_share
from raretokens.metrics.score_files import write_json, write_points
from raretokens.metrics.scores import REPORTS, Signed, layout
from raretokens.metrics.translation import CORPUS, bleu
from raretokens.metrics.uniq import uniq
from raretokens.subword.bpe import VOCABULARY
from raretokens.subword.streams import read_meta, tokens
from raretokens.subword.vocabulary import GROUP_NAMES, Vocabulary

PIECES, WORDS, PAIRS = Path("data/tokens/lm"), Path("data/tokens/words"), Path("data/tokens/nmt")


def score(parameters: Parameters) -> None:
    """reports/runs/lm/human and nmt/copy, .json and .csv. Raises UserError where the test text is too short."""
    write_json(REPORTS / "lm/human.json", layout({"run": "human", "task": "lm"}, _human(parameters)))
    copy: Signed = {
        **bleu(parameters, CORPUS, ".source"),
        "corpus.pairs": ({split: facts["lines"] for split, facts in _splits(PAIRS).items()}, "unit:sentence-pair"),
    }
    write_json(REPORTS / "nmt/copy.json", layout({"run": "copy", "task": "nmt"}, copy))
    for folder, name in ((WORDS, "lm/human.csv"), (PAIRS, "nmt/copy.csv")):
        ranked = rank_frequency(Vocabulary.read(folder / VOCABULARY).counts)
        write_points(REPORTS / name, [("rank_frequency", "total", rank, share) for rank, share in ranked])


def _human(parameters: Parameters) -> Signed:
    vocabulary, targets = Vocabulary.read(PIECES / VOCABULARY), tokens(PIECES, "test")
    groups, settings = group_of(vocabulary, parameters.lm.groups), parameters.lm.probe.continuation
    types = {group: int(np.sum(groups == code)) for group, code in GROUP_NAMES.items()}
    try:
        written = human(targets, **settings.model_dump())
    except ValueError as error:
        raise UserError(f"lm.probe.continuation: {error}") from None
    words = corpus_in_words(Vocabulary.read(WORDS / VOCABULARY), _splits(WORDS), tokens(WORDS, "test"))
    return {
        "uniq": uniq(targets, groups),
        "continuation": continuation(written, prefix=settings.prefix, source="targets"),
        "token_share": token_share(targets, groups),
        "types": ({"total": vocabulary.types} | types, "fillers:no|specials:freq"),
        "tokens": (
            {split: facts["tokens"] for split, facts in _splits(PIECES).items()},
            "unit:piece|line-ends:yes",
        ),
        "corpus": words,
    }


def _splits(folder: Path) -> dict[str, dict[str, int]]:
    """Tokens and lines of train, valid and test, in this order, and of what else there is."""
    splits = read_meta(folder)["splits"]
    return {
        name: splits[name]
        for name in sorted(splits, key=lambda name: (["train", "valid", "test"] + [name]).index(name))
    }
