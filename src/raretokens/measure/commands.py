"""The commands measure and repair."""

import argparse
import sys
from pathlib import Path

from raretokens.cli import argument, command, number
from raretokens.errors import UserError

READING = {"window": False, "context": True, "block": False}  # option -> whether it may be 0


def _shares(text: str) -> list[float]:
    shares = [float(part) for part in text.split(",")]
    if len(shares) != 3 or not (min(shares) >= 0 and abs(sum(shares) - 1) <= 1e-6):  # NaN is neither
        raise argparse.ArgumentTypeError(f"{text} is not allowed: should be three shares that add up to 1")
    return shares


ARGUMENTS = (
    argument("models", nargs="+", metavar="MODEL", help="a folder of transformers, CTranslate2 or Marian (also zipped), "
             "a .safetensors, GGUF, .npy, .npz or word-vector file (also .gz), or hf://owner/name[@revision] of the Hugging Face "
             "Hub"),
    argument("--text", type=Path, help="text whose tokens are counted, for everything that needs frequencies, and that causal "
             "models read, which gives perplexity and anisotropy of hidden states; or a prepared corpus (data/corpus/lm): its "
             "train.txt and test.txt"),
    argument("--test", type=Path, help="text that causal models read; default: the counted text"),
    argument("--tokens", type=number(int), help="tokens of it that are read at most; default: all"),
    argument("--similarity", type=Path, action="append", default=[], metavar="FILE", help="word pairs and human scores, "
             "separated by tabs: does the cosine rank them alike? may be repeated"),
    argument("--out", type=Path, help="folder for index.html, measure.md, measure.csv, measure.json and figures"),
    argument("--compare", action="store_true", help="print the differences of the other models to the first"),
    argument("--sorted", action="store_true", help="take ids as ordered by frequency, so groups need no text"),
    argument("--frequencies", metavar="LANGUAGE", help="without a text, estimate frequencies from the words of the library "
             "wordfreq: en, or en+pt for two languages"),
    argument("--vocabulary", type=Path, help="token of each row, for models without tokens: a line each, JSON or Parquet"),
    argument("--groups", type=_shares, metavar="F,M,R", help="shares of the types that are frequent, medium and rare; "
             "default: 0.3,0.5,0.2"),
    argument("--start-token", choices=("first", "every"), help="put the start token into the first window and block of the "
             "text alone, or into every one; default: first"),
    *(argument(f"--{name}", type=number(int, may_be_0), help=f"tokens of a {name} when a text is read (docs/measure.md)")
      for name, may_be_0 in READING.items()),
)  # fmt: skip


@command(*ARGUMENTS)
def measure(arguments: argparse.Namespace) -> None:
    """Measure the embeddings of models. Read each embedding from its file block by block. Run no code of a model folder, and
    unpickle nothing. Download only the embeddings and the tokenizer of hf:// models. Note assumptions and omissions on standard
    error and on the page. Print a summary of each embedding, and without --out all metrics."""
    from raretokens.measure import output
    from raretokens.measure.measurement import MeasureOptions, count_parts, measure_model
    from raretokens.measure.model import distinct_names, load_model
    from raretokens.measure.notes import progress
    from raretokens.measure.texts import find_texts
    from raretokens.measure.word_similarity import read_similarity_sets

    texts = find_texts(arguments.text, arguments.test) if arguments.text else None
    if arguments.test and not texts:
        raise UserError("--test: needs --text as well, which the frequency groups are counted in")
    if arguments.frequencies and (texts or arguments.sorted):
        raise UserError("--frequencies: not allowed with --text or --sorted, which give the frequencies themselves")
    if arguments.compare and len(arguments.models) < 2:
        raise UserError("--compare: needs two models or more")
    if arguments.out and arguments.out.exists() and not arguments.out.is_dir():
        raise UserError(f"--out: {arguments.out} is a file; should be a folder")
    reading = {name: given for name in READING if (given := getattr(arguments, name)) is not None}
    reading |= {"start": arguments.start_token} if arguments.start_token else {}
    of_text = [name for name in (*READING, "tokens", "start_token") if getattr(arguments, name) is not None]
    if of_text and not texts:
        raise UserError(f"--{of_text[0].replace('_', '-')}: needs --text as well, which the model reads")
    sets = read_similarity_sets(arguments.similarity)
    options = MeasureOptions(
        texts, arguments.groups, arguments.sorted, arguments.frequencies, sets, arguments.tokens, reading, arguments.compare
    )
    if arguments.out:
        from raretokens.measure import page  # before the measurement, as a library may be missing
    measurements = []
    for given, name in zip(arguments.models, distinct_names(arguments.models), strict=True):
        model = load_model(given, arguments.vocabulary)
        model.name = name or model.name
        with progress(model.name, count_parts(model, options)) as report:
            found = measure_model(model, options, report)
        for one in found:
            print("\n".join(output.summary(one)), flush=True)
        measurements += found
    comparisons = output.compare(measurements) if arguments.compare else []
    if arguments.out:
        page.write(measurements, arguments.out, comparisons)
        print(arguments.out / "index.html", file=sys.stderr)
    if arguments.compare:
        print("\n".join(output.difference_lines(comparisons)))
    elif not arguments.out:
        print("\n".join(output.metric_lines(measurements)))


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
    from raretokens.measure.repair.new_rows import RowTraining
    from raretokens.measure.repair.repair_folder import RepairOptions, describe, repair_folder
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
