"""Random small models of many architectures of transformers: loss and gradients are those that transformers itself reports."""

import copy
import random

import pytest
import torch
from torch import nn

hf = pytest.importorskip("transformers", reason="optional: pip install transformers accelerate")

from tiny import fine_tuning as tiny  # noqa: E402

from raretokens import Loop, UserError, build, facts  # noqa: E402
from raretokens.transformers import ObjectiveTrainer  # noqa: E402
from raretokens.transformers.trainer import group_of_types  # noqa: E402

pytestmark = pytest.mark.usefixtures("other_accelerator")  # the Trainer leaves its settings behind
CAUSAL = ("gpt2", "llama", "gptj", "gpt_neox", "opt", "bloom", "phi", "qwen2", "gemma2", "gemma3_text", "cohere", "granite",
          "stablelm", "olmo2", "mamba", "bert", "mixtral", "qwen2_moe", "qwen3_moe", "olmoe", "granitemoe", "jetmoe", "gpt_oss",
          "phimoe")  # fmt: skip
SEQ2SEQ, MASKED = ("bart", "marian", "mbart", "mt5", "led"), ("bert", "roberta", "distilbert", "electra", "albert")
ROUTED = {"mixtral", "qwen2_moe", "qwen3_moe", "olmoe", "granitemoe", "jetmoe", "gpt_oss", "phimoe"}


