"""Beam search over the test sets, by CTranslate2."""

import tempfile
from pathlib import Path

import ctranslate2
from safetensors.torch import load_file

from raretokens import config
from raretokens.decoding.export import export
from raretokens.models import build
from raretokens.subword.bpe import Encoder
from raretokens.subword.streams import Bitext
from raretokens.subword.vocabulary import PAD, SPECIALS

BATCH = 2048  # source pieces decoded at once; changes the speed alone
LONGEST_SOURCE = 1024  # pieces that positions are made for


def translate(parameters: config.Parameters, run: config.Run, checkpoint: Path, tokens: Path, test: str) -> list[str]:
    """Translations of a test set (its first `nmt.decoding.sentences` sentences), detokenised text, one a sentence.

    A translation has at most `nmt.training.block` pieces, as many as the model saw in training. The length penalty is
    fairseq's and CTranslate2's form: the log-probability is divided by length ** penalty.
    """
    decoding, encoder = parameters.nmt.decoding, Encoder(tokens, run.reverse)
    pairs = Bitext(tokens, test, run.reverse)
    sources = _sources(pairs, encoder.vocabulary.pieces, decoding.sentences)
    with tempfile.TemporaryDirectory() as folder:
        _export(parameters, run, checkpoint, encoder, Path(folder))
        results = _translator(Path(folder), parameters.threads).translate_batch(
            sources,
            beam_size=decoding.beam,
            length_penalty=decoding.length_penalty,
            max_batch_size=BATCH,
            batch_type="tokens",
            max_decoding_length=parameters.nmt.training.block,
            suppress_sequences=[[SPECIALS[PAD]]],
        )
    ids = encoder.ids
    return [encoder.decode(ids[piece] for piece in result.hypotheses[0]) for result in results]


def _sources(pairs: Bitext, pieces: tuple[str, ...], first: int | None) -> list[list[str]]:
    return [[pieces[i] for i in pairs.pair(number)[0]] for number in range(min(len(pairs), first or len(pairs)))]


def _export(parameters: config.Parameters, run: config.Run, checkpoint: Path, encoder: Encoder, into: Path) -> None:
    size = parameters.nmt.sizes[run.size]
    model = build("nmt", size, len(encoder.vocabulary), LONGEST_SOURCE)
    model.load_state_dict(load_file(checkpoint))
    export(model, encoder.vocabulary.pieces, size.activation, into)


def _translator(folder: Path, threads: int) -> ctranslate2.Translator:
    device = "cuda" if ctranslate2.get_cuda_device_count() else "cpu"
    return ctranslate2.Translator(str(folder), device=device, compute_type="float32", intra_threads=threads)
