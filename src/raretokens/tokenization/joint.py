"""Byte-pair encoding of words (Sennrich et al. 2016), learnt on both languages together: a number of merges.

As in the authors' subword-nmt, a word is its characters, the last one marked as the end, and a merge is learnt only
where it occurs twice; among equally frequent pairs another one may win here. tokenizers learns and applies the merges.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path

from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from raretokens.errors import UserError
from raretokens.tokenization.packing import blocks, counted

END, CONTINUED, UNKNOWN = "</w>", "@@", "<unk>"
TYPES = 1_000_000  # different words that merges are learnt from: most others are in the text once


class Joint:
    """Learnt merges; words are what stands between blanks."""

    FILE = "merges.json"
    by_words = True

    def __init__(self, path: Path) -> None:
        self.model = Tokenizer.from_file(str(path))
        self.size, self.unknown = self.model.get_vocab_size(), self.model.token_to_id(UNKNOWN)

    @classmethod
    def learn(cls, files: Sequence[Path], merges: int, path: Path) -> "Joint":
        """Learn that many merges of all files together and write them to the path; the files are read twice.

        Of more than TYPES different words the rarest take no part (they still are cut by the merges, and their characters
        are known), so that memory does not grow with the text. Raises UserError for more merges than the text gives.
        """
        counts = counted(files, _words)
        alphabet = _alphabet(counts)
        kept = {word for word, _ in counts.most_common(TYPES)} if len(counts) > TYPES else None
        del counts
        # Characters get their numbers here, in order: the trainer would number ends of words as they come out of a hash
        # table, and break ties by these numbers, differently each time.
        trainer = trainers.BpeTrainer(
            vocab_size=len(alphabet) + merges,
            min_frequency=2,
            special_tokens=alphabet,
            end_of_word_suffix=END,
            show_progress=False,
        )
        learner = _tokenizer(models.BPE(end_of_word_suffix=END))
        learner.train_from_iterator(_learnt_from(files, kept), trainer)
        learnt = [tuple(pair) for pair in json.loads(learner.to_str())["model"]["merges"]][:merges]
        if len(learnt) < merges:
            raise UserError(f"vocabulary.merges: {merges} cannot be learnt from this text, only {len(learnt)}")
        # Two merges may give the same piece.
        pieces = dict.fromkeys((UNKNOWN, *alphabet, *(left + right for left, right in learnt)))
        numbers = {piece: number for number, piece in enumerate(pieces)}
        model = models.BPE(vocab=numbers, merges=learnt, unk_token=UNKNOWN, end_of_word_suffix=END)
        _tokenizer(model).save(str(path))
        return cls(path)

    def encode(self, lines: list[str]) -> list[list[int]]:
        return [cut.ids for cut in self.model.encode_batch_fast(lines)]

    def encode_bare(self, word: str) -> list[int]:
        """The end of a word is marked, not its beginning: there is no other form."""
        return self.model.encode(word).ids

    def decode(self, numbers: Sequence[int]) -> str:
        return "".join(map(self.model.id_to_token, numbers)).replace(END, " ").rstrip(" ")

    def piece(self, number: int) -> str:
        """As subword-nmt prints them: @@ where a word goes on. A piece that itself ends in @@ keeps its other mark."""
        text = self.model.id_to_token(number)
        if number == self.unknown:
            return text
        whole = text.removesuffix(END)
        return text + CONTINUED if whole == text else text if whole.endswith(CONTINUED) else whole


def _tokenizer(model: models.BPE) -> Tokenizer:
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", behavior="removed")
    return tokenizer


def _words(line: str) -> Iterable[str]:
    return filter(None, line.split(" "))


def _blocks(files: Sequence[Path]) -> Iterator[list[str]]:
    return chain.from_iterable(map(blocks, files))


def _learnt_from(files: Sequence[Path], kept: set[str] | None) -> Iterator[list[str]]:
    """All lines, or what they have of the words to keep."""
    for block in _blocks(files):
        yield block if kept is None else [" ".join(filter(kept.__contains__, line.split(" "))) for line in block]


def _alphabet(words: Iterable[str]) -> list[str]:
    """All characters, and again those that end words, each in the order of their code points."""
    every, last = set[str](), set[str]()
    for word in words:
        every.update(word)
        last.add(word[-1])
    return [*sorted(every), *sorted(end + END for end in last)]
