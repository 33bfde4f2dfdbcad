"""Exported runs are the runs: the same logits, texts and translations, in other people's programs."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import ctranslate2
import numpy as np
import pytest
import torch
from huggingface_hub import ModelCard
from tiny import finished as tiny

from raretokens.errors import UserError
from raretokens.measure.causal_predictions import Reading
from raretokens.vocabulary import EOS, PAD, SPECIALS, VOCABULARY, Vocabulary
from reproduction.commands import REPRODUCTION, trained_run
from reproduction.commands.export import export_run
from reproduction.corpora.tokenization.token_files import Bitext, tokens
from reproduction.corpora.tokenization.tokenizer import Tokenizer
from reproduction.tasks.evaluation.job_specs import Decoding
from reproduction.tasks.evaluation.language_model import teacher_forced
from reproduction.tasks.evaluation.translate import open_translator, search
from reproduction.training.models.registry import build, load_weights

transformers = pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def scale(tmp_path_factory) -> Path:
    return tiny.create(tmp_path_factory.mktemp("scale"))


@pytest.fixture(scope="module")
def exported(scale) -> Path:
    for path in ("lm/pieces", "lm/words", "lm/blanks", "lm/letters", "nmt/pairs"):
        export_run(trained_run.find(str(scale / "data/runs" / path)), scale / "out" / path)
    return scale / "out"


def own(scale: Path, path: str) -> torch.nn.Module:
    run = trained_run.find(str(scale / "data/runs" / path))
    types = len(Vocabulary.read(run.tokens / VOCABULARY))
    model = build(run.run["architecture"], run.run["shape"], types, 64)
    load_weights(model, run.model)
    return model.eval()


@pytest.mark.parametrize("name", ["pieces", "words"])
@torch.no_grad()
def test_a_language_model_has_the_same_logits_without_remote_code(scale, exported, name):
    model, told = transformers.AutoModelForCausalLM.from_pretrained(exported / "lm" / name, output_loading_info=True)
    assert not any(told.values())
    assert model.get_input_embeddings().weight is model.get_output_embeddings().weight
    ours = own(scale, f"lm/{name}")
    ids = torch.randint(0, len(ours.embedding), (3, 50), generator=torch.Generator().manual_seed(0))
    assert (model.eval()(ids).logits - ours(ids) @ ours.embedding.T).abs().max() < 1e-5


@torch.no_grad()
def test_a_translator_has_the_same_logits_where_sentences_are_padded(scale, exported):
    model, told = transformers.AutoModelForSeq2SeqLM.from_pretrained(exported / "nmt/pairs", output_loading_info=True)
    assert not any(told.values())
    ours, random = own(scale, "nmt/pairs"), torch.Generator().manual_seed(0)
    source, target = (torch.randint(4, len(ours.embedding), (3, length), generator=random) for length in (20, 17))
    source[1, 9:] = PAD
    given = model.eval()(input_ids=source, attention_mask=(source != PAD).long(), decoder_input_ids=target).logits
    assert (given - ours(source, target) @ ours.embedding.T).abs().max() < 1e-5


@pytest.mark.parametrize("name, corpus", [("lm/pieces", "lm/test.txt"), ("nmt/pairs", "nmt/test.source")])
def test_the_tokenizer_cuts_and_joins_as_the_run_s_own(scale, exported, name, corpus):
    cutter = transformers.AutoTokenizer.from_pretrained(exported / name)
    ours = Tokenizer(trained_run.find(str(scale / "data/runs" / name)).tokens)
    for line in [*(scale / "data/corpus" / corpus).read_text().splitlines(), "watch Žofie's  win"]:
        assert cutter(line)["input_ids"] == [*ours.encode(line), EOS]
    line = (scale / "data/corpus" / corpus).read_text().splitlines()[0]
    assert cutter.decode(ours.encode(line)) == ours.decode(ours.encode(line)) == line


@pytest.mark.parametrize(
    ("name", "cut", "described"),
    [
        ("words", ["<unk>", "tiger", "<unk>", "<unk>"], "cut into words at blanks and punctuation marks, "),
        ("blanks", ["<unk>", "<unk>", "<unk>"], "cut into words at blanks, "),
        ("letters", ["the", "tiger", "the", "garden"], "cut into runs of letters, in lower case, "),
    ],
)
def test_a_tokenizer_of_words_cuts_as_the_run_s_own(scale, exported, name, cut, described):
    cutter = transformers.AutoTokenizer.from_pretrained(exported / "lm" / name)
    lines = (scale / "data/corpus/lm/test.txt").read_text().splitlines()
    ids = np.concatenate([cutter(line)["input_ids"] for line in lines])
    assert ids.tolist() == tokens(scale / "data/tokens" / name, "test").tolist()
    assert cutter.convert_ids_to_tokens(cutter("The tiger, the2garden")["input_ids"]) == [*cut, "</s>"]
    card = (exported / "lm" / name / "README.md").read_text()
    assert all(part in card for part in (described, "public domain", "* alpha (of the objective): 0.03", "| ppl.total | 12.5 |"))


def test_generate_translates_as_the_run_does(scale, exported, tmp_path):
    run = trained_run.find(str(scale / "data/runs/nmt/pairs"))
    export_run(run, tmp_path / "ct2", "ctranslate2")
    encoder, pairs = Tokenizer(run.tokens), Bitext(run.tokens, "test")
    names = encoder.vocabulary.tokens
    sources = [pairs.pair(number)[0] for number in range(50)]
    found = search(
        open_translator(tmp_path / "ct2", "cpu", "float32", 1),
        [[names[i] for i in source] for source in sources],
        Decoding(**tiny.DECODING),
        24,
        1024,
    )
    expected = [encoder.decode(encoder.ids[piece] for piece in row) for row in found]
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(exported / "nmt/pairs").eval()
    cutter = transformers.AutoTokenizer.from_pretrained(exported / "nmt/pairs")
    lines = (scale / "data/corpus/nmt/test.source").read_text().splitlines()[:50]
    made = cutter.batch_decode(
        model.generate(**cutter(lines, return_tensors="pt", padding=True)), skip_special_tokens=True
    )
    assert made == expected and len(set(made)) > 10


def test_lm_evaluation_harness_finds_the_same_log_likelihood(scale, exported, tmp_path, monkeypatch):
    lm_eval = pytest.importorskip("lm_eval", reason="optional: pip install lm-eval")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    lines = (scale / "data/corpus/lm/test.txt").read_text().splitlines()[:5]
    (tmp_path / "lines.jsonl").write_text("".join(json.dumps({"text": line}) + "\n" for line in lines))
    (tmp_path / "lines.yaml").write_text(
        f"task: lines\ndataset_path: json\ndataset_kwargs: {{data_files: {{test: {tmp_path}/lines.jsonl}}}}\n"
        "test_split: test\noutput_type: loglikelihood_rolling\ndoc_to_text: ''\ndoc_to_target: '{{text}}'\n"
        "metric_list: [{metric: byte_perplexity}]\n"
    )
    found = lm_eval.simple_evaluate(
        model="hf",
        model_args=f"pretrained={exported}/lm/pieces",
        tasks=["lines"],
        task_manager=lm_eval.tasks.TaskManager(include_path=str(tmp_path), include_defaults=False),
        device="cpu",
        bootstrap_iters=0,
    )["results"]["lines"]["byte_perplexity,none"]
    ours, encoder = own(scale, "lm/pieces"), Tokenizer(scale / "data/tokens/lm")
    cut = [np.array([*encoder.encode(line), EOS]) for line in lines]
    nll = -sum(teacher_forced(ours, row, Reading(window=48, context=0, block=48))[0].sum() for row in cut)
    assert found == pytest.approx(np.exp(nll / sum(len(line.encode()) for line in lines)), rel=1e-5)


@torch.no_grad()
def test_ctranslate2_reads_a_language_model_by_its_pieces(scale, tmp_path):
    run = trained_run.find(str(scale / "data/runs/lm/pieces"))
    export_run(run, tmp_path / "ct2", "ctranslate2")
    pieces, text = Vocabulary.read(run.tokens / VOCABULARY).tokens, tokens(run.tokens, "test")[:30]
    generator = ctranslate2.Generator(str(tmp_path / "ct2"), compute_type="float32")
    (score,) = generator.score_batch([[SPECIALS[EOS], *(pieces[i] for i in text)]])
    logprob, *_ = teacher_forced(own(scale, "lm/pieces"), text, Reading(window=30, context=0, block=30))
    assert np.abs(np.array(score.log_probs) - logprob).max() < 1e-4


@pytest.mark.parametrize(
    ("path", "tokens", "corpus", "task", "languages", "datasets"),
    [
        ("lm/pieces", "lm", "wikitext-2", "text-generation", ["en"], ["Salesforce/wikitext"]),
        ("nmt/pairs", "nmt", "multi30k", "translation", ["en", "de"], ["bentrevett/multi30k"]),
        ("nmt/pairs", "nmt", "bible", "translation", ["en"], None),
        ("lm/pieces", "lm", "my-own", "text-generation", None, None),
    ],
)
def test_the_hub_reads_data_languages_and_scores_from_the_card(scale, tmp_path, path, tokens, corpus, task, languages, datasets):
    run = trained_run.find(str(scale / "data/runs" / path))
    prepared = scale / f"data/jobs/prepare/{tokens}.json"
    before = prepared.read_text()
    prepared.write_text(json.dumps({"job": {"corpus": corpus}}))
    try:
        export_run(run, tmp_path / "folder")
    finally:
        prepared.write_text(before)
    card = ModelCard.load(tmp_path / "folder/README.md", ignore_metadata_errors=False).data
    assert (card.license, card.library_name, card.pipeline_tag) == ("apache-2.0", "transformers", task)
    assert (card.language, card.datasets, card.tags) == (languages, datasets, ["raretokens", "agg"])
    (result,) = card.eval_results
    assert (result.task_type, result.dataset_name, result.dataset_split) == (task, corpus, "test")
    assert (result.metric_type, result.metric_name, result.metric_value) == ("perplexity", "ppl.total", 12.5)
    assert result.metric_args == {"signature": "log:e|unit:piece"}


def test_mistakes_are_one_line(scale, exported, monkeypatch):
    run = trained_run.find(str(scale / "data/runs/lm/pieces"))
    with pytest.raises(UserError, match="not empty; name a new or empty folder"):
        export_run(run, exported / "lm/pieces")
    capped = replace(run, run=run.run | {"objective": "soft_cap"})
    with pytest.raises(UserError, match=r"pieces: its soft-cap of 30.0 has no place in transformers; allowed: runs without one"):
        export_run(capped, exported / "new")
    run.run["architecture"] = "gru"
    with pytest.raises(UserError, match="gru: transformers has no such model; allowed: decoder"):
        export_run(run, scale / "gru")
    monkeypatch.chdir(scale)
    monkeypatch.setattr(sys, "argv", ["reproduction", "export", "lm/peices", "elsewhere"])
    with pytest.raises(SystemExit, match="error: lm/peices: no such trained run; of the trained runs, the nearest is lm/pieces"):
        REPRODUCTION.run()
