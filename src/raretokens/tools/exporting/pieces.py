"""A run's own tokenizer in the form of transformers.

A piece that the training text never ended up with is <unk> to the model. Marian's tokenizer has that rule (a SentencePiece
model and a vocabulary with numbers of its own), so it carries pieces learnt by SentencePiece, also of a language model.
"""

import json
import shutil
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, models, pre_tokenizers, processors

from raretokens.files import write_text
from raretokens.tokenization.gpt2 import GPT2
from raretokens.tokenization.joint import Joint
from raretokens.tokenization.sentence_piece import SentencePiece
from raretokens.tokenization.vocabulary import EOS, PAD, SPECIALS, UNK, VOCABULARY, Vocabulary
from raretokens.tools.trained_run import Finished

MARKS = {"unk_token": SPECIALS[UNK], "eos_token": SPECIALS[EOS], "pad_token": SPECIALS[PAD]}


def write(finished: Finished, longest: int, into: Path) -> str:
    """Write the tokenizer's files; returns a sentence for the model card. longest: positions of the model."""
    vocabulary = Vocabulary.read(finished.tokens / VOCABULARY)
    if (finished.tokens / SentencePiece.FILE).exists():
        return _of_pieces(finished.tokens / SentencePiece.FILE, vocabulary, longest, into)
    if any((finished.tokens / kind.FILE).exists() for kind in (GPT2, Joint)):
        return _left_out(finished.tokens, into)
    return _of_words(finished, vocabulary, longest, into)


def _of_pieces(model: Path, vocabulary: Vocabulary, longest: int, into: Path) -> str:
    for side in ("source.spm", "target.spm"):
        shutil.copyfile(model, into / side)
    _json(into / "vocab.json", {piece: index for index, piece in enumerate(vocabulary.pieces[: vocabulary.types])})
    _settings(into, "MarianTokenizer", longest, separate_vocabs=False, source_lang=None, target_lang=None)
    return "Text is cut by SentencePiece (`MarianTokenizer`), and `</s>` ends each line."


def _of_words(finished: Finished, vocabulary: Vocabulary, longest: int, into: Path) -> str:
    apart = finished.told("encode", finished.run["tokens"])["vocabulary"]["tokenise"]
    words = {word: index for index, word in enumerate(vocabulary.pieces[: vocabulary.types])}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token=SPECIALS[UNK]))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace() if apart else pre_tokenizers.WhitespaceSplit()
    end = SPECIALS[EOS]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"$A {end}", pair=f"$A {end} $B {end}", special_tokens=[(end, EOS)]
    )
    tokenizer.add_special_tokens([mark for mark in SPECIALS if mark in words])
    tokenizer.save(str(into / "tokenizer.json"))
    _settings(into, "PreTrainedTokenizerFast", longest)
    return "Text is cut into words at blanks and punctuation marks, and `</s>` ends each line."


def _left_out(tokens: Path, into: Path) -> str:
    """No tokenizer of transformers makes <unk> of a piece that later merges need."""
    for name in (VOCABULARY, GPT2.FILE, Joint.FILE):
        if (tokens / name).exists():
            shutil.copyfile(tokens / name, into / name)
    return (
        "The tokenizer is not in the form of transformers: its merges pass through pieces that the table has no row for. "
        f"`raretokens.tokenization.encoder.Encoder` reads its files here; `{VOCABULARY}` names the row of each piece."
    )


def _settings(into: Path, kind: str, longest: int, **further: Any) -> None:
    _json(into / "tokenizer_config.json", {"tokenizer_class": kind, "model_max_length": longest, **MARKS, **further})


def _json(path: Path, tree: dict[str, Any]) -> None:
    write_text(path, json.dumps(tree, ensure_ascii=False, indent=1) + "\n")
