"""Beam search over the test sets, by CTranslate2."""

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import ctranslate2
from safetensors.torch import load_file

from raretokens import config
from raretokens.decoding.devices import best_device, checked_compute_type
from raretokens.decoding.export import export
from raretokens.models import build
from raretokens.subword.bpe import Encoder
from raretokens.subword.streams import Bitext
from raretokens.subword.vocabulary import EOS, PAD, SPECIALS
from raretokens.training import machine

END = SPECIALS[EOS]


def translate(
    parameters: config.Parameters, run: config.Run, checkpoint: Path, tokens: Path, tests: Sequence[str]
) -> Iterator[tuple[str, list[str]]]:
    """Each test set's name and the translations of its first `nmt.decoding.sentences` sentences, detokenised, one each.

    A translation has at most `nmt.training.block` pieces, as many as the model saw in training. Raises UserError where
    the device does not have the arithmetic that is asked for.
    """
    decoding, encoder = parameters.nmt.decoding, Encoder(tokens, run.reverse)
    device = best_device()
    compute_type = checked_compute_type(decoding.compute_type, device)
    vocabulary, ids = encoder.vocabulary.pieces, encoder.ids
    sources = {test: _sources(Bitext(tokens, test, run.reverse), vocabulary, decoding.sentences) for test in tests}
    longest = max((len(source) for rows in sources.values() for source in rows), default=1)
    with tempfile.TemporaryDirectory() as folder:
        _export(parameters, run, checkpoint, encoder, longest, Path(folder))
        translator = open_translator(Path(folder), device, compute_type, parameters.threads)
        for test, rows in sources.items():
            found = search(translator, rows, decoding, parameters.nmt.training.block, machine.read().decoding_batch)
            yield test, [encoder.decode(ids[piece] for piece in translation) for translation in found]


def search(
    translator: ctranslate2.Translator, sources: list[list[str]], decoding: config.Decoding, longest: int, batch: int
) -> list[list[str]]:
    """The best translation of each source (pieces that end in </s>), as pieces without </s>.

    Beam search keeps the `beam` most probable prefixes and ends when `decoding.candidates` translations are finished; the best
    of them by the penalised score is returned. |Y| counts </s>, and log p its probability, as in fairseq and tensor2tensor:

    * `fairseq`: log p / |Y| ** a, CTranslate2's own form.
    * `gnmt` (Wu et al. 2016, Eq. 14, without coverage): log p / ((5 + |Y|) / 6) ** a, by re-ranking. The search itself is the
      other's, so what it never finished cannot win; it goes on until twice as many are finished, since this form
      favours length more.

    longest: pieces of a translation at most; batch: source pieces translated at once, which changes the speed alone.
    """
    alpha, count = decoding.length_penalty, decoding.candidates
    results = translator.translate_batch(
        sources,
        beam_size=decoding.beam,
        patience=count / decoding.beam,
        num_hypotheses=1 if decoding.length_penalty_form == "fairseq" else count,
        return_scores=True,
        length_penalty=alpha,
        return_end_token=True,  # so that it counts as a piece of the translation
        max_batch_size=batch,
        batch_type="tokens",
        max_input_length=0,
        max_decoding_length=longest,
        suppress_sequences=[[SPECIALS[PAD]]],
    )
    best = (result.hypotheses[0] for result in results)
    if decoding.length_penalty_form == "gnmt":
        best = (gnmt_best(result.hypotheses, result.scores, alpha) for result in results)
    return [[piece for piece in translation if piece != END] for translation in best]


def gnmt_best(hypotheses: list[list[str]], scores: list[float], alpha: float) -> list[str]:
    """The best by GNMT's penalty of hypotheses that end in </s>, scored by log p / length ** alpha."""

    def penalised(number: int) -> float:
        length = len(hypotheses[number])
        return scores[number] * (length * 6 / (5 + length)) ** alpha

    return hypotheses[max(range(len(hypotheses)), key=penalised)]


def open_translator(folder: Path, device: str, compute_type: str, threads: int) -> ctranslate2.Translator:
    """A translator that works on as many batches at a time as there are threads: on a CPU one thread each.

    Several threads on one batch wait for each other after every small product, and would add up in another order.
    """
    workers = threads if device == "cpu" else 1
    return ctranslate2.Translator(
        str(folder), device=device, compute_type=compute_type, inter_threads=workers, intra_threads=1
    )


def _sources(pairs: Bitext, pieces: tuple[str, ...], first: int | None) -> list[list[str]]:
    return [[pieces[i] for i in pairs.pair(number)[0]] for number in range(min(len(pairs), first or len(pairs)))]


def _export(
    parameters: config.Parameters, run: config.Run, checkpoint: Path, encoder: Encoder, source: int, into: Path
) -> None:
    size = parameters.nmt.sizes[run.size]
    model = build("nmt", size, len(encoder.vocabulary), max(source, parameters.nmt.training.block))
    model.load_state_dict(load_file(checkpoint))
    export(model, encoder.vocabulary.pieces, size.activation, into)
