"""Pieces as a reader knows them."""

SPACE = "\u2581"  # SentencePiece's mark of a piece that begins a word; the papers print their pieces without it


def word(piece: str) -> str:
    return piece.removeprefix(SPACE) or piece


def bare(piece: str) -> str:
    """A piece without marks: * of a rare word or a synonym, @@ of one that does not end a word, the mark of a blank."""
    return piece.rstrip("*").removesuffix("@@").removeprefix(SPACE) or piece
