"""Translate the test sets by beam search with CTranslate2."""

import json
import tempfile
from pathlib import Path

import ctranslate2

from raretokens.files import write_text
from raretokens.vocabulary import EOS, PAD, SPECIALS
from reproduction.corpora.tokenization.token_files import Bitext
from reproduction.corpora.tokenization.tokenizer import Tokenizer
from reproduction.tasks.evaluation.ctranslate2_models import best_device, checked_compute_type, export
from reproduction.tasks.evaluation.job_specs import Decoding, TranslateJob
from reproduction.training.models.registry import build, load_weights

END = SPECIALS[EOS]


def translate(job: TranslateJob, tokens: Path, trained: Path, into: Path, batch: int) -> None:
    """Write the detokenised translations of each test set, one sentence per line.

    Decoding.sentence_numbers() selects the sentences.

    Args:
        tokens: Folder of the token files.
        batch: Source tokens per batch, which affects speed only.
    Raises:
        UserError: The device does not support the requested compute type.
    """
    decoding, tokenizer = job.decoding, Tokenizer(tokens, job.run.reverse)
    device = best_device()
    compute_type = checked_compute_type(decoding.compute_type, device)
    vocabulary, ids = tokenizer.vocabulary.tokens, tokenizer.ids
    sources = {test: _sources(Bitext(tokens, test, job.run.reverse), vocabulary, decoding) for test in job.tests}
    longest = max((len(source) for rows in sources.values() for source in rows), default=1)
    with tempfile.TemporaryDirectory() as folder:
        _export(job, trained / "model.safetensors", tokenizer, longest, Path(folder))
        translator = open_translator(Path(folder), device, compute_type, job.threads)
        for test, rows in sources.items():
            best = search(translator, rows, decoding, job.longest, batch)
            lines = [tokenizer.decode(ids[token] for token in translation) + "\n" for translation in best]
            write_text(into / f"{test}.txt", "".join(lines))
            print(f"translate {job.run.name}: {test}, {len(lines)} sentences", flush=True)
    write_text(into / "meta.json", json.dumps({**decoding.model_dump(), "keep": job.keep}, indent=1) + "\n")


def search(
    translator: ctranslate2.Translator, sources: list[list[str]], decoding: Decoding, longest: int, batch: int
) -> list[list[str]]:
    """Return the best translation of each source as tokens without </s>.

    Beam search keeps the `beam` most probable prefixes and ends when `decoding.candidates` translations are finished. The
    translation with the best penalised score is returned. The length |Y| and log p both include </s>, as in fairseq and
    tensor2tensor:

    * `fairseq`: log p / |Y| ** a, CTranslate2's own form.
    * `gnmt` (Wu et al. 2016, Eq. 14, without coverage): log p / ((5 + |Y|) / 6) ** a, by re-ranking. The search itself uses
      the `fairseq` form, so only translations that the search finished can win. The search continues until twice as many
      translations are finished, because the `gnmt` form favours long translations more.

    Args:
        sources: Source sentences as tokens that end in </s>.
        longest: Maximum number of tokens of a translation.
        batch: Source tokens per batch, which affects speed only.
    """
    alpha, count = decoding.length_penalty, decoding.candidates
    results = translator.translate_batch(
        sources,
        beam_size=decoding.beam,
        patience=count / decoding.beam,
        num_hypotheses=1 if decoding.length_penalty_form == "fairseq" else count,
        return_scores=True,
        length_penalty=alpha,
        return_end_token=True,  # </s> counts as a token of the translation
        max_batch_size=batch,
        batch_type="tokens",
        max_input_length=0,
        max_decoding_length=longest,
        suppress_sequences=[[SPECIALS[PAD]]],
    )
    best = (result.hypotheses[0] for result in results)
    if decoding.length_penalty_form == "gnmt":
        best = (gnmt_best(result.hypotheses, result.scores, alpha) for result in results)
    return [[token for token in translation if token != END] for translation in best]


def gnmt_best(hypotheses: list[list[str]], scores: list[float], alpha: float) -> list[str]:
    """Return the hypothesis with the best score under GNMT's length penalty.

    Args:
        hypotheses: Tokens that end in </s>.
        scores: log p / length ** alpha of each hypothesis.
    """

    def penalised(number: int) -> float:
        length = len(hypotheses[number])
        return scores[number] * (length * 6 / (5 + length)) ** alpha

    return hypotheses[max(range(len(hypotheses)), key=penalised)]


def open_translator(folder: Path, device: str, compute_type: str, threads: int) -> ctranslate2.Translator:
    """Open a translator. On a CPU each thread translates its own batch.

    Several threads on the same batch would wait for each other after every small matrix product, and would change the
    order of summation.
    """
    workers = threads if device == "cpu" else 1
    return ctranslate2.Translator(
        str(folder), device=device, compute_type=compute_type, inter_threads=workers, intra_threads=1
    )


def _sources(pairs: Bitext, vocabulary: tuple[str, ...], decoding: Decoding) -> list[list[str]]:
    return [[vocabulary[i] for i in pairs.pair(number)[0]] for number in decoding.sentence_numbers(len(pairs))]


def _export(job: TranslateJob, checkpoint: Path, tokenizer: Tokenizer, source: int, into: Path) -> None:
    run = job.run
    model = build(run.architecture, run.shape, len(tokenizer.vocabulary), max(source, job.longest))
    load_weights(model, checkpoint)
    export(model, tokenizer.vocabulary.tokens, run.shape["activation"], into)
