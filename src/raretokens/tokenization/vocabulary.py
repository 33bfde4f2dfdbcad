"""The vocabulary: token types sorted by falling training frequency, and the frequency groups that follow from it."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import numpy as np

from raretokens.errors import UserError

VOCABULARY = "vocabulary.tsv"  # of a folder of token files
SPECIALS = ("<s>", "<pad>", "</s>", "<unk>")
BOS, PAD, EOS, UNK = range(4)
FILLERS = "<filler"  # how the names of the rows at the end begin
FREQ, MED, RARE, FILLER = 0, 1, 2, -1
GROUP_NAMES = {"freq": FREQ, "med": MED, "rare": RARE}
SPACE = "\u2581"  # SentencePiece's mark of a token that begins a word


class GroupBounds(Protocol):
    """What params.yaml says of frequency groups: one of the two."""

    fractions: list[float] | None  # shares of the types: frequent, medium, rare
    boundaries: list[int] | None  # first medium id, first rare id


@dataclass(frozen=True)
class Vocabulary:
    """Subword tokens or words with their training counts; the id of a token is its position.

    counts covers all of the training text (in translation, source and target together); target_counts only what is a
    training target (in language modelling the two are equal).
    """

    tokens: tuple[str, ...]
    counts: np.ndarray  # N, int64
    target_counts: np.ndarray  # N, int64
    fillers: int  # ids at the end that no text uses

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def types(self) -> int:
        """Number of ids that text can use: all but the fillers."""
        return len(self.tokens) - self.fillers

    def reversed(self) -> "Vocabulary":
        """The same types for translation from target to source."""
        return replace(self, target_counts=self.counts - self.target_counts)

    def frequency_groups(self, declared: GroupBounds) -> np.ndarray:
        """Frequency group of each id (N, int8): FREQ, MED, RARE, or FILLER; specials are frequent (AGG section 3.1)."""
        first_medium, first_rare = self.group_boundaries(declared)
        groups = np.full(len(self), RARE, dtype=np.int8)
        groups[:first_rare] = MED
        groups[:first_medium] = FREQ
        groups[self.types :] = FILLER
        return groups

    def group_boundaries(self, declared: GroupBounds) -> tuple[int, int]:
        """First id of the medium and of the rare group."""
        if declared.boundaries:
            first_medium, first_rare = declared.boundaries
            if not len(SPECIALS) <= first_medium < first_rare < self.types:
                raise UserError(
                    f"groups.boundaries: {first_medium}, {first_rare}; they must rise and lie between "
                    f"{len(SPECIALS)} and the {self.types} types of the vocabulary"
                )
            return first_medium, first_rare
        frequent, medium, _ = declared.fractions
        return round(self.types * frequent), round(self.types * (frequent + medium))

    def write(self, path: Path) -> None:
        rows = zip(self.tokens, self.counts, self.target_counts, strict=True)
        with open(path, "w", encoding="utf-8", newline="\n") as file:
            file.write("piece\tcount\ttarget_count\n")
            file.writelines(f"{token}\t{count}\t{target}\n" for token, count, target in rows)

    @classmethod
    def read(cls, path: Path) -> "Vocabulary":
        # A token may hold a tab or a carriage return, but no line feed.
        with open(path, encoding="utf-8", newline="\n") as file:
            rows = [line.rstrip("\n").rsplit("\t", 2) for line in file][1:]
        tokens = tuple(row[0] for row in rows)
        return cls(
            tokens,
            np.array([int(row[1]) for row in rows]),
            np.array([int(row[2]) for row in rows]),
            sum(token.startswith(FILLERS) for token in tokens),
        )
