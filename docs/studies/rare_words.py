"""What are the rare words of a text? FRAGE, section 3: half are nouns, a tenth has a hyphen, a third are forms of popular words.

    cd scales/small && python ../../docs/studies/rare_words.py data/corpus/skipgram/train.txt

It needs `pip install nltk` and `python -m nltk.downloader averaged_perceptron_tagger_eng`, the paper's tagger.

Words are letters, joined by hyphens and apostrophes. The most frequent fifth of the words that occur is popular, as in FRAGE, and
the others are rare. The paper counts with the tokens of its tasks, and by how often a word must occur is not said. So the shares
are also given for words that occur at least 2 and 5 times. Hyphens are counted in all words, the rest in samples of popular and
of rare words:

* nouns: words that are tagged as nouns where they first occur (`names`: as proper nouns);
* forms: words that have the Porter stem of a popular word of the whole text with another tag, apart from letter case and proper
  nouns. The popular word has to be more frequent. This is our interpretation of "different PoSs of popular words".

The study prints a line for each group and boundary.
"""

import random
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from nltk import PorterStemmer, pos_tag
from shared import print_table

WORD = re.compile(r"[^\W\d_]+(?:[-'’][^\W\d_]+)*")
TOKEN = re.compile(rf"{WORD.pattern}|\S")
POPULAR, BOUNDARIES, SAMPLE = 0.2, (1, 2, 5), 2000
COLUMNS = ["occur", "words", "group", "hyphen", "nouns", "names", "forms"]


def lines(file: Path) -> Iterator[str]:
    with file.open(encoding="utf-8") as text:
        yield from text


def first_tags(file: Path, words: set[str]) -> dict[str, str]:
    """Return the Penn Treebank tag of each word in the line where it first occurs."""
    missing, tags = set(words), {}
    for line in lines(file):
        if new := missing.intersection(WORD.findall(line)):
            for token, tag in pos_tag(TOKEN.findall(line)):
                if token in new:
                    tags.setdefault(token, tag)
            missing -= new
    return tags


def other_forms(words: set[str], popular: Sequence[str], counts: Counter[str]) -> dict[str, list[str]]:
    """Return the more frequent popular words with the stem of each word, apart from letter case."""
    stem, of_stem = PorterStemmer().stem, defaultdict(list)
    for other in popular:
        of_stem[stem(other)].append(other)
    return {
        word: [other for other in of_stem[stem(word)] if counts[other] > counts[word] and other.lower() != word.lower()]
        for word in words
    }


def share(members: Sequence[bool]) -> str:
    return f"{sum(members) / len(members):.1%}"


def main(file: Path) -> None:
    counts: Counter[str] = Counter()
    for line in lines(file):
        counts.update(WORD.findall(line))
    ranked = [word for word, _ in counts.most_common()]
    draw, groups = random.Random(0), []
    for least in BOUNDARIES:
        known = [word for word in ranked if counts[word] >= least]
        popular = int(POPULAR * len(known))
        groups += [(least, len(known), *group) for group in (("popular", known[:popular]), ("rare", known[popular:]))]
    samples = [draw.sample(words, min(SAMPLE, len(words))) for *_, words in groups]
    others = other_forms(set().union(*samples), ranked[: int(POPULAR * len(ranked))], counts)
    tags = first_tags(file, set(others).union(*others.values()))
    form = {word: tag.replace("NNP", "NN") for word, tag in tags.items()}
    rows = []
    for (least, known, group, words), sample in zip(groups, samples, strict=True):
        nouns, names = ([tags[word].startswith(kind) for word in sample] for kind in ("NN", "NNP"))
        forms = [any(form[other] != form[word] for other in others[word]) for word in sample]
        rows.append([least, known, group, share(["-" in word for word in words]), share(nouns), share(names), share(forms)])
    print_table(COLUMNS, rows, width=9)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
