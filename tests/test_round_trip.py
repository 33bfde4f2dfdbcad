"""With full character coverage a training text without a literal <unk> has none after encoding, and decoding gives it back."""

import random
import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from test_vocabularies import gpt2_files
from tiny.world import lines

from raretokens.vocabulary import EOS, UNK
from reproduction.corpora.tokenization import token_files
from reproduction.corpora.tokenization.encode import encode
from reproduction.corpora.tokenization.round_trip import PART, Escapes, parts
from reproduction.corpora.tokenization.settings import EncodeJob as Job
from reproduction.corpora.tokenization.settings import Subword, Vocabulary
from reproduction.corpora.tokenization.subword_models import SentencePiece
from reproduction.corpora.tokenization.tokenizer import Tokenizer

# What a model, the vocabulary or a file of text could take for its own.
MARKS = "\u2581 snake\u2581case \u2585 \x1f \0 \r \x1c \x85 \u2028 \ufeff e\u0301 \u1112\u1161 \ufdd0 \ufdd3\ufdd4 \ufdd5 \u0120"
NAMES = "</w> a</w>b @@ a@@ @-@ </s> <s> <pad> <filler0> \\</s> &#9;"
ODD = (*MARKS.split(" "), *NAMES.split(" "), "@@ @@")
MODELS = ("sentencepiece", "bpe", "gpt2")
# General categories of Unicode but surrogates, which are no text.
CATEGORIES = [
    "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po",
    "Sm", "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Co", "Cn",
]  # fmt: skip


def encoded(folder: Path, model: str, text: list[str]) -> tuple[list[str], int]:
    """Return the text of the token file, decoded, and the number of its <unk>."""
    body = [*text, *lines(40, 1)[0]]
    (folder / "train.txt").write_text("".join(f"{line}\n" for line in body), encoding="utf-8", newline="\n")
    vocabulary: Vocabulary
    if model == "sentencepiece":
        characters = {*SentencePiece.ESCAPES.escape("".join(body)), "\u2581"} - {" "}
        vocabulary = max(16, len(characters) + 9)  # <unk> and eight merges
    else:
        vocabulary = Subword(model=model, merges=8 if model == "bpe" else None)
        gpt2_files(folder / "gpt2-bpe")
    encode(Job(name="t", sides=(".txt",), vocabulary=vocabulary), folder, folder / "tokens")
    tokenizer, rows = Tokenizer(folder / "tokens"), [[]]
    for number in token_files.tokens(folder / "tokens", "train").tolist():
        rows[-1].append(number)
        if number == EOS:
            rows.append([])
    assert len(rows) - 1 == len(body)
    return [tokenizer.decode(row) for row in rows[: len(text)]], sum(row.count(UNK) for row in rows)


@st.composite
def texts(draw: st.DrawFn) -> list[str]:
    """Lines of characters of every category of Unicode, odd strings, and blanks."""
    members = [st.characters(categories=[category]) for category in CATEGORIES]
    part = st.one_of(*members, *members, st.sampled_from(ODD), st.just(" "))
    line = st.lists(part, max_size=20).map(lambda parts: "".join(parts).replace("\n", " "))
    return draw(st.lists(line, min_size=1, max_size=20))


@pytest.mark.parametrize("model", MODELS)
@settings(max_examples=20, deadline=None)
@example(text=[*ODD, *(f"x{odd}y" for odd in ODD), " ".join(ODD), " two  blanks  ", "", "\u00a0"])
@given(text=texts())
def test_every_text_comes_back(model, text):
    text = [line for line in text if "<unk>" not in line]
    if model == "bpe":  # of words: there is no token of a blank
        text = [" ".join(filter(None, line.split(" "))) for line in text]
    with tempfile.TemporaryDirectory() as folder:
        assert encoded(Path(folder), model, text) == (text, 0)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("length", [PART, (1 << 16) + 5, (1 << 20) + 7])
@pytest.mark.parametrize("blanks", [True, False])
def test_lines_of_every_length_come_back(tmp_path, capsys, model, length, blanks):
    """Their characters are in no other line."""
    if model == "bpe" and not blanks and length > 1 << 20:
        pytest.skip("the time that merges take grows with the square of the longest word")
    drawn = random.Random(length)
    alphabet = "abcdefghß漢𝔘" + " " * 3 * blanks
    line = "".join(drawn.choices(alphabet, k=length)).strip()
    text = [" ".join(line.split()) if model == "bpe" else line]
    assert encoded(tmp_path, model, text) == (text, 0)
    assert capsys.readouterr().err == ""


@settings(deadline=None)
@given(line=st.text("ab  ", max_size=40), longest=st.integers(1, 9))
def test_parts_have_the_words_of_their_line(monkeypatch_part, line, longest):
    monkeypatch_part(longest)
    found = [*parts(line)]
    assert all(len(part) <= longest for part in found)
    assert "".join(found).replace(" ", "") == line.replace(" ", "")
    # The blank before a word counts towards the length of a part, and a part ends before a blank.
    if all(len(word) + 1 < longest for word in line.split(" ")):
        assert " ".join(found) == line


@pytest.fixture(scope="module")
def monkeypatch_part():
    with pytest.MonkeyPatch.context() as patch:
        yield lambda longest: patch.setattr("reproduction.corpora.tokenization.round_trip.PART", longest)


@given(st.text("ab\u2581\ufdd0\ufdd1\ufdd2\ufdd3<>/w", max_size=12))
def test_escapes_are_undone_and_leave_nothing_reserved(text):
    escapes = Escapes("\u2581", "</w>")
    escaped = escapes.escape(text)
    assert escapes.restore(escaped) == text and "\u2581" not in escaped and "</w>" not in escaped


def test_what_does_not_come_back_is_one_line_with_file_line_and_count(tmp_path, capsys, monkeypatch):
    """Words of Sennrich et al. (2016) have single blanks between them."""
    text = ["one blank", "two  blanks", "a <unk>  b", " in front"]
    back, unknown = encoded(tmp_path, "bpe", text)
    assert (back[:2], back[3], unknown) == (["one blank", "two blanks"], "in front", 0)
    lost = "line 2: 2 of 44 lines are not given back by decoding; they have 0 <unk> tokens\n"
    assert capsys.readouterr().err == f"encode: {tmp_path}/train.txt: {lost}"
    learn = SentencePiece.learn.__func__

    def of_fewer(cls: type, files: list[Path], size: int, path: Path) -> SentencePiece:
        """Learns as if it had skipped the last lines, as SentencePiece does with long ones."""
        short = tmp_path / "short"
        short.write_text("".join(f"{line}\n" for line in lines(40, 1)[0]), encoding="utf-8")
        return learn(cls, [short], size - 1, path)

    monkeypatch.setattr(SentencePiece, "learn", classmethod(of_fewer))
    assert encoded(tmp_path, "sentencepiece", ["the river", "漢字 river"])[1] == 1
    lost = "line 2: 1 of 42 lines are not given back by decoding; they have 1 <unk> tokens\n"
    assert capsys.readouterr().err == f"encode: {tmp_path}/train.txt: {lost}"
