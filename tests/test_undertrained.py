"""Under-trained rows without a list: planted rows, tables without such rows, families of similar tokens, explanations."""

import numpy as np
import pytest
from tiny.measured import measured
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from raretokens.measure.candidates import can_reach, explain
from raretokens.measure.tokenizers import FastTokenizer
from raretokens.metrics.undertrained import INDICATORS, LEAF, find_undertrained, nearest_neighbours

ROWS, WIDTH, PLANTED = 4000, 96, 20


def trained(random: np.random.Generator) -> np.ndarray:
    """Initial rows, and what training added: a falling spectrum, a shared direction, lengths that differ."""
    spectrum = np.geomspace(3, 0.3, WIDTH) * np.exp(0.2 * random.standard_normal((ROWS, 1)))
    shared = random.standard_normal(WIDTH) * random.uniform(0, 1, (ROWS, 1))
    return random.standard_normal((ROWS, WIDTH)) * (1 + spectrum) + shared


def planted(kind: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A table and its PLANTED rows, whose tokens never occurred."""
    random = np.random.default_rng(seed)
    table, rows = trained(random), np.sort(random.choice(ROWS, PLANTED, replace=False))
    initial = random.standard_normal((PLANTED, WIDTH))
    pushed = 4 * random.standard_normal(WIDTH)
    table[rows] = {"output": initial + pushed, "input": 0.3 * initial, "copies": np.broadcast_to(pushed, initial.shape),
                   "zeros": 0 * initial}[kind]  # fmt: skip
    return table.astype(np.float32), rows


@pytest.mark.parametrize("kind", ["output", "input", "copies", "zeros"])
@pytest.mark.parametrize("seed", [0, 1])
def test_planted_rows_lead_and_are_the_candidates(kind, seed):
    """An output (or tied) embedding has pushed rows, an input embedding decayed ones, an enlarged one copies or zeros."""
    table, rows = planted(kind, seed)
    ids = np.arange(ROWS)
    found = find_undertrained(table, ids)
    assert set(found.ids[found.rank[:PLANTED]]) == set(rows)
    assert set(rows) <= set(found.candidates) and len(found.candidates) <= PLANTED + 5
    expected = {"output": "direction", "input": "length", "copies": "copies", "zeros": "length"}[kind]
    assert {INDICATORS[one] for one in found.indicator[rows]} == {expected}
    if kind == "output":
        assert set(found.reference) <= set(rows)
        away = np.delete(ids, rows)
        moved = find_undertrained(3 * table[np.append(rows, away)], ids)  # neither scale nor order matter
        assert set(moved.candidates[:PLANTED]) == set(range(PLANTED))


def test_the_mean_share_of_false_candidates_is_about_the_rate():
    shares = []
    for seed in range(10):
        table, rows = planted("output", seed)
        candidates = find_undertrained(table, np.arange(ROWS)).candidates
        shares.append(1 - np.isin(candidates, rows).mean())
    assert np.mean(shares) <= 0.1


def test_tables_without_such_rows_have_candidates_as_rarely_as_the_rate_says():
    """Every candidate would be false, so the false-discovery rate is the share of tables that have one."""
    tables = [trained(np.random.default_rng(100 + seed)) for seed in range(20)]
    random = np.random.default_rng(7)
    tables += [random.standard_normal((ROWS, WIDTH)), random.standard_t(5, (ROWS, WIDTH))]
    assert sum(len(find_undertrained(table, np.arange(ROWS)).candidates) > 0 for table in tables) <= 3


def test_a_family_of_similar_tokens_is_no_reference():
    """The rows of numbers in GloVe are closer to each other than any others, but their lengths differ as those of all rows do."""
    random = np.random.default_rng(3)
    table, rows = planted("output", 3)
    family = np.setdiff1d(np.arange(0, 600, 2), rows)
    direction = random.standard_normal(WIDTH)
    table[family] = (3 * direction + 0.4 * random.standard_normal((len(family), WIDTH))) * np.exp(
        0.3 * random.standard_normal((len(family), 1))
    )
    found = find_undertrained(table, np.arange(ROWS))
    assert set(found.reference) <= set(rows)
    assert set(rows) <= set(found.candidates) and len(found.candidates) <= PLANTED + 3


def test_neighbours_in_one_leaf_are_exact_and_tight_clusters_are_found_in_many():
    random = np.random.default_rng(0)
    points = random.standard_normal((LEAF, 16)).astype(np.float32)
    distances, places = nearest_neighbours(points, 5)
    exact = np.linalg.norm(points[:, None] - points, axis=2)
    np.fill_diagonal(exact, np.inf)
    np.testing.assert_allclose(distances, np.sort(exact, axis=1)[:, :5], rtol=1e-3, atol=1e-3)
    np.testing.assert_array_equal(places, np.argsort(exact, axis=1)[:, :5])
    points = random.standard_normal((5001, 16)).astype(np.float32)
    points[::250] = points[0] + 0.05 * random.standard_normal((21, 16))
    distances, places = nearest_neighbours(points, 5)
    assert np.isin(places[::250], np.arange(0, 5001, 250)).all()
    own = np.linalg.norm(points[:, None] - points[places], axis=2)
    np.testing.assert_allclose(own, distances, rtol=1e-2, atol=1e-2)


def test_explanations():
    tokens = ["[UNK]", "the", "##ing", "##。", "[unused7]", "walk", "RandomUser", "q", "##z", "。"]
    model = Tokenizer(models.WordPiece({token: id for id, token in enumerate(tokens)}, unk_token="[UNK]"))
    model.pre_tokenizer, model.decoder = pre_tokenizers.BertPreTokenizer(), decoders.WordPiece()
    tokenizer, ids = FastTokenizer(model), [1, 2, 3, 4, 6]
    reachable = can_reach(tokenizer, ids, [False] * len(ids))
    assert reachable == [True, True, False, False, True]  # a CJK full stop is always a token of its own
    assert [explain(tokenizer, *row) for row in zip(ids, (tokens[id] for id in ids), reachable, strict=True)] == [
        "none found", "none found", "never produced", "reserved", "data artefact",
    ]  # fmt: skip
    others = ["<0xA3>", "\ufffd", "<|fr|>", '":""},{"', "ÃÂÃÂ", None, "k978-1", "house", "O'Neill"]
    assert [explain(None, 0, token, None) for token in others] == [
        "byte fallback", "part of a character", "reserved", "data artefact", "data artefact", "no token", "data artefact",
        "none found", "none found",
    ]  # fmt: skip


def test_measure_lists_the_candidates_with_their_reasons(tmp_path):
    table, rows = planted("output", 5)
    names = np.array([f"word{chr(97 + id % 26)}" if id not in rows else f"<extra_id_{id}>" for id in range(ROWS)])
    np.savez(tmp_path / "vectors.npz", table=table, words=names)
    (one,) = measured(tmp_path / "vectors.npz")
    value, signature = one.metrics["undertrained"]
    assert (
        PLANTED <= value["candidates"] <= PLANTED + 3 and value["below"] < value["median"] and "fdr:0.05" in signature
    )
    assert {candidate["id"] for candidate in one.candidates[:PLANTED]} == set(rows.tolist())
    assert {candidate["explanation"] for candidate in one.candidates[:PLANTED]} == {"reserved"}
    assert all(candidate["false-discovery rate"] <= 0.05 for candidate in one.candidates)
    assert all(candidate.keys() >= {"token", "count", "distance", "reachable"} for candidate in one.candidates)
    rates = [candidate["false-discovery rate"] for candidate in one.candidates]
    assert rates == sorted(rates)
