"""Read IMDB's film reviews (Maas et al. 2011), which are negative or positive.

`imdb-sample` has the first 2,000 reviews of each class and split. It is read from separate files, or from the whole archive. One
of twenty training reviews is for validation.
"""

from collections.abc import Iterator
from pathlib import Path

from raretokens.corpora.splits import Document, hold_out, read_archive, read_json_lines

SERVES = {"documents": ("imdb", "imdb-sample")}
LANGUAGES = {"text": "en"}
ARCHIVE = "aclImdb_v1.tar.gz"
EVERY = 20  # one of this number of training documents is for validation
CLASSES = {"neg": "negative", "pos": "positive"}
FIRST = 2000  # number of ids in the sample
ALTERED = ("train", "pos", 0)  # excluded, because the source of the sample has another text under this id


def documents(raw: Path, corpus: str) -> dict[str, list[Document]]:
    """Return split -> (class, text) of each review."""
    splits: dict[str, list[Document]] = {}
    for split in ("train", "test"):
        found = sorted(_documents(raw / corpus, split))
        if corpus == "imdb-sample":
            found = [row for row in found if row[1] < FIRST and (split, *row[:2]) != ALTERED]
        splits[split] = [(CLASSES[side], text) for side, _, text in found]
    return hold_out(splits["train"], EVERY) | {"test": splits["test"]}


def _documents(folder: Path, split: str) -> Iterator[tuple[str, int, str]]:
    """Yield class, id and text of each review. HTML line breaks become blanks."""
    if (folder / f"{split}.jsonl").exists():
        rows = ((row["id"], row["text"]) for row in read_json_lines(folder / f"{split}.jsonl"))
    else:
        below = tuple(f"aclImdb/{split}/{side}/" for side in CLASSES)
        rows = read_archive(folder / ARCHIVE, below, "utf-8")
    for path, text in rows:
        *_, side, file = path.split("/")  # the file name is <id>_<stars>.txt
        yield side, int(file.partition("_")[0]), text.replace("<br />", " ")
