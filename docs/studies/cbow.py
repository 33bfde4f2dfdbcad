"""Do popular and rare rows of CBOW lie in different regions, as FRAGE says in section 3?

    pip install gensim
    cd scales/small && python ../../docs/studies/cbow.py

gensim trains CBOW with its own defaults on the tokens of the skip-gram runs, for as many epochs as an argument says (default: 5).
The most frequent fifth of the types is popular, and the others are rare. The study prints the balanced accuracy of the frequency
probe on held-out rows, with the labels as they are and shuffled, and the share of rare types among the neighbours of rare types
and of popular types. Random labels would give 50 % and the share of all types. It trains with one thread and one seed.
"""

import sys

import numpy as np
from gensim.models import Word2Vec
from hidden_states import rare_among_nearest
from shared import print_table, read_vocabulary

from raretokens.metrics.frequency import popular_types, popularity_accuracy
from raretokens.metrics.neighbours import rare_among_neighbours_of_rare
from raretokens.metrics.rows import unit
from raretokens.vocabulary import EOS, FILLER
from reproduction.corpora.tokenization.token_files import tokens as stream
from reproduction.paths import tokens
from reproduction.pipeline.parameters_file import load

TOKENS = "skipgram"  # folder of data/tokens
COLUMNS = ["probe accuracy", "shuffled", "neighbours of rare", "neighbours of popular", "chance"]


def sentences(words: list[str]) -> list[list[str]]:
    """Return the training text as lists of words."""
    ids = np.asarray(stream(tokens(TOKENS), "train"))
    return [[words[i] for i in part if i != EOS] for part in np.split(ids, np.flatnonzero(ids == EOS) + 1)]


def main(epochs: str = "5") -> None:
    vocabulary, groups = read_vocabulary(TOKENS, load())
    model = Word2Vec(sentences(vocabulary.tokens), min_count=1, sg=0, epochs=int(epochs), workers=1, seed=1)
    place = np.array([model.wv.key_to_index.get(word, -1) for word in vocabulary.tokens])  # -1: not in the text
    rows, groups = model.wv.vectors[place], np.where(place < 0, FILLER, groups)
    probes = [
        popularity_accuracy(rows, vocabulary.counts, groups, shuffled=shuffled)[0]["accuracy"] for shuffled in (False, True)
    ]
    near, _ = rare_among_neighbours_of_rare(rows, vocabulary.counts, groups)
    is_rare = ~popular_types(vocabulary.counts, groups)[groups != FILLER]
    of_popular = rare_among_nearest(unit(rows[groups != FILLER]), is_rare, of_rare=False)
    shares = [100 * share for share in (near["rare"], of_popular, near["chance"])]
    print_table(COLUMNS, [[f"{value:.1f}" for value in (*probes, *shares)]], width=22)


if __name__ == "__main__":
    main(*sys.argv[1:])
