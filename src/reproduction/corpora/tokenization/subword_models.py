"""Split text into subword tokens with SentencePiece, GPT-2's BPE or BPE of words.

Each model has its own ids, which `encode.py` renumbers by training frequency.
"""

import json
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Protocol

import regex
import sentencepiece
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from raretokens.errors import UserError
from raretokens.files import read_blocks
from raretokens.vocabulary import SPACE
from reproduction.corpora.tokenization.round_trip import Escapes, parts
from reproduction.corpora.tokenization.words import UNKNOWN, count_words, read_lines

GPT2_SOURCE, GPT2_FILES = "gpt2-bpe", ("encoder.json", "vocab.bpe")
GPT2_SPACE = "\u0120"  # character for the byte of a blank in the published files
END, CONTINUED = "</w>", "@@"  # end of a word, and continuation mark of subword-nmt, in BPE of words
WORD_TYPES = 1_000_000  # maximum distinct words from which merges are learnt; most other words occur only once
# Characters with a special meaning in SentencePiece: NUL ends a text, a carriage return ends a line, U+001F separates tokens,
# U+2581 is a blank, and U+2585 is unknown. SentencePiece does not learn from lines with U+2585.
RESERVED = ("\0", "\r", "\x1f", SPACE, "\u2585")
TOO_MANY = regex.compile(r"set it to a value <= (\d+)")
TOO_FEW = regex.compile(r"smaller than required_chars\. \d+ vs (\d+)")


class SubwordModel(Protocol):
    """A model that splits text into tokens."""

    size: int  # ids are 0 to size - 1
    unknown: int | None  # id for text without a token, if the model has such an id

    def encode(self, lines: list[str]) -> list[list[int]]: ...

    def token(self, number: int) -> str: ...


class SentencePiece:
    """BPE learnt by SentencePiece on raw text. A space mark begins each word, and decoding restores the text.

    Characters that SentencePiece reserves are replaced in its tokens (round_trip.Escapes).
    """

    FILE = "spm.model"
    ESCAPES = Escapes(*RESERVED)

    def __init__(self, path: Path) -> None:
        self.model = sentencepiece.SentencePieceProcessor(model_file=str(path))
        self.size, self.unknown = self.model.get_piece_size(), self.model.unk_id()

    @classmethod
    def learn(cls, files: Sequence[Path], size: int, path: Path) -> "SentencePiece":
        """Learn `size` subword tokens on all files together and write the model to the path.

        The text is not normalised, so decoding restores it. Sentences are passed by an iterator and the model by a writer,
        because the model would otherwise contain file paths and differ between machines. SentencePiece keeps the whole text
        in memory. It skips lines longer than `max_sentence_length` bytes, so long lines are passed in parts.

        Raises:
            UserError: The text gives fewer than `size` subword tokens.
        """
        with open(path, "wb") as file:
            try:
                sentencepiece.SentencePieceTrainer.train(
                    sentence_iterator=chain.from_iterable(map(parts, map(cls.ESCAPES.escape, read_lines(files)))),
                    model_writer=file,
                    model_type="bpe",
                    vocab_size=size,
                    character_coverage=1.0,
                    normalization_rule_name="identity",
                    remove_extra_whitespaces=False,
                    max_sentence_length=1 << 20,
                    num_threads=1,
                    bos_id=-1,
                    eos_id=-1,
                    pad_id=-1,
                    unk_id=0,
                    minloglevel=1,
                )
            except RuntimeError as error:
                raise _learning_error(size, str(error)) from None
        return cls(path)

    def encode(self, lines: list[str]) -> list[list[int]]:
        if len(lines) == 1:  # a list starts threads, which takes longer than to cut a word
            return [self.model.encode(self.ESCAPES.escape(lines[0]))]
        return self.model.encode(list(map(self.ESCAPES.escape, lines)))

    def encode_without_space(self, word: str) -> list[int]:
        return self._without_space.encode(self.ESCAPES.escape(word))

    @cached_property
    def _without_space(self) -> sentencepiece.SentencePieceProcessor:
        # Concatenated protobuf messages are merged, and the last value wins. The bytes encode normalizer_spec (3)
        # {add_dummy_prefix (3): false}.
        model = self.model.serialized_model_proto() + b"\x1a\x02\x18\x00"
        return sentencepiece.SentencePieceProcessor(model_proto=model)

    def decode(self, lines: list[list[int]]) -> list[str]:
        return list(map(self.ESCAPES.restore, self.model.decode(lines)))

    def token(self, number: int) -> str:
        return self.model.id_to_piece(number)


def _learning_error(size: int, message: str) -> UserError:
    """Return an error with the number of subword tokens that the text gives or needs, extracted from SentencePiece's message.

    The error contains the message itself if it has neither number.
    """
    reason = message
    if most := TOO_MANY.search(message):
        reason = f"it gives at most {most[1]}"
    elif characters := TOO_FEW.search(message):
        reason = f"its characters alone are {characters[1]}"
    return UserError(f"vocabulary: {size} subword tokens cannot be learnt from this text: {reason}")


