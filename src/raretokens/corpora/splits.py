"""Reading lines, filtering them, and writing the splits of a corpus with counts of what was dropped and why."""

import json
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from raretokens.errors import UserError

Pair = tuple[str | None, str | None]


class Filter(Protocol):
    """Which pairs of a split are left out, told the words (white space) of both sides, pair by pair in their order."""

    def reasons(self) -> list[str]:
        """Every reason that there may be."""

    def __call__(self, source: int, target: int) -> str | None:
        """Why this pair is left out; None where it stays."""


@dataclass(frozen=True)
class LongestAndRatio:
    """As Moses' clean-corpus-n: words of a side, and longer over shorter."""

    longest: int
    ratio: float

    def reasons(self) -> list[str]:
        return [f"longer than {self.longest} words", f"length ratio above {self.ratio:g}"]

    def __call__(self, source: int, target: int) -> str | None:
        longer, ratio = self.reasons()
        if max(source, target) > self.longest:
            return longer
        return ratio if max(source, target) > self.ratio * min(source, target) else None


def lines(file: Path) -> Iterator[str]:
    """Stripped lines of a UTF-8 file. Lines end at \\n only, a carriage return inside a line is a blank."""
    if not file.exists():
        raise UserError(f"{file}: missing; fetch it first (key `sources` of params.yaml, stage fetch)")
    return _lines(file)


def _lines(file: Path) -> Iterator[str]:
    with file.open(encoding="utf-8", newline="\n") as stream:
        try:
            for line in stream:
                yield line.replace("\r", " ").strip()
        except UnicodeDecodeError as error:
            raise UserError(f"{file}: not UTF-8 ({error.reason})") from None


def pairs(source: Path, target: Path) -> Iterator[tuple[str, str]]:
    """Line by line; UserError if one file has more lines than the other."""
    return together(source, lines(source), target, lines(target))


def together(source: Path, left: Iterator[str], target: Path, right: Iterator[str]) -> Iterator[tuple[str, str]]:
    """Lines that two files gave, in pairs; UserError if there are more of one."""
    count = 0
    for count, one in enumerate(left, 1):
        other = next(right, None)
        if other is None:
            total = count + sum(1 for _ in left)
            raise UserError(f"{source} has {total} lines and {target} has {count - 1}; they must be equal")
        yield one, other
    rest = sum(1 for _ in right)
    if rest:
        raise UserError(f"{source} has {count} lines and {target} has {count + rest}; they must be equal")


def write_text(out: Path, split: str, text: Iterable[str]) -> dict:
    """<split>.txt, every line; returns its row of counts.json."""
    count = tokens = 0
    with (out / f"{split}.txt").open("w", encoding="utf-8", newline="\n") as stream:
        for line in text:
            stream.write(line + "\n")
            count += 1
            tokens += len(line.split())
    if not tokens:
        raise UserError(f"{split}: no text in it")
    return {"lines": count, "tokens": {"text": tokens}, "dropped": {}}


def write_pairs(out: Path, split: str, bitext: Iterable[Pair], drop: Filter | None) -> dict:
    """<split>.source and <split>.target; pairs without a partner or text are dropped, and those that `drop` refuses."""
    dropped = Counter({"no partner": 0, "empty": 0} | dict.fromkeys(drop.reasons() if drop else (), 0))
    count, sources, targets = 0, 0, 0
    names = [out / f"{split}.{side}" for side in ("source", "target")]
    with (
        names[0].open("w", encoding="utf-8", newline="\n") as left,
        names[1].open("w", encoding="utf-8", newline="\n") as right,
    ):
        for source, target in bitext:
            reason, lengths = _judge(source, target, drop)
            if reason:
                dropped[reason] += 1
                continue
            left.write(source + "\n")
            right.write(target + "\n")
            count += 1
            sources, targets = sources + lengths[0], targets + lengths[1]
    if not count:
        raise UserError(f"{split}: no pair left; dropped {dict(dropped)}")
    return {"lines": count, "tokens": {"source": sources, "target": targets}, "dropped": dict(dropped)}


def _judge(source: str | None, target: str | None, drop: Filter | None) -> tuple[str | None, tuple[int, int]]:
    if source is None or target is None:
        return "no partner", (0, 0)
    lengths = len(source.split()), len(target.split())
    if not all(lengths):
        return "empty", lengths
    return (drop(*lengths) if drop else None), lengths


class Folder:
    """A new folder that appears under its name, complete with counts.json, or not at all."""

    def __init__(self, out: Path):
        self.out, self.path = out, out.with_name(out.name + ".part")

    def __enter__(self) -> Path:
        shutil.rmtree(self.path, ignore_errors=True)
        self.path.mkdir(parents=True)
        return self.path

    def __exit__(self, kind: type | None, *_: object) -> None:
        if kind is None:
            shutil.rmtree(self.out, ignore_errors=True)
            self.path.rename(self.out)
        else:
            shutil.rmtree(self.path)


def write_counts(
    out: Path, corpus: str, languages: dict[str, str], splits: dict[str, dict], bleu: dict[str, str] | None = None
) -> None:
    counts = {"corpus": corpus, "languages": languages, **({"bleu": bleu} if bleu else {}), "splits": splits}
    (out / "counts.json").write_text(json.dumps(counts, indent=1) + "\n", encoding="utf-8")
