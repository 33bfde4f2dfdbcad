"""Read the files of a corpus, filter its pairs, and write its splits with counts of dropped pairs by reason."""

import json
import shutil
import tarfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from raretokens.errors import UserError

Pair = tuple[str | None, str | None]  # source and target; None where a side is missing
Document = tuple[str, str]  # class and text


class Filter(Protocol):
    """Filter of the pairs of a split, called for each pair in order."""

    def reasons(self) -> list[str]:
        """Return all possible reasons for dropping a pair."""

    def __call__(self, source: str, target: str) -> str | None:
        """Return the reason for dropping a pair, or None to keep it."""


def count_words(text: str) -> int:
    """Count the words that white space separates."""
    return len(text.split())


@dataclass(frozen=True)
class LongestAndRatio:
    """Filter by maximum words of a side and maximum length ratio (longer / shorter), like Moses' clean-corpus-n.

    words: Return the number of words of a side.
    """

    longest: int
    ratio: float
    words: Callable[[str], int] = count_words

    def reasons(self) -> list[str]:
        return [f"longer than {self.longest} words", f"length ratio above {self.ratio:g}"]

    def __call__(self, source: str, target: str) -> str | None:
        longer, ratio = self.reasons()
        shortest, longest = sorted(map(self.words, (source, target)))
        if longest > self.longest:
            return longer
        return ratio if longest > self.ratio * shortest else None


def require_file(file: Path) -> Path:
    """Return the file. Raises UserError where it is missing."""
    if not file.exists():
        raise UserError(f"{file}: missing; fetch it first (key `sources` of params.yaml, stage fetch)")
    return file


def lines(file: Path) -> Iterator[str]:
    """Yield the stripped lines of a UTF-8 file, split only at \\n. A carriage return inside a line becomes a blank."""
    return _lines(require_file(file))


def _lines(file: Path) -> Iterator[str]:
    with file.open(encoding="utf-8", newline="\n") as stream:
        try:
            for line in stream:
                yield line.replace("\r", " ").strip()
        except UnicodeDecodeError as error:
            raise UserError(f"{file}: not UTF-8 ({error.reason})") from None


def pairs(source: Path, target: Path) -> Iterator[tuple[str, str]]:
    """Yield pairs of lines of two files. Raises UserError if one file has more lines than the other."""
    return pair_lines(source, lines(source), target, lines(target))


def pair_lines(source: Path, left: Iterator[str], target: Path, right: Iterator[str]) -> Iterator[tuple[str, str]]:
    """Yield pairs of lines already read from two files. Raises UserError if one file has more lines than the other."""
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


def hold_out(train: Iterable[Document], test: Iterable[Document], every: int) -> dict[str, list[Document]]:
    """Return split -> documents, with the first of every `every` training documents for validation."""
    documents: dict[str, list[Document]] = {"train": [], "valid": []}
    for number, document in enumerate(train):
        documents["train" if number % every else "valid"].append(document)
    return documents | {"test": list(test)}


def read_files(sample: Path, archive: Path, folders: tuple[str, ...], encoding: str) -> Iterator[tuple[str, str]]:
    """Yield path and text of each document, without unpacking to disk.

    Args:
        sample: JSON Lines with `id` (path) and `text` of each document, which is read instead of the archive if it exists.
        archive: Tar archive.
        folders: Folders of the archive that contain the documents, in `encoding`.
    Raises:
        UserError: A line is not JSON, or the archive is not readable.
    """
    if sample.exists():
        for number, line in enumerate(lines(sample), 1):
            try:
                row = json.loads(line)
            except ValueError:
                raise UserError(f"{sample}: line {number} is not JSON") from None
            yield row["id"], row["text"]
        return
    try:
        with tarfile.open(archive, "r:*") as opened:
            for member in opened:
                name = member.name.removeprefix("./")
                if member.isreg() and name.startswith(folders):
                    yield name, opened.extractfile(member).read().decode(encoding)
    except (tarfile.TarError, OSError, EOFError, UnicodeDecodeError) as error:
        raise UserError(f"{archive}: not a readable archive ({type(error).__name__})") from None


def write_text(out: Path, split: str, text: Iterable[str]) -> dict:
    """Write all lines to <split>.txt, and return the entry of the split in counts.json."""
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
    """Write <split>.source and <split>.target, and return the entry of the split in counts.json.

    Pairs with a missing or empty side are dropped, and pairs for which `drop` returns a reason.
    """
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
    lengths = count_words(source), count_words(target)
    if not all(lengths):
        return "empty", lengths
    return (drop(source, target) if drop else None), lengths


def write_documents(out: Path, split: str, documents: Iterable[Document]) -> dict:
    """Write <split>.txt (one document per line, words separated by single blanks) and <split>.labels (one class per line).

    Documents without words are dropped.
    """
    count = tokens = empty = 0
    with (
        (out / f"{split}.txt").open("w", encoding="utf-8", newline="\n") as texts,
        (out / f"{split}.labels").open("w", encoding="utf-8", newline="\n") as labels,
    ):
        for label, text in documents:
            words = text.split()
            if not words:
                empty += 1
                continue
            texts.write(" ".join(words) + "\n")
            labels.write(label + "\n")
            count, tokens = count + 1, tokens + len(words)
    if not count:
        raise UserError(f"{split}: no document in it")
    return {"lines": count, "tokens": {"text": tokens}, "dropped": {"empty": empty}}


def write_images(out: Path, split: str, images: tuple[np.ndarray, Sequence[str]]) -> dict:
    """Write <split>.images (one byte per pixel, 0 to 255, image by image in row order) and <split>.txt (one class per line).

    images: Pixels (images x pixels) and classes. The classes are written as text, because a classifier embeds each class.
    """
    pixels, classes = images
    if not len(pixels) or len(pixels) != len(classes):
        raise UserError(f"{split}: {len(pixels)} images and {len(classes)} classes; they must be equal, and some")
    (out / f"{split}.images").write_bytes(pixels.astype(np.uint8).tobytes())
    (out / f"{split}.txt").write_text("".join(f"{name}\n" for name in classes), encoding="utf-8", newline="\n")
    return {"lines": len(classes), "tokens": {"text": len(classes)}, "dropped": {}}


def write_similarity(out: Path, name: str, rows: list[tuple[str, str, float]]) -> dict:
    """Write <name>.tsv, with two words and the human score per line."""
    table = "".join(f"{one}\t{other}\t{score:g}\n" for one, other, score in rows)
    (out / f"{name}.tsv").write_text(table, encoding="utf-8", newline="\n")
    return {"lines": len(rows), "tokens": {"text": 2 * len(rows)}, "dropped": {}}


@contextmanager
def new_folder(out: Path) -> Iterator[Path]:
    """Context of a new folder that appears under its name only when it is complete."""
    part = out.with_name(out.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    try:
        yield part
    except BaseException:
        shutil.rmtree(part)
        raise
    shutil.rmtree(out, ignore_errors=True)
    part.rename(out)


def write_counts(
    out: Path, corpus: str, languages: dict[str, str], splits: dict[str, dict], bleu: dict[str, str] | None = None
) -> None:
    """Write counts.json: the name and languages of a corpus, its options of BLEU, and the entries of its splits."""
    counts = {"corpus": corpus, "languages": languages, **({"bleu": bleu} if bleu else {}), "splits": splits}
    (out / "counts.json").write_text(json.dumps(counts, indent=1) + "\n", encoding="utf-8")
