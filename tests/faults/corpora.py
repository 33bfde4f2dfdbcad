"""Odd custom texts: is each read as docs/own-corpus.md says, or refused in one line that names its file?

Files of a small text, or of pairs, are changed at random: bytes that are not UTF-8, byte-order marks, control characters and
odd blanks, other line ends, empty and endless lines and words, text that looks like a special row, a side with one more line.
They are taken, prepared and split as the stages do it, into subword tokens or words, and read back from the token files.
"""

import random
import re
import shutil
import tempfile
import traceback
from pathlib import Path

from tally import CORRECT, LOST, SILENT, TRACEBACK, Tally

from raretokens.errors import UserError
from raretokens.vocabulary import EOS, SPACE, VOCABULARY, Vocabulary
from reproduction.corpora import own
from reproduction.corpora.registry import prepare
from reproduction.corpora.tokenization.encode import encode
from reproduction.corpora.tokenization.settings import EncodeJob as Job
from reproduction.corpora.tokenization.settings import Subword, WordVocabulary
from reproduction.corpora.tokenization.token_files import tokens
from reproduction.corpora.tokenization.tokenizer import Tokenizer

WORDS = [f"{start}{end}" for start in "bdfgklmnprst" for end in ("a", "el", "ion", "um", "eth", "ora")]
ODD = [
    *(char.encode() for char in "\ufeff\x00\x01\x1c\x85\u2028\u00a0\u3000\u200b\u200d\t\v\f\\|\"'`#&%$_^~"),
    *(text.encode() for text in ("</s>", "<s>", "<pad>", "<unk>", "<filler0>", "\\</s>", SPACE, "@@", "@@ @@", "@-@")),
    *(
        text.encode()
        for text in (
            "snake\u2581case",
            "\u2585",
            "\x1f",
            "a</w>b",
            "\ufdd0",
            "\ufdd5",
            "  ",
            "<script>",
            "=1+1",
            "{{x}}",
            "שלום",
            "e\u0301",
            "👩‍👩‍👧",
            "漢字",
            "𝔘",
            "ﬁ",
            "x" * 5000,
        )
    ),
    b"\r",
    b"\r\n",
    b"\n",
    b"\n\n\n",
    b"   ",
    b"\xff",
    b"\xc3",
    b"\xed\xa0\x80",
]
VOCABULARIES = {
    "pieces": 170,
    "merges": Subword(model="bpe", merges=60),
    "words": WordVocabulary(model="words", size=None, tokenise=False),
}


def text(count: int = 60) -> bytes:
    return "".join(f"{' '.join(random.choices(WORDS, k=random.randint(3, 12)))}\n" for _ in range(count)).encode()


def bent(data: bytes) -> bytes:
    for _ in range(random.randint(1, 4)):
        at = random.choice((0, len(data), random.randrange(len(data) + 1)))
        data = data[:at] + random.choice(ODD) + data[at:]
    whole = random.random()
    if whole < 0.03:
        return random.choice((b"", b"\n", b" \n\t\n", b"\xef\xbb\xbf"))
    if whole < 0.06:
        return data.replace(b"\n", b" ") + b"\n"  # all of it in one line
    if whole < 0.08:
        return data + "a line of more than a megabyte, \u0436 ".encode() * 40_000 + b"\n"
    if whole < 0.14:
        return data.replace(b"\n", b"\r\n")
    return data.removesuffix(b"\n") if whole < 0.24 else data


def read(data: bytes) -> list[str] | None:
    """The lines that a file has, by docs/own-corpus.md; None where it must be refused."""
    try:
        decoded = data.removeprefix(b"\xef\xbb\xbf").decode("utf-8")
    except UnicodeDecodeError:
        return None
    if "\0" in decoded:
        return None
    lines = [line.replace("\r", " ").strip() for line in decoded.removesuffix("\n").split("\n")]
    return lines if any(re.sub("[\ufeff \t\r]", "", line) for line in lines) else None


def kept(source: list[str], target: list[str], training: bool) -> list[tuple[str, str]]:
    pairs = [pair for pair in zip(source, target, strict=True) if all(side.split() for side in pair)]
    lengths = [sorted(len(side.split()) for side in pair) for pair in pairs]
    return [
        pair for pair, (less, more) in zip(pairs, lengths, strict=True) if not training or more <= min(250, 9 * less)
    ]


