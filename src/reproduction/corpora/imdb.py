"""Read IMDB's film reviews (Maas et al. 2011), which are negative or positive.

`imdb-sample` has the first 2,000 reviews of each class and split. It is read from separate files, or from the whole archive. One
of twenty training reviews is for validation.
"""

from pathlib import Path

from reproduction.corpora.splits import Document, hold_out, read_files

SERVES = {"documents": ("imdb", "imdb-sample")}
LANGUAGES = {"text": "en"}
ARCHIVE = "aclImdb_v1.tar.gz"
EVERY = 20  # one of this number of training documents is for validation
CLASSES = {"neg": "negative", "pos": "positive"}
FIRST = 2000  # number of ids in the sample
ALTERED = ("train", "pos", 0)  # excluded, because the source of the sample has another text under this id


def documents(raw: Path, corpus: str) -> dict[str, list[Document]]:
    """Return split -> (class, text) of each review."""
    return hold_out(*(_documents(raw, corpus, split) for split in ("train", "test")), EVERY)


def _documents(raw: Path, corpus: str, split: str) -> list[Document]:
    """Return class and text of each review, by class and id. HTML line breaks become blanks."""
    folder, below = raw / corpus, tuple(f"aclImdb/{split}/{side}/" for side in CLASSES)
    found = []
    for path, text in read_files(folder / f"{split}.jsonl", folder / ARCHIVE, below, "utf-8"):
        *_, side, file = path.split("/")  # the file name is <id>_<stars>.txt
        number = int(file.partition("_")[0])
        if corpus == "imdb" or (number < FIRST and (split, side, number) != ALTERED):
            found.append((side, number, text.replace("<br />", " ")))
    return [(CLASSES[side], text) for side, _, text in sorted(found)]
