"""Does the constant of rare_bias.py also predict as many distinct rare types (Uniq)?

    cd scales/small && python ../../docs/studies/rare_bias_types.py mle-2

The study reads the constants of this run of maximum likelihood from rare-bias-<scale>.csv and adds each to the
logits of all rare types. It writes rare-bias-types-<scale>.csv: the number of distinct types that are most probable
at some position of the test text, by group. Beside it are the numbers of the method's own run and of the run without a
constant.
"""

import json
import sys
from pathlib import Path

import torch
from shared import FOLDER, print_table, read_vocabulary, write_table
from torch import Tensor

from raretokens.csv_files import read_csv
from raretokens.metrics.predictions import uniq
from raretokens.metrics.reading import predict_text
from raretokens.vocabulary import RARE
from reproduction.corpora.tokenization.token_files import tokens as stream
from reproduction.paths import tokens, trained
from reproduction.pipeline.parameters_file import load
from reproduction.tasks.parameters import ModelConfig
from reproduction.training.models.registry import build, load_weights

KINDS = ("total", "freq", "med", "rare")
COLUMNS = ["run", "beside", "what", "constant", *KINDS]


def main(*baselines: str) -> None:
    parameters, rows = load(), []
    constants = read_csv(FOLDER / f"rare-bias-{parameters.scale}.csv").to_dict("records")
    for name in baselines:
        run, settings = parameters.run("lm", name), parameters.lm.evaluation
        # Only predictions are needed, so each position is read once.
        settings = settings.model_copy(update={"window": settings.block, "context": 0})
        vocabulary, groups = read_vocabulary(run.tokens, parameters)
        model = read_model(name, parameters.lm.models[run.model], len(vocabulary), settings.block)
        text = stream(tokens(run.tokens), "test")
        rare = torch.from_numpy(groups == RARE)

        def predicted(constant: float) -> list[int]:
            def logits(inputs: Tensor, first: int) -> Tensor:
                return (model(inputs)[:, first:] @ model.embedding.T).float() + constant * rare  # noqa: B023

            found, _ = uniq(predict_text(logits, text, settings).prediction, groups, block=settings.block)  # noqa: B023
            return [found[kind] for kind in KINDS]

        rows.append([name, name, "the run", "", *predicted(0.0)])
        for row in constants:
            if row["beside"] == name:
                its = scored(row["run"]) if row["what"] == "the run" else predicted(float(row["constant"]))
                rows.append([row["run"], name, row["what"], row["constant"], *its])
    print_table(COLUMNS, rows, width=15)
    write_table(f"rare-bias-types-{parameters.scale}", COLUMNS, rows)


def read_model(run: str, config: ModelConfig, types: int, positions: int) -> torch.nn.Module:
    """Return a trained language model for sequences of `positions` tokens."""
    model = build(config.architecture, config.shape, types, positions).eval()
    load_weights(model, trained("lm", run) / "model.safetensors")
    return model


def scored(run: str) -> list[int]:
    found = json.loads(Path(f"reports/runs/lm/{run}.json").read_text(encoding="utf-8"))["metrics"]["uniq"]
    return [found[kind] for kind in KINDS]


if __name__ == "__main__":
    main(*sys.argv[1:])