def one(folder: Path, files: dict[str, bytes], kind: str, vocabulary: str) -> Path:
    """Through the stages; the folder of token files."""
    for name, data in files.items():
        (folder / name).write_bytes(data)
        (folder / "raw/own").mkdir(parents=True, exist_ok=True)
        own.take(name, folder / name, folder / "raw/own" / name)
    prepare(kind, "own", folder / "raw", folder / "corpus")
    sides = (".txt",) if kind == "text" else (".source", ".target")
    encode(Job(name="t", sides=sides, vocabulary=VOCABULARIES[vocabulary]), folder / "corpus", folder / "tokens")
    return folder / "tokens"


def decoded(folder: Path, split: str, vocabulary: str) -> list[str]:
    """The lines of a token file."""
    rows: list[list[int]] = [[]]
    for number in tokens(folder, split).tolist():
        rows[-1].append(number)
        if number == EOS:
            rows.append([])
    lines = [row[:-1] for row in rows[:-1]]
    if vocabulary == "words":
        pieces = Vocabulary.read(folder / VOCABULARY).tokens
        return [" ".join(pieces[number] for number in line) for line in lines]
    encoder = Tokenizer(folder)
    return [encoder.decode(line) for line in lines]


def same(found: list[str], expected: list[str], vocabulary: str) -> bool:
    """Blank by blank, as far as docs/own-corpus.md promises.

    Words and the words that merges are learnt on have single blanks between them, and a word that looks like a special row has
    a backslash before it. In a line with a literal <unk>, < and > may be unknown.
    """

    def kept_text(line: str) -> str:
        words = line.split(" ") if vocabulary == "merges" else line.split()
        return line if vocabulary == "pieces" else " ".join(filter(None, words))

    def compared(line: str, whole: str) -> str:
        if vocabulary == "words":
            line = re.sub(r"\\+(?=</?s>|<pad>|<unk>|<filler)", "", line)
        return re.sub("[<>]", "", line) if "<unk>" in whole else line

    return len(found) == len(expected) and all(
        compared(back, line) == compared(kept_text(line), line) for back, line in zip(found, expected, strict=True)
    )


def trial(folder: Path, kind: str, vocabulary: str) -> tuple[str, str]:
    names = own.LM if kind == "text" else own.NMT
    files = {name: text() for name in names}
    for name in random.sample(names, k=random.randint(1, len(names))):
        files[name] = bent(files[name])
    lines = {name: read(data) for name, data in files.items()}
    right = {}
    for split in own.SPLITS:
        parts = [lines[name] for name in names if f"-{split}" in name]
        if any(part is None for part in parts) or len({len(part) for part in parts}) > 1:
            right = None
            break
        right[split] = (
            parts[0] if kind == "text" else [side for pair in kept(*parts, split == "train") for side in pair]
        )
    try:
        folder = one(folder, files, kind, vocabulary)
    except UserError as error:
        named = "\n" not in str(error) and any(word in str(error) for word in (*names, *own.SPLITS, "vocabulary"))
        return (CORRECT if right is None and named else LOST), f"refused: {str(error)[:300]}"
    if right is None:
        return SILENT, "accepted"
    for split, expected in right.items():
        found = decoded(folder, split, vocabulary)
        whole = split == "train"  # of other splits, what the vocabulary has no piece for is <unk>
        if len(found) != len(expected) or whole and not same(found, expected, vocabulary):
            wrong = [pair for pair in zip(found, expected, strict=False) if not same([pair[0]], [pair[1]], vocabulary)]
            return SILENT, f"{split}: {len(found)} lines for {len(expected)}; {wrong[:1]!r:.300}"
    return CORRECT, ""


def corpora(tally: Tally, rounds: int) -> None:
    for number in range(rounds):
        kind, vocabulary = ("text", "bitext")[number % 2], tuple(VOCABULARIES)[number % 3]
        folder = Path(tempfile.mkdtemp())
        try:
            tally.add(*trial(folder, kind, vocabulary))
        except Exception:
            tally.add(TRACEBACK, f"{kind}, {vocabulary}: {traceback.format_exc(limit=-3)[:1500]}")
        finally:
            shutil.rmtree(folder)
