"""Models of transformers, small and random, trained by its Trainer with an objective or without.

python -m tiny.fine_tuning FOLDER NAME, on two processes     # FOLDER/NAME.pt: losses, metrics, weights
"""

import sys
from pathlib import Path
from typing import Any

import torch
import transformers
from torch.utils.data import Dataset, SequentialSampler

from raretokens import Objective, build, facts
from raretokens.transformers import ObjectiveTrainer
from tiny import served

N, D, LENGTH, PAD, SEQUENCES = 40, 16, 10, 0, 48
SHAPE = {"vocab_size": N, "hidden_size": D, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16,
         "max_position_embeddings": 32, "pad_token_id": PAD, "bos_token_id": 1, "eos_token_id": 2}  # fmt: skip
SEQ2SEQ = {"vocab_size": N, "d_model": D, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2,
           "decoder_attention_heads": 2, "encoder_ffn_dim": 16, "decoder_ffn_dim": 16, "max_position_embeddings": 32,
           "dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0, "pad_token_id": PAD, "eos_token_id": 2,
           "decoder_start_token_id": PAD, "forced_eos_token_id": None}  # fmt: skip
KEYS = {"num_key_value_heads": 1, "head_dim": 8}
OPTIONS = {"agg": {"alpha": 3.0}}


def model(kind: str, dtype: torch.dtype = torch.float32) -> Any:
    """gpt2 is tied; llama has two tables; gptj a bias; gemma2 a soft-cap; cohere a scale; the others are encoder-decoders."""
    torch.manual_seed(0)
    hf = transformers
    config = {
        "gpt2": lambda: hf.GPT2Config(
            vocab_size=N, n_embd=D, n_layer=1, n_head=2, n_positions=32, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
            bos_token_id=1, eos_token_id=2,
        ),
        "llama": lambda: hf.LlamaConfig(**SHAPE, tie_word_embeddings=False),
        "gptj": lambda: hf.GPTJConfig(
            vocab_size=N, n_embd=D, n_layer=1, n_head=2, n_positions=32, rotary_dim=4, resid_pdrop=0.0, embd_pdrop=0.0,
            attn_pdrop=0.0, tie_word_embeddings=False,
        ),
        "gemma2": lambda: hf.Gemma2Config(**SHAPE, **KEYS, final_logit_softcapping=3.0),
        "cohere": lambda: hf.CohereConfig(**SHAPE, logit_scale=0.25),
        "marian": lambda: hf.MarianConfig(**SEQ2SEQ),
        "bart": lambda: hf.BartConfig(**SEQ2SEQ),
        "t5": lambda: hf.T5Config(
            vocab_size=N, d_model=D, d_kv=8, d_ff=16, num_layers=1, num_heads=2, dropout_rate=0.0, pad_token_id=PAD,
            decoder_start_token_id=PAD,
        ),
    }[kind]()  # fmt: skip
    classes = hf.AutoModelForSeq2SeqLM if config.is_encoder_decoder else hf.AutoModelForCausalLM
    made = classes.from_config(config)
    with torch.no_grad():  # tables that mean something, a bias that is not nothing
        made.get_output_embeddings().weight.mul_(20.0 if kind != "t5" else 1.0)
        for bias in (made.get_output_embeddings().bias, getattr(made, "final_logits_bias", None)):
            if bias is not None:
                bias.normal_()
    return made.to(dtype)


class Sentences(Dataset):
    """Sequences of falling frequency and different lengths; padding has no label."""

    def __init__(self, first: int = 0, last: int = SEQUENCES) -> None:
        random = torch.Generator().manual_seed(3)
        self.ids = 3 + (torch.rand(SEQUENCES, LENGTH, generator=random) ** 2 * (N - 3)).long()
        self.lengths = torch.randint(4, LENGTH + 1, (SEQUENCES,), generator=random)
        self.first, self.last = first, last

    def __len__(self) -> int:
        return self.last - self.first

    def __getitem__(self, number: int) -> dict[str, torch.Tensor]:
        ids, length = self.ids[self.first + number], self.lengths[self.first + number]
        is_text = torch.arange(LENGTH) < length
        return {
            "input_ids": ids.where(is_text, PAD), "attention_mask": is_text.long(), "labels": ids.where(is_text, -100)
        }  # fmt: skip


def batch(update: int) -> dict[str, torch.Tensor]:
    """The sequences of an update of the Trainer."""
    text = Sentences()
    rows = [text[(16 * update + number) % SEQUENCES] for number in range(16)]
    return {key: torch.stack([row[key] for row in rows]) for key in rows[0]}


def known(**changes: Any) -> Any:
    labels = torch.stack([row["labels"] for row in Sentences()])
    counts = torch.bincount(labels[labels >= 0], minlength=N)
    return facts(counts, **{"width": D, "steps_per_epoch": 3, "specials": 3, **changes})


def objective(name: str, **changes: Any) -> Objective:
    torch.manual_seed(1)
    return build(name, known(**changes), **OPTIONS.get(name, {}))


class InOrder:
    """Of the text, so that other loops see the same updates."""

    def _get_train_sampler(self, *_arguments: Any) -> SequentialSampler:
        return SequentialSampler(self.train_dataset)


class Ours(InOrder, ObjectiveTrainer):
    pass


class Theirs(InOrder, transformers.Trainer):
    pass


def trainer(folder: Path | str, kind: str, name: str | None, micro_batches: int = 1, *, processes: int = 1,
            dtype: torch.dtype = torch.float32, sgd: float = 0.0, facts: dict | None = None, ours: type = Ours,
            **settings: Any) -> Any:  # fmt: skip
    """Six updates of 16 sequences, evaluated on 15; name: of an objective, None: transformers' own."""
    made = model(kind, dtype)
    arguments = {
        "max_steps": 6, "per_device_train_batch_size": 16 // micro_batches // processes, "per_device_eval_batch_size": 4,
        "gradient_accumulation_steps": micro_batches, "learning_rate": 0.01, "weight_decay": 0.1, "logging_steps": 1,
        "save_strategy": "no", "report_to": [], "use_cpu": True, "disable_tqdm": True, "seed": 5, "max_grad_norm": 1.0,
    }  # fmt: skip
    own = {"objective": objective(name, **(facts or {}))} if name else {}
    if sgd:
        optimizer = torch.optim.SGD(made.parameters(), lr=sgd)
        own["optimizers"] = optimizer, torch.optim.lr_scheduler.ConstantLR(optimizer, 1.0)
    own |= {key: settings.pop(key) for key in ("compute_loss_func", "compute_metrics") if key in settings}
    return (ours if name else Theirs)(
        made, transformers.TrainingArguments(str(folder), **{**arguments, **settings}),
        train_dataset=Sentences(), eval_dataset=Sentences(0, 15), **own,
    )  # fmt: skip


def losses(trained: Any) -> list[float]:
    return [row["loss"] for row in trained.state.log_history if "loss" in row]


def weights(trained: Any) -> dict[str, torch.Tensor]:
    return {name: value.detach().clone() for name, value in trained.model.named_parameters()}


def main(folder: str, *names: str) -> None:
    torch.set_num_threads(1)
    for name in names:
        trained = trainer(Path(folder) / "scratch", "gpt2", name, micro_batches=2, processes=2)
        trained.train()
        found = trained.evaluate()
        if trained.is_world_process_zero():
            torch.save({"losses": losses(trained), "metrics": found, "weights": weights(trained)}, f"{folder}/{name}.pt")
    served.end()


if __name__ == "__main__":
    main(*sys.argv[1:])
