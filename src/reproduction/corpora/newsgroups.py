"""Read 20 Newsgroups by date (Ken Lang; Jason Rennie's version), with one message including its headers per line.

`20news` has four classes of newsgroups (computers, politics, recreation, religion), as in Lai et al. (2015) and FRAGE. One of ten
training documents is for validation, which gives the 7,520, 836 and 5,563 documents of Lai et al. `20news-4` has the four
newsgroups that scikit-learn's user guide uses. It is read from a sample with these newsgroups only, or from the whole archive.
"""

from pathlib import Path

from reproduction.corpora.splits import Document, hold_out, read_files

SERVES = {"documents": ("20news", "20news-4")}
LANGUAGES = {"text": "en"}
ARCHIVE = "20news-bydate.tar.gz"
EVERY = 10  # one of this number of training documents is for validation
GROUPS = {"comp.": "computers", "rec.": "recreation", "talk.politics.": "politics"}
RELIGION = ("alt.atheism", "soc.religion.christian", "talk.religion.misc")
FOUR = ("alt.atheism", "comp.graphics", "sci.space", "talk.religion.misc")


def documents(raw: Path, corpus: str) -> dict[str, list[Document]]:
    """Return split -> (class, text) of each message."""
    return hold_out(*(_documents(raw, corpus, split) for split in ("train", "test")), EVERY)


def _documents(raw: Path, corpus: str, split: str) -> list[Document]:
    """Return class and text of each message, by newsgroup and message number."""
    class_of = {group: group for group in FOUR}.get if corpus == "20news-4" else _kind
    folder, found = raw / corpus, []
    for path, text in read_files(folder / f"{split}.jsonl", folder / ARCHIVE, (f"20news-bydate-{split}/",), "latin-1"):
        *_, group, number = path.split("/")
        found.append((group, int(number), text))
    return [(name, text) for group, _, text in sorted(found) if (name := class_of(group))]


def _kind(group: str) -> str | None:
    """Return the class of a newsgroup in `20news`; None for newsgroups in no class, such as sci.space."""
    if group in RELIGION:
        return "religion"
    return next((name for start, name in GROUPS.items() if group.startswith(start)), None)
