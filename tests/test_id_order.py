"""Ids are names: a vocabulary in another order has the same losses, gradients and metrics, in that order."""

import dataclasses

import numpy as np
import pytest
import torch
from scipy import sparse
from test_objectives import VARIANTS
from tiny.update import D, N, settings

from raretokens import Loop, UserError, build, facts, facts_of_text
from raretokens.metrics import bootstrap, frequency, isotropy, neighbours, predictions, similarity, spectrum
from raretokens.metrics.rows import members
from raretokens.vocabulary import FILLER, Vocabulary

TYPES, PAD, MARKERS = N - 2, 1, (0, 1, 2, 3)  # of the vocabulary before it is renumbered
BESIDE = [("frage", {"moves_table": True, "steps": 2}), ("frage", {"minibatch": 7}), ("coupled_adam", {"average_scale": 0.5})]


def trained(name: str, options: dict, new: torch.Tensor) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Losses and matrices of six steps, with type k at id new[k]; rows of the matrices in the order before."""
    random = torch.Generator().manual_seed(7)
    counts = torch.zeros(N, dtype=torch.int64)
    counts[new[:TYPES]] = torch.arange(TYPES, 0, -1) * 3
    known = facts(
        counts, width=D, steps_per_epoch=4, types=TYPES, markers=new[list(MARKERS)].tolist(), pad=int(new[PAD]), rare_share=0.3,
        label_smoothing=0.1,
    )  # fmt: skip
    torch.manual_seed(0)
    objective = build(name, known, **settings(name, options))
    embedding = torch.nn.Parameter(torch.empty(N, D))
    embedding.data[new] = torch.randn(N, D, generator=random)
    loop = Loop(objective, embedding)
    optimizer = loop.optimizer([embedding], lr=0.01, betas=(0.9, 0.99), eps=1e-8, weight_decay=0.1)
    losses, matrices = [], []
    for _ in range(6):
        hidden = torch.randn(3, 9, D, generator=random).requires_grad_()
        targets = new[4 + (torch.rand(3, 9, generator=random) ** 2 * (TYPES - 4)).long()]
        targets[1, 5:] = new[PAD]
        loop.begin([targets])
        loss = loop.loss(hidden, targets)
        loss.backward()
        loop.step(optimizer)
        optimizer.zero_grad()
        losses += [loss.detach(), hidden.grad]
        matrices.append(embedding.detach()[new].clone())
    return losses, matrices


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize(("name", "options"), VARIANTS + BESIDE)
def test_an_objective_trains_a_renumbered_vocabulary_alike(name, options):
    if name == "ul_agg" and options.get("alpha_scale"):
        options = {**options, "alpha": 0.3}
    new = torch.cat((torch.randperm(TYPES, generator=torch.Generator().manual_seed(1)), torch.arange(TYPES, N)))
    for before, after in zip(*(sum(trained(name, options, ids), []) for ids in (torch.arange(N), new)), strict=True):
        torch.testing.assert_close(after, before, atol=1e-9, rtol=1e-9)


def test_popular_types_are_those_that_occur_most():
    known = facts(torch.tensor([1, 2, 900, 3, 800, 5, 700, 4, 6, 7]), width=4, steps_per_epoch=3, rare_share=0.3)
    assert known.rare.nonzero().flatten().tolist() == [0, 1, 3]
    assert build("frage", known, popular=0.3).popular_rows.tolist() == [2, 4, 6]
    assert build("agps", known, first_rare=3).rare.logical_not().nonzero().flatten().tolist() == [2, 4, 6]
    given = dataclasses.replace(known, order=torch.arange(10))
    assert build("frage", given, popular=0.3).popular_rows.tolist() == [0, 1, 2]
    ties = facts(torch.tensor([0, 4, 4, 9, 4, 0]), width=4, steps_per_epoch=3, markers=[5], types=6)
    assert ties.by_frequency.tolist() == [5, 3, 1, 2, 4, 0] and ties.ranks.tolist() == [5, 2, 3, 1, 4, 0]
    with pytest.raises(ValueError, match=r"^facts: order of ids is not allowed: each id in 0\.\.2 once$"):
        facts(torch.ones(3), width=4, steps_per_epoch=1, order=torch.tensor([0, 1, 1]))


class Holes:
    """A tokenizer of four tokens, with ids up to 9."""

    all_special_ids = (12,)

    def __len__(self) -> int:
        return 4

    def __call__(self, line: str, add_special_tokens: bool) -> dict[str, list[int]]:
        return {"input_ids": [3 * "abcd".index(letter) for letter in line]}


def test_what_occurs_is_never_a_filler(tmp_path):
    known = facts_of_text(Holes(), ["abcd"] * 4, rows=16, width=4, tokens_per_step=4)
    assert known.types == 13 and known.used[[0, 3, 6, 9]].all() and not known.used[13:].any()
    with pytest.raises(ValueError, match="^facts: types 4 is not allowed: ids up to 6 occur$"):
        facts(torch.tensor([1, 0, 0, 0, 0, 0, 2, 0]), width=4, steps_per_epoch=1, types=4)


@pytest.mark.parametrize("kind", [str, lambda path: path])
def test_a_path_is_a_file_whether_str_or_path(tmp_path, kind):
    path = tmp_path / "text"
    path.write_text("\ufeffab\nba\n", encoding="utf-8")  # a byte-order mark is no text
    known = facts_of_text(str.encode, kind(path), rows=256, width=4, tokens_per_step=4)
    assert known.counts[[97, 98]].tolist() == [2, 2] and known.counts.sum() == 4
    with pytest.raises(FileNotFoundError, match="nowhere"):
        facts_of_text(str.encode, kind(tmp_path / "nowhere"), rows=256, width=4, tokens_per_step=4)


@pytest.mark.parametrize("pad", [-100, 5])
def test_padding_that_is_no_row_is_refused_where_a_row_is_needed(pad):
    with pytest.raises(UserError, match="^objective agg: unmasked_pad needs padding that is a row of the embedding matrix"):
        build("agg", facts(torch.ones(5), width=4, steps_per_epoch=1, pad=pad), unmasked_pad=True)


@pytest.mark.parametrize("options", [{}, {"shared_direction": True}])
@pytest.mark.parametrize("rows", [30, 200])
def test_adversarial_loss_is_the_same_whatever_marks_padding(options, rows):
    random, both = torch.Generator().manual_seed(0), []
    hidden, weight = torch.randn(3, 9, 4, generator=random), torch.randn(rows, 4, generator=random)
    targets = torch.randint(0, rows - 1, (3, 9), generator=random)
    for pad in (-100, rows - 1):
        states, targets[1:, 5:] = hidden.clone().requires_grad_(), pad
        objective = build("adversarial", facts(torch.ones(rows), width=4, steps_per_epoch=1, pad=pad), a=0.3, **options)
        loss = objective.loss(states, weight, targets).loss
        loss.backward()
        both.append((loss.detach(), states.grad))
    assert torch.equal(both[0][0], both[1][0]) and torch.equal(both[0][1], both[1][1])


# Metrics: ids 0 to 3 are the markers of a vocabulary, and fillers are its last rows; the types between are renumbered.
ROWS, QUERIES = 60, ("w9", "w20", "w33")
WORDS = [f"w{number}" for number in range(ROWS)]


def measured(new: np.ndarray) -> dict:
    """Every metric of rows, counts or groups, with type k at id new[k]."""
    random, old = np.random.default_rng(3), np.argsort(new)
    embedding = random.normal(0.3, 1.0, (ROWS, 5))
    embedding[:20, 0] += 1.5
    counts, groups = np.arange(ROWS, 0, -1) ** 2, np.repeat([0, 1, 2, FILLER], [18, 20, 19, 3])
    targets, predicted = random.integers(4, 57, 400), random.integers(4, 57, 400)
    logprob, mass = np.log(random.random(400)), np.log(random.random(400))
    links = sparse.random_array((ROWS, ROWS), density=0.1, rng=random).tocsr()
    embedding, counts, groups, links = embedding[old], counts[old], groups[old], links[old][:, old]
    targets, predicted, tokens = new[targets], new[predicted], tuple(WORDS[k] for k in old)
    vocabulary = Vocabulary(tokens, counts, counts, 3)
    pairs = [(a, b, float(n)) for n, (a, b) in enumerate((("w9", "w20"), ("w20", "w33"), ("w33", "w12"), ("w40", "w51")))]
    by_partition = isotropy.log_partitions(embedding, groups)
    value = {
        "popular": frequency.popular_types(counts, groups)[new].astype(float),
        "norms": frequency.norms(embedding, counts, groups)[0],
        "norm_by_frequency": frequency.norm_by_frequency(embedding, counts, groups)[0],
        "zipfian": {name: one[0] for name, one in frequency.zipfian_whitening(embedding, counts, groups).items()},
        "isotropy": isotropy.isotropy(by_partition)[0],
        "isotropy_both_signs": isotropy.isotropy_both_signs(by_partition)[0],
        "alignsim": similarity.alignsim(embedding, links, groups)[0],
        "words": similarity.word_similarity(embedding, {"x": pairs}, lambda word: [tokens.index(word)], form="x")[0],
        "perplexity": predictions.perplexity(logprob, targets, groups, window=1, context=1)[0],
        "rare_mass": predictions.rare_mass(mass, targets, groups)[0],
        "token_share": predictions.token_share(targets, groups)[0],
        "uniq": predictions.uniq(predicted, groups)[0],
        "bootstrap_perplexity": bootstrap.perplexity(logprob, targets, groups),
        "bootstrap_uniq": bootstrap.uniq(predicted, groups),
        "rare_neighbours": neighbours.rare_among_neighbours_of_rare(embedding, counts, groups)[0],
        "rank_correlation": neighbours.rank_correlation(embedding, vocabulary, groups, QUERIES)[0],
        "curve": [point[:2] for point in neighbours.similarity_curve(embedding, vocabulary, groups, "w20")],
        "neighbours": [near[1] for near in neighbours.neighbours(embedding, tokens, groups, QUERIES)[0]["w9"]],
        "named": [rank for _, rank in neighbours.named_ranks(embedding, tokens, groups, {"w9": QUERIES[1:]})["w9"]],
        "all_but_top": spectrum.all_but_top(embedding, groups)[0][new],
    }
    one_argument = (isotropy.mean_cosine, isotropy.rare_freq_cosine, isotropy.group_cosine, isotropy.mean_inner_product,
                    isotropy.positive_cosine, spectrum.singular_values, spectrum.effective_rank, spectrum.iso_score)  # fmt: skip
    value |= {metric.__name__: metric(embedding, groups)[0] for metric in one_argument}
    value["projection"] = {
        name: np.abs(points[np.argsort(old[members(groups)[name]])])
        for name, points in spectrum.projection(embedding, groups, sample=100)[0].items()
    }
    return value


def test_a_metric_of_a_renumbered_vocabulary_is_the_same():
    new = np.arange(ROWS)
    new[4:57] = 4 + np.random.default_rng(2).permutation(53)
    before, after = measured(np.arange(ROWS)), measured(new)
    for name, value in before.items():
        parts = value if isinstance(value, dict) else {"": value}
        for part, expected in parts.items():
            found = after[name][part] if isinstance(value, dict) else after[name]
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6, err_msg=f"{name} {part}")
