"""How many rare words of a text contain a hyphen, next to popular words? FRAGE, section 3: around 10 % of the rare words.

    cd scales/small && python ../../docs/studies/rare_words.py data/corpus/skipgram/train.txt

Words are letters, joined by hyphens and apostrophes. The most frequent fifth of the words that occur is popular, as in FRAGE, and
the others are rare. The paper counts with the tokens of its tasks, and by how often a word must occur is not said. So the shares
are also given for words that occur at least 2 and 5 times. The study prints a line for each.
"""

import re
import sys
from collections import Counter
from pathlib import Path

from shared import print_table

WORD = re.compile(r"[^\W\d_]+(?:[-'’][^\W\d_]+)*")
POPULAR = 0.2
COLUMNS = ["occur", "words", "popular", "rare"]


def hyphenated(words: list[str]) -> str:
    return f"{sum('-' in word for word in words) / len(words):.1%}"


if __name__ == "__main__":
    counts: Counter[str] = Counter()
    with Path(sys.argv[1]).open(encoding="utf-8") as lines:
        for line in lines:
            counts.update(WORD.findall(line))
    ranked = [word for word, _ in counts.most_common()]
    rows = []
    for least in (1, 2, 5):
        known = [word for word in ranked if counts[word] >= least]
        popular = int(POPULAR * len(known))
        rows.append([least, len(known), hyphenated(known[:popular]), hyphenated(known[popular:])])
    print_table(COLUMNS, rows, width=9)
