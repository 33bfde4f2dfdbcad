"""How many rows the table of a run will have, and how many tokens it is trained on, also before the text is encoded."""

from pathlib import Path
from typing import NamedTuple

import yaml

from raretokens.config import Parameters, UserError
from raretokens.subword.streams import META, read_meta
from raretokens.subword.vocabulary import SPECIALS

EXPECTED = Path(__file__).parent / "corpora.yaml"
SIZES = ("size", "merges")  # keys of a vocabulary that say how large it is to become


class Text(NamedTuple):
    rows: int  # N, types with markers and fillers
    tokens: int | None  # of the training text, of translation both sides; None: not known


def text(parameters: Parameters, name: str, data: Path = Path("data/tokens")) -> Text:
    """What `name` (lm, words or nmt, a folder of data/tokens) holds, or is expected to hold by corpora.yaml or its size.

    Raises UserError where neither tells, as for all words of a text of one's own.
    """
    if (data / name / META).exists():
        meta = read_meta(data / name)
        return Text(meta["vocabulary"], meta["splits"].get("train", {}).get("tokens"))
    declared = getattr(parameters, name).vocabulary
    section = {"size": declared} if isinstance(declared, int) else dict(declared)
    number = next((section[key] for key in SIZES if section.get(key)), None)
    corpus = (parameters.nmt if name == "nmt" else parameters.lm).corpus
    expected = yaml.safe_load(EXPECTED.read_text(encoding="utf-8")).get(corpus, {}).get(name)
    if expected and number in (None, expected["vocabulary"]):
        return Text(section.get("rows") or expected["rows"], expected["tokens"])
    if section.get("rows"):  # params.yaml says what must come out
        return Text(section["rows"], None)
    if number is None:
        raise UserError(
            f"{name}.vocabulary: how many types {corpus} has is known when it is encoded; dvc repro encode@{name}"
        )
    return Text(-(-(number + len(SPECIALS) - 1) // 8) * 8, None)  # the model's own <unk> is one of the markers
