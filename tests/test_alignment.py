"""Links by the fast_align model: right on a language whose dictionary is known, the same on two runs."""

from collections import Counter

from tiny.world import lines

from raretokens.alignment import links


def test_words_are_linked_to_their_translations():
    pairs = [(tuple(s.split()), tuple(t.split())) for s, t in zip(*lines(500, 3), strict=True)]
    found = list(links.links(links.train(pairs), pairs))
    right = Counter(
        source[i][::-1] == target[j] for (source, target), pair in zip(pairs, found, strict=True) for i, j in pair
    )
    assert right[True] / right.total() > 0.95
    assert found == list(links.links(links.train(pairs), pairs))


def test_links_are_counted_by_type():
    ids = {
        word: str(number)
        for number, word in enumerate(sorted({w for part in lines(300, 4) for s in part for w in s.split()}))
    }
    pairs = [tuple(tuple(ids[w] for w in side.split()) for side in pair) for pair in zip(*lines(300, 4), strict=True)]
    counts = links.count(pairs, len(ids))
    assert counts.sum() == sum(map(len, links.links(links.train(pairs), pairs)))
    river = counts[int(ids["river"])].toarray()[0]
    assert river.argmax() == int(ids["river"[::-1]])
