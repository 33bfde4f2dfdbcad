"""Define the vocabulary, whose token types are sorted by falling training frequency, and its frequency groups."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from raretokens.errors import UserError

if TYPE_CHECKING:
    from typing import Protocol

    class Groups(Protocol):
        """Frequent, medium and rare types by shares of all types, or by the first medium and first rare id. The other is None."""

        fractions: list[float] | None
        boundaries: list[int] | None

VOCABULARY = "vocabulary.tsv"  # file name in a folder of token files
SPECIALS = ("<s>", "<pad>", "</s>", "<unk>")
BOS, PAD, EOS, UNK = range(4)
FILLERS = "<filler"  # prefix of the names of the filler rows at the end
FREQ, MED, RARE, FILLER = 0, 1, 2, -1
GROUP_NAMES = {"freq": FREQ, "med": MED, "rare": RARE}
SPACE = "\u2581"  # SentencePiece's space mark, the first character of tokens that start a word


@dataclass(frozen=True)
class Vocabulary:
    """Subword tokens or words with their training counts. The id of a token is its position.

    counts covers the whole training text, in translation source and target together. target_counts covers only the
    training targets. The two are equal in language modelling.
    """

    tokens: tuple[str, ...]
    counts: np.ndarray  # N, int64
    target_counts: np.ndarray  # N, int64
    fillers: int  # number of ids at the end that no text uses

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def types(self) -> int:
        """Number of ids that text can use, i.e. all ids without the fillers."""
        return len(self.tokens) - self.fillers

    def frequency_groups(self, declared: "Groups") -> np.ndarray:
        """Return the frequency group of each id (N, int8): FREQ, MED, RARE or FILLER. Specials are FREQ (AGG section 3.1)."""
        first_medium, first_rare = self.group_boundaries(declared)
        groups = np.full(len(self), RARE, dtype=np.int8)
        groups[:first_rare] = MED
        groups[:first_medium] = FREQ
        groups[self.types :] = FILLER
        return groups

    def group_boundaries(self, declared: "Groups") -> tuple[int, int]:
        """Return the first id of the medium group and the first id of the rare group."""
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
    def read(cls, path: Path, reverse: bool = False) -> "Vocabulary":
        """Read vocabulary.tsv; reverse: for translation from target to source, which has other target counts."""
        # A token may contain a tab or a carriage return, but no line feed.
        with open(path, encoding="utf-8", newline="\n") as file:
            rows = [line.rstrip("\n").rsplit("\t", 2) for line in file][1:]
        tokens = tuple(row[0] for row in rows)
        counts, targets = (np.array([int(row[column]) for row in rows]) for column in (1, 2))
        fillers = sum(token.startswith(FILLERS) for token in tokens)
        return cls(tokens, counts, counts - targets if reverse else targets, fillers)