class GPT2:
    """GPT-2's byte-level BPE (Radford et al. 2019), from the two files that OpenAI published.

    The tokens cover all bytes, so no text is unknown. A blank is added before each line, as by AGG's tokenizer (metrics of
    AGG table 5).
    """

    FILE = "gpt2.json"
    unknown = None

    def __init__(self, path: Path) -> None:
        self.model = Tokenizer.from_file(str(path))
        self.size = self.model.get_vocab_size()

    @classmethod
    def convert(cls, folder: Path, path: Path) -> "GPT2":
        """Convert the published files of a folder to one file at the path. Raises UserError where they are missing."""
        entries, merges = (folder / name for name in GPT2_FILES)
        if not (entries.is_file() and merges.is_file()):
            raise UserError(
                f"{folder}: {' or '.join(GPT2_FILES)} is missing; "
                f"name the source {GPT2_SOURCE} under `sources` of params.yaml"
            )
        ids = json.loads(entries.read_text(encoding="utf-8"))
        header, *rows = merges.read_text(encoding="utf-8").rstrip("\n").split("\n")
        model = Tokenizer(models.BPE(vocab=ids, merges=[tuple(row.split(" ")) for row in rows]))
        model.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
        model.decoder = decoders.ByteLevel()
        model.save(str(path))
        return cls(path)

    def encode(self, lines: list[str]) -> list[list[int]]:
        """Encode lines with an added blank before each. An empty line has no tokens."""
        # The library adds no blank before a line that begins with a blank.
        spaced = [f" {line}" if line.startswith(" ") else line for line in lines]
        return [cut.ids if line else [] for line, cut in zip(lines, self.model.encode_batch_fast(spaced), strict=True)]

    def encode_without_space(self, word: str) -> list[int]:
        return self._without_space.encode(word).ids

    @cached_property
    def _without_space(self) -> Tokenizer:
        model = Tokenizer.from_str(self.model.to_str())
        model.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        return model

    def decode(self, lines: list[list[int]]) -> list[str]:
        return [line.removeprefix(" ") for line in self.model.decode_batch(lines, skip_special_tokens=False)]

    def token(self, number: int) -> str:
        """Return a token in the notation of the published files, but with SentencePiece's space mark for a blank."""
        return self.model.id_to_token(number).replace(GPT2_SPACE, SPACE)


class BPE:
    """Byte-pair encoding of blank-separated words (Sennrich et al. 2016), learnt on both languages together.

    As in the authors' subword-nmt, the last character of a word is marked as its end, and only pairs that occur at least
    twice are merged. Ties between equally frequent pairs may be resolved differently from subword-nmt.
    """

    FILE = "merges.json"
    ESCAPES = Escapes(END)

    def __init__(self, path: Path) -> None:
        self.model = Tokenizer.from_file(str(path))
        self.size, self.unknown = self.model.get_vocab_size(), self.model.token_to_id(UNKNOWN)
        self._text = [self.model.id_to_token(number).replace(END, " ") for number in range(self.size)]

    @classmethod
    def learn(cls, files: Sequence[Path], merges: int, path: Path) -> "BPE":
        """Learn `merges` merges on all files together and write them to the path. The files are read twice.

        Merges are learnt from the WORD_TYPES most frequent words, so that memory does not grow with the text. The characters
        of all words are in the alphabet.

        Raises:
            UserError: The text gives fewer than `merges` merges.
        """
        counts = count_words(files, lambda line: filter(None, cls.ESCAPES.escape(line).split(" ")))
        alphabet = _alphabet(counts)
        kept = {word for word, _ in counts.most_common(WORD_TYPES)} if len(counts) > WORD_TYPES else None
        del counts
        # Assign the ids of characters here, in a fixed order. The trainer breaks ties by these ids, and would number
        # word-final characters in the random order of a hash table.
        trainer = trainers.BpeTrainer(
            vocab_size=len(alphabet) + merges,
            min_frequency=2,
            special_tokens=alphabet,
            end_of_word_suffix=END,
            show_progress=False,
        )
        learner = _word_tokenizer(models.BPE(end_of_word_suffix=END))
        blocks = ([*map(cls.ESCAPES.escape, block)] for block in chain.from_iterable(map(read_blocks, files)))
        learner.train_from_iterator(
            ([" ".join(filter(kept.__contains__, line.split(" "))) for line in block] for block in blocks)
            if kept
            else blocks,
            trainer,
        )
        learnt = [tuple(pair) for pair in json.loads(learner.to_str())["model"]["merges"]][:merges]
        if len(learnt) < merges:
            raise UserError(f"vocabulary.merges: {merges} cannot be learnt from this text, only {len(learnt)}")
        # Two merges may give the same token.
        tokens = dict.fromkeys((UNKNOWN, *alphabet, *(left + right for left, right in learnt)))
        ids = {token: number for number, token in enumerate(tokens)}
        model = models.BPE(vocab=ids, merges=learnt, unk_token=UNKNOWN, end_of_word_suffix=END)
        _word_tokenizer(model).save(str(path))
        return cls(path)

    def encode(self, lines: list[str]) -> list[list[int]]:
        return [cut.ids for cut in self.model.encode_batch_fast(list(map(self.ESCAPES.escape, lines)))]

    def encode_without_space(self, word: str) -> list[int]:
        """Return the ids of a word. They equal those of encode(), because BPE marks the end of a word, not its start."""
        return self.model.encode(self.ESCAPES.escape(word)).ids

    def decode(self, lines: list[list[int]]) -> list[str]:
        """Return the words of each line, separated by single blanks."""
        texts = ("".join(map(self._text.__getitem__, line)).rstrip(" ") for line in lines)
        return list(map(self.ESCAPES.restore, texts))

    def token(self, number: int) -> str:
        """Return a token in subword-nmt's notation, with @@ where the word continues. A token ending in @@ keeps its </w>."""
        text = self.model.id_to_token(number)
        if number == self.unknown:
            return text
        whole = text.removesuffix(END)
        return text + CONTINUED if whole == text else text if whole.endswith(CONTINUED) else whole


def _word_tokenizer(model: models.BPE) -> Tokenizer:
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", behavior="removed")
    return tokenizer


def _alphabet(words: Iterable[str]) -> list[str]:
    """Return all characters, then all word-final characters with END, each in code-point order."""
    every, last = set[str](), set[str]()
    for word in words:
        every.update(word)
        last.add(word[-1])
    return [*sorted(every), *sorted(end + END for end in last)]
