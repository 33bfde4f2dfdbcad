"""measure: anyone's model, or several beside each other."""

import argparse
import sys
from pathlib import Path

from raretokens.errors import UserError


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the parser."""
    one = commands.add_parser(
        "measure",
        help="is a model's table degenerate, and which rows are under-trained?",
        description="Measures the embedding tables of models. A table is read from its file block by block; no code of a "
        "model folder is executed, nothing is unpickled or downloaded.",
    )
    one.set_defaults(act=measure)
    one.add_argument("models", nargs="+", metavar="MODEL", help="a folder of transformers, a .safetensors, .npy or "
                     "word-vector text file, or a run of the pipeline (lm/mle, seen from the folder of a scale)")  # fmt: skip
    one.add_argument("--text", type=Path, help="text whose pieces are counted, for everything that needs frequencies, and "
                     "that causal models read; or a prepared corpus (data/corpus/lm): its train.txt and test.txt")  # fmt: skip
    one.add_argument("--test", type=Path, help="text that causal models read, where it is another than is counted")
    one.add_argument("--tokens", type=_count, help="tokens of it that are read at most")
    one.add_argument("--similarity", type=Path, action="append", default=[], metavar="FILE", help="words, words and people's "
                     "scores of both, separated by tabs: does the cosine rank them alike? may be repeated")  # fmt: skip
    one.add_argument(
        "--out", type=Path, help="folder for index.html, measure.md, measure.csv, measure.json and figures"
    )
    one.add_argument("--compare", action="store_true", help="differences of the other models to the first")
    one.add_argument("--sorted", action="store_true", help="ids follow frequency, so groups need no text")
    one.add_argument("--groups", type=_shares, metavar="F,M,R", help="shares of the types that are frequent, medium and "
                     "rare (0.3,0.5,0.2)")  # fmt: skip
    for name in ("window", "context", "block"):
        one.add_argument(f"--{name}", type=_count, help=f"tokens of a {name} when a text is read (docs/measure.md)")


def _count(text: str) -> int:
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{text} is not allowed: should be 0 or more")
    return number


def _shares(text: str) -> list[float]:
    shares = [float(part) for part in text.split(",")]
    if len(shares) != 3 or min(shares) < 0 or abs(sum(shares) - 1) > 1e-6:
        raise argparse.ArgumentTypeError(f"{text} is not allowed: should be three shares that add up to 1")
    return shares


def measure(arguments: argparse.Namespace) -> None:
    """Print what was asked, and write the folder. Raises UserError."""
    from raretokens.tools.measure import output, text

    texts = text.find(arguments.text, arguments.test) if arguments.text else None
    if arguments.test and not texts:
        raise UserError("--test: needs --text as well, which the frequency groups are counted in")
    if arguments.compare and len(arguments.models) < 2:
        raise UserError("--compare: needs two models or more")
    measured = [one for name in arguments.models for one in _model(name, texts, arguments)]
    if arguments.out:
        output.write(measured, arguments.out, arguments.compare)
        print(f"{arguments.out / 'index.html'}", file=sys.stderr)
    _print(measured, arguments.compare)


def _model(name: str, texts, arguments: argparse.Namespace):
    from raretokens.tools.measure import measurement as measure
    from raretokens.tools.measure import model, predictions, text
    from raretokens.tools.measure import word_similarity as similarity

    found = model.find(name)

    def say(what: str) -> None:
        print(f"{found.name}: {what}", file=sys.stderr, flush=True)

    counts = text.counts(found, texts.counted) if texts else None
    tables, sets = [], similarity.read(arguments.similarity)
    for kind, stored in found.tables.items():
        known = measure.counted(found, stored.shape[0], counts, arguments.groups, arguments.sorted)
        tables.append(measure.table(found, kind, stored, known, say, sets))
    if texts:
        own = {
            key: getattr(arguments, key)
            for key in ("window", "context", "block")
            if getattr(arguments, key) is not None
        }
        reach = predictions.Reach(**found.probe | own).within(found.positions)
        if reach.context >= reach.window:
            raise UserError(f"--context: {reach.context} is not allowed: should be below the window of {reach.window}")
        if asked := predictions.predicting(found, reach, say):
            ids = text.ids(found, texts.read, arguments.tokens)
            signed, tables[-1].drawn = predictions.ask(found, asked, ids, tables[-1].by_row, reach)
            tables[-1].metrics.update(signed)
    return tables


def _print(measured, is_compared: bool) -> None:
    """A line a metric; with --compare a line a difference."""
    from raretokens.tools.measure import output

    for before, after, found in output.compared(measured) if is_compared else ():
        print(f"{after} less {before}")
        for one in found:
            bounds = "" if one.low is None else f"  [{output.shown(one.low)}, {output.shown(one.high)}]"
            print(f"  {one.path:32} {output.shown(one.value):>12}{bounds}")
    if not is_compared:
        print(f"{'':32} " + "  ".join(f"{one.title:>14}" for one in measured))
        for row in output.rows(measured):
            print(f"{row['path']:32} " + "  ".join(f"{number:>14}" for number in row["numbers"]))
