"""The command repair."""

import argparse
from pathlib import Path

from raretokens.cli import argument, command, number
from raretokens.errors import UserError


@command(
    argument("folder", type=Path, metavar="FOLDER", help="a folder of transformers with safetensors, also in shards"),
    argument("--out", type=Path, metavar="NEW", required=True, help="new folder, which must not exist"),
    argument("--fdr", type=float, metavar="RATE", help="take the rows found at this false-discovery rate; default: 0.05"),
    argument("--rows", metavar="IDS", help="take these rows instead: 5,17,100-120, or @FILE with such ids"),
    argument("--by", choices=("mean", "pieces"), default="mean", help="mean: draw from a normal distribution with the mean and "
             "the covariance of the trained rows; pieces: take the mean row of the subword tokens that the tokenizer splits the "
             "token into without it, and draw only where it cannot be split; default: mean"),
    argument("--scale", type=number(float, True), default=1.0, metavar="FACTOR", help="factor of the standard deviations of a "
             "draw; 0: exactly the mean; default: 1"),
    argument("--seed", type=number(int, True), default=0, help="seed of the draws and of the training; default: 0"),
    argument("--text", type=Path, help="UTF-8 text to train the new rows on, with all other numbers fixed (causal models, with "
             "transformers); default: no training"),
    argument("--steps", type=number(int), help="training steps of 8 windows of 256 tokens; default: 200"),
    argument("--lr", type=number(float), help="learning rate of AdamW, which falls to 0; default: 0.001"),
)  # fmt: skip
def repair(arguments: argparse.Namespace) -> None:
    """Copy a model folder, and initialise under-trained rows of its embeddings anew in the copy. Rows of special tokens and rows
    without a token are taken only if --rows names them. Compare both folders byte by byte. Write repair.json into the copy."""
    from raretokens.measure.notes import progress
    from raretokens.measure.repair.repair_folder import RepairOptions, describe, repair_folder
    from raretokens.measure.repair.row_training import RowTraining
    from raretokens.measure.repair.selection import parse_rows
    from raretokens.metrics.undertrained import RATE

    if arguments.fdr is not None and arguments.rows is not None:
        raise UserError("--fdr: not allowed with --rows, which names the rows")
    fdr = RATE if arguments.fdr is None else arguments.fdr
    if not 0 < fdr < 1:
        raise UserError(f"--fdr: {fdr:g} is not allowed: should be between 0 and 1")
    for name in ("steps", "lr"):
        if getattr(arguments, name) is not None and arguments.text is None:
            raise UserError(f"--{name}: needs --text as well, which the new rows are trained on")
    if arguments.text is not None and not arguments.text.is_file():
        raise UserError(f"--text: {arguments.text}: no such file")
    training = RowTraining(arguments.text, arguments.steps or 200, arguments.lr or 0.001) if arguments.text else None
    named = None if arguments.rows is None else parse_rows(arguments.rows)
    options = RepairOptions(fdr, named, arguments.by, arguments.scale, arguments.seed, training)
    with progress(arguments.folder.resolve().name, 5) as report:
        done = repair_folder(arguments.folder, arguments.out, options, report)
    print("\n".join(describe(done, options)))
    print(arguments.out)