def made(kind: str, auto: type, **changes) -> nn.Module:
    """A model of random shape, by the names that configurations have for it; router losses are on."""
    draw = random.Random(kind)
    width, layers, rows, inner = 8 * draw.randint(2, 4), draw.randint(1, 2), draw.randint(40, 60), 8 * draw.randint(1, 3)
    heads = 2
    sides = {f"{side}_{what}": value for side in ("encoder", "decoder")
             for what, value in (("layers", 1), ("attention_heads", heads), ("ffn_dim", inner))}  # fmt: skip
    sizes = dict.fromkeys(("hidden_size", "n_embd", "d_model", "embedding_size", "dim", "word_embed_proj_dim"), width)
    sizes |= dict.fromkeys(("num_hidden_layers", "n_layer", "num_layers", "n_layers", "num_decoder_layers"), layers)
    sizes |= dict.fromkeys(("num_attention_heads", "n_head", "num_heads", "n_heads"), heads)
    sizes |= dict.fromkeys(("intermediate_size", "d_ff", "ffn_dim", "hidden_dim", "moe_intermediate_size"), inner)
    sizes |= dict.fromkeys(("max_position_embeddings", "n_positions"), 64)
    sizes |= dict.fromkeys(("num_experts", "num_local_experts"), 4)
    sizes |= {"vocab_size": rows, "num_key_value_heads": 1, "num_experts_per_tok": 2, "head_dim": 8, "d_kv": 8, "state_size": 4,
              "rotary_dim": 4, "shared_expert_intermediate_size": inner, "output_router_logits": True, "pad_token_id": 0,
              "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 0, "expand": 2, **sides, **changes}  # fmt: skip
    config = type(hf.AutoConfig.for_model(kind))
    known = config()
    torch.manual_seed(draw.randint(0, 99))
    return auto.from_config(config(**{name: value for name, value in sizes.items() if hasattr(known, name)}))


def batch(rows: int) -> dict[str, torch.Tensor]:
    ids = 3 + torch.randint(0, rows - 3, (4, 12), generator=torch.Generator().manual_seed(3))
    is_text = torch.arange(12) < torch.tensor([12, 9, 7, 5])[:, None]
    return {"input_ids": ids.where(is_text, 0), "attention_mask": is_text.long(), "labels": ids.where(is_text, -100)}


def trainer(folder, model: nn.Module, name: str = "mle", **options) -> ObjectiveTrainer:
    weight = model.get_output_embeddings().weight
    counts = torch.bincount(tiny.Sentences().ids.flatten(), minlength=len(weight))
    known = facts(counts, width=weight.shape[1], steps_per_epoch=3)
    arguments = hf.TrainingArguments(
        str(folder), use_cpu=True, report_to=[], disable_tqdm=True, save_strategy="no", max_steps=3, logging_steps=1,
        per_device_train_batch_size=16, per_device_eval_batch_size=8, learning_rate=0.01,
    )  # fmt: skip
    objective = build(name, known, **options)
    return tiny.Ours(model, arguments, train_dataset=tiny.Sentences(), eval_dataset=tiny.Sentences(0, 15), objective=objective)


def loss_of(ours: ObjectiveTrainer, given: dict[str, torch.Tensor]) -> torch.Tensor:
    ours.loop.begin([ours._targets(ours._split_inputs(given)[1])])
    return ours.compute_loss(ours.model, given)


@pytest.mark.parametrize(
    ("auto", "kind"),
    [(hf.AutoModelForCausalLM, kind) for kind in CAUSAL]
    + [(hf.AutoModelForSeq2SeqLM, kind) for kind in SEQ2SEQ]
    + [(hf.AutoModelForMaskedLM, kind) for kind in MASKED],
)
def test_loss_and_gradients_are_those_that_the_model_reports(tmp_path, auto, kind):
    """The balancing losses of routers too; the vocabulary of most of these has no row that is never used."""
    model = made(kind, auto).eval()
    given = batch(model.get_output_embeddings().weight.shape[0])
    own = copy.deepcopy(model)
    reported = own(**given).loss
    reported.backward()
    ours = trainer(tmp_path, model)
    model.eval()
    loss = loss_of(ours, given)
    loss.backward()
    assert float(loss.detach()) == pytest.approx(float(reported.detach()), rel=2e-5)
    assert (ours.model_loss.auxiliary > 0) == (kind in ROUTED and auto is hf.AutoModelForCausalLM)
    for (name, weight), other in zip(model.named_parameters(), own.parameters(), strict=True):
        both = [torch.zeros_like(weight) if one.grad is None else one.grad for one in (weight, other)]
        torch.testing.assert_close(*both, atol=1e-5, rtol=1e-4, msg=lambda text, name=name: f"{name}: {text}")


@pytest.mark.parametrize("kind", ["mixtral", "olmoe", "gpt2", "bart"])
def test_a_model_in_bfloat16_is_not_refused(tmp_path, kind):
    auto = hf.AutoModelForSeq2SeqLM if kind == "bart" else hf.AutoModelForCausalLM
    model = made(kind, auto).to(torch.bfloat16)
    ours = trainer(tmp_path, model)
    loss_of(ours, batch(len(ours.output.weight)))
    assert (ours.model_loss.auxiliary > 0) == (kind in ROUTED)


def test_balancing_losses_of_routers_are_averaged_over_micro_batches(tmp_path):
    given = batch(len(made("olmoe", hf.AutoModelForCausalLM).get_output_embeddings().weight))
    halves = [{name: value[part] for name, value in given.items()} for part in (slice(0, 2), slice(2, 4))]
    model = made("olmoe", hf.AutoModelForCausalLM, router_aux_loss_coef=0.5)
    ours = trainer(tmp_path, model)
    model.eval()
    ours.loop.begin([ours._targets(ours._split_inputs(half)[1]) for half in halves])
    loss = sum(float(ours.compute_loss(model, half).detach()) for half in halves)
    outputs = [model(**half) for half in halves]
    numbers = [int((half["labels"][:, 1:] != -100).sum()) for half in halves]
    likelihood = [float(one.loss.detach() - 0.5 * one.aux_loss.detach()) for one in outputs]
    mean = sum(number * one for number, one in zip(numbers, likelihood, strict=True)) / sum(numbers)
    assert loss == pytest.approx(mean + 0.5 * sum(float(one.aux_loss.detach()) for one in outputs) / 2, rel=1e-5)


class Adapted(nn.Linear):
    """An output embedding with low-rank weights that do nothing at first, as LoRA adds them."""

    def __init__(self, plain: nn.Linear) -> None:
        super().__init__(plain.in_features, plain.out_features, bias=False)
        self.weight = plain.weight
        self.first, self.second = nn.Linear(plain.in_features, 2, bias=False), nn.Linear(2, plain.out_features, bias=False)
        nn.init.zeros_(self.second.weight)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        return super().forward(states) + self.second(self.first(states))


def test_further_weights_between_states_and_logits_are_refused(tmp_path):
    model = made("llama", hf.AutoModelForCausalLM)
    model.lm_head = Adapted(model.lm_head)
    with pytest.raises(UserError, match=r"weights that an objective would not train: .*lm_head.first.weight.*; LoRA of"):
        trainer(tmp_path, model).train()
    with pytest.raises(UserError, match=r"would not train: lm_head.bias; LoRA of the output embedding and a bias outside"):
        trainer(tmp_path, made("esm", hf.AutoModelForMaskedLM, mask_token_id=3)).train()


class Prompted(hf.GPT2LMHeadModel):
    """Three trained positions before the text, as in prompt tuning."""

    def __init__(self, config: hf.GPT2Config) -> None:
        super().__init__(config)
        self.prompt = nn.Parameter(torch.randn(3, config.n_embd))

    def forward(self, input_ids=None, attention_mask=None, labels=None, **more):
        before = self.prompt.expand(len(input_ids), -1, -1)
        inputs = torch.cat((before, self.transformer.wte(input_ids)), 1)
        mask, known = nn.functional.pad(attention_mask, (3, 0), value=1), labels
        if labels is not None:
            known = nn.functional.pad(labels, (3, 0), value=-100)
        return super().forward(inputs_embeds=inputs, attention_mask=mask, labels=known, **more)


def test_positions_before_the_text_are_no_targets(tmp_path):
    """The first token of the text is one: the model predicts it from the last position of the prompt."""
    torch.manual_seed(0)
    model = Prompted(tiny.model("gpt2").config).eval()
    given = batch(tiny.N)
    reported = model(**given).loss
    (expected,) = torch.autograd.grad(reported, model.prompt)
    ours = trainer(tmp_path, model)
    model.eval()
    loss = loss_of(ours, given)
    assert ours.model_loss.prefix == 3 and ours.loop.targets == int((given["labels"] != -100).sum())
    assert float(loss.detach()) == pytest.approx(float(reported.detach()), rel=1e-5)
    torch.testing.assert_close(torch.autograd.grad(loss, model.prompt)[0], expected, atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize("kept", ["nothing", "first label"])
@pytest.mark.parametrize("name", ["mle", "agg", "adversarial"])
def test_a_first_batch_without_targets_trains_nothing_and_is_no_fault(tmp_path, kept, name):
    class Masked(tiny.Sentences):
        def __getitem__(self, number):
            row, places = super().__getitem__(number), torch.arange(tiny.LENGTH)
            is_kept = (places == 0) & (kept == "first label") | torch.tensor(number >= 16)
            return {**row, "labels": row["labels"].where(is_kept, -100)}

    ours = trainer(tmp_path, tiny.model("gpt2"), name)
    ours.train_dataset = Masked()
    ours.train()
    first, *others = tiny.losses(ours)
    assert first == 0.0 and all(loss > 3.0 for loss in others) and ours.model_loss.shifts_labels
    assert all(weight.isfinite().all() for weight in ours.model.parameters())


@pytest.mark.parametrize("name", ["agg", "agps", "freeze", "cosreg", "mu_loss", "mu_centering", "spectrum_control", "frage",
                                  "weight_decay", "coupled_adam", "ember"])  # fmt: skip
def test_a_frozen_embedding_stays_and_one_line_says_so(tmp_path, name):
    """What acts on the embedding alone is maximum likelihood then."""
    both = []
    for objective in (name, "mle"):
        model = tiny.model("llama")
        embedding = model.get_output_embeddings().weight.requires_grad_(False)
        before = embedding.clone()
        with pytest.warns(UserWarning, match="^the output embedding is frozen .* acts through its loss alone"):
            ours = trainer(tmp_path, model, objective)
        ours.train()
        assert torch.equal(embedding, before)
        both.append((tiny.losses(ours), tiny.weights(ours)))
    assert both[0][0] == pytest.approx(both[1][0], rel=1e-5)  # a gate changes the order of sums
    for key, weight in both[1][1].items():
        torch.testing.assert_close(both[0][1][key], weight, atol=1e-4, rtol=1e-4)


def test_a_loop_warns_of_a_frozen_embedding_and_leaves_it_out_of_the_optimizer():
    known = facts(torch.arange(5), width=2, steps_per_epoch=1)
    frozen, other = torch.randn(5, 2), nn.Parameter(torch.randn(3, 2))
    with pytest.warns(UserWarning, match="acts through its loss alone"):
        loop = Loop(build("mu_centering", known), frozen)
    before, optimizer = frozen.clone(), loop.optimizer([other], lr=0.1)
    loop.begin([torch.tensor([1, 2, 3])])
    loop.loss(other, torch.tensor([1, 2, 3])).backward()
    loop.step(optimizer)
    assert torch.equal(frozen, before) and other.grad.any()
    with pytest.raises(ValueError, match=r"^targets lie in -100\.\.3; allowed: 0\.\.4, and 0 for padding$"):
        padded = facts(torch.arange(5), width=2, steps_per_epoch=1, pad=0)
        Loop(build("mle", padded), nn.Parameter(torch.ones(5, 2))).begin([torch.tensor([-100, 3])])


def test_float16_weights_are_refused_in_training_and_evaluated(tmp_path):
    ours = trainer(tmp_path, tiny.model("gpt2", torch.float16))
    assert ours.evaluate()["eval_loss"] > 3
    with pytest.raises(UserError, match=r"^transformer.wte.weight: trainable weights in float16 become NaN under AdamW; load"):
        ours.train()
    frozen = tiny.model("gpt2")
    frozen.adapter = nn.Parameter(torch.ones(2, dtype=torch.float16), requires_grad=False)
    trainer(tmp_path, frozen).train()


def test_groups_of_types_leave_out_fillers_and_padding():
    counts = torch.tensor([0, 9, 8, 7, 6, 5, 4, 3, 2, 1, *[0] * 20])
    known = facts(counts, width=2, steps_per_epoch=1, types=10, pad=0, rare_share=0.2, markers=[0])
    assert group_of_types(known)[1:10].tolist() == [0, 0, 0, 1, 1, 1, 1, 2, 2]  # two rare types of nine
