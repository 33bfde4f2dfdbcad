"""Does the blind search for under-trained rows find as many as indicators that are given rows known to be unused?

    python docs/studies/undertrained_rows.py FOLDER     # packages of the gallery are installed below FOLDER

compares raretokens measure with the three indicators of Magikarp (Land and Bartolo 2024), and writes undertrained-rows.csv.
The indicators are the length of a row, and its cosine and Euclidean distance to the mean of known unused rows; the cosine is that
after the first direction is projected out. The known rows take no part in the comparison. Positives are:

* Whisper: published glitch tokens of GPT-2's vocabulary (Rumbelow and Watkins 2023), in glitch-tokens.txt; the language tokens
  are the known rows.
* MiniLM: the `[unused*]` tokens; the first 20 of them are the known rows.
* A small Llama, tied and untied, trained on text without 25 of its tokens; five of them are the known rows.

`recall` is the share of the positives among the candidates of raretokens, and for an indicator the largest recall at no lower
precision. Rows beside the positives may be under-trained too, so precision is a lower bound.
"""

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from shared import write_table

from raretokens.metrics.rows import unit
from raretokens.metrics.undertrained import find_undertrained

ROOT = Path(__file__).parents[2]
COLUMNS = ["embedding matrix", "method", "positives", "average precision", "precision", "recall"]
GLITCH = Path(__file__).with_name("glitch-tokens.txt").read_text(encoding="utf-8").split()
TYPES, WIDTH, LENGTH, STEPS, BATCH = 1500, 48, 32, 400, 16  # of the Llama and its training
UNUSED, KNOWN = 25, 5  # its tokens that never occur, and those of them that the indicators are given


def small_llama(is_tied: bool) -> tuple[np.ndarray, np.ndarray]:
    """Train a Llama on ids by Zipf's law. Return its output embedding and its unused ids."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=TYPES, hidden_size=WIDTH, intermediate_size=2 * WIDTH, num_hidden_layers=1, num_attention_heads=4,
            max_position_embeddings=LENGTH, tie_word_embeddings=is_tied,
        )
    )  # fmt: skip
    ids = torch.randperm(TYPES)
    unused, used = ids[:UNUSED], ids[UNUSED:]
    share = 1 / torch.arange(1.0, len(used) + 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.1)
    for _ in range(STEPS):
        text = used[torch.multinomial(share, BATCH * LENGTH, replacement=True)].view(BATCH, LENGTH)
        model(input_ids=text, labels=text).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return model.get_output_embeddings().weight.detach().numpy(), unused.numpy()


def matrices(folder: Path) -> Iterator[tuple[str, np.ndarray, np.ndarray, np.ndarray]]:
    """Yield title, rows, ids of the positives and ids of the known rows."""
    sys.path.insert(0, str(ROOT / "docs/examples/gallery"))
    import gallery

    for title, positive, known in (
        ("Whisper tiny.en", lambda token: token in GLITCH, lambda token: re.fullmatch(r"<\|[a-z]{2,3}\|>", token)),
        ("MiniLM-L6", *(lambda token, n=n: bool(found := re.fullmatch(r"\[unused(\d+)\]", token)) and (int(found[1]) < 20) == n
                        for n in (False, True))),
    ):  # fmt: skip
        model, _ = gallery.load(title, gallery.install(title, folder))
        (stored,) = model.embeddings.values()
        named = model.tokens
        tokens = [named.get(row, "") for row in range(stored.shape[0])]
        chosen = [np.array([id for id, token in enumerate(tokens) if test(token)]) for test in (positive, known)]
        yield title, stored.read(np.arange(stored.shape[0])), *chosen
    for is_tied in (True, False):
        rows, unused = small_llama(is_tied)
        yield f"Llama, {'tied' if is_tied else 'untied'}", rows, unused[KNOWN:], unused[:KNOWN]


def indicators(rows: np.ndarray, known: np.ndarray) -> dict[str, np.ndarray]:
    """Return the three indicators of each row; low ones point at under-trained rows."""
    rows = rows.astype(np.float64)
    first = np.linalg.eigh(rows.T @ rows)[1][:, -1]
    turned = unit(rows - np.outer(rows @ first, first))
    centre = rows[known].mean(0)
    (towards,) = unit((centre - (centre @ first) * first)[None])
    return {
        "Magikarp, cosine distance": 1 - turned @ towards,
        "Magikarp, Euclidean distance": np.linalg.norm(rows - centre, axis=1),
        "Magikarp, length": np.linalg.norm(rows, axis=1),
    }


def precision_and_recall(order: np.ndarray, positives: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return precision and recall of the first rows of the order, for each number of them."""
    hits = np.cumsum(np.isin(order, positives))
    return hits / np.arange(1, len(order) + 1), hits / len(positives)


def compare(title: str, rows: np.ndarray, positives: np.ndarray, known: np.ndarray) -> Iterator[dict[str, object]]:
    """Yield a row of the CSV for each method."""
    found = find_undertrained(rows, np.arange(len(rows)))
    if found is None:
        raise ValueError(f"{title}: too few rows")
    orders = {"raretokens": found.ids[found.rank]}
    orders |= {name: np.argsort(values, kind="stable") for name, values in indicators(rows, known).items()}
    size = int((~np.isin(found.ids[found.candidates], known)).sum())
    target = 0.0
    for name, order in orders.items():
        precision, recall = precision_and_recall(order[~np.isin(order, known)], positives)
        if name == "raretokens":
            place = max(size, 1) - 1
            target = float(precision[place])
        else:
            allowed = np.flatnonzero(precision >= target)
            place = int(allowed[recall[allowed].argmax()]) if len(allowed) else 0
        average = precision[np.flatnonzero(np.diff(recall, prepend=0.0))].mean()
        values = title, name, len(positives), *(f"{value:.3f}" for value in (average, precision[place], recall[place]))
        yield dict(zip(COLUMNS, values, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="folder for packages")
    lines = [line for each in matrices(parser.parse_args().folder) for line in compare(*each)]
    write_table("undertrained-rows", COLUMNS, lines)


if __name__ == "__main__":
    main()
