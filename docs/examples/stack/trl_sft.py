"""AGG with the SFTTrainer of TRL: a small, randomly initialised Llama on lines of text.

python docs/examples/stack/trl_sft.py FILE [objective]     # needs `pip install '.[transformers]' trl`
"""

import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import SFTConfig, SFTTrainer

from raretokens import alpha_for, build, facts_of_text
from raretokens.transformers import ObjectiveTrainer

BATCH, ACCUMULATION, WIDTH, TOKENS = 8, 2, 64, 7  # TOKENS: of a line with its end, on average


class ObjectiveSFTTrainer(ObjectiveTrainer, SFTTrainer):  # in this order
    """The data preparation of SFTTrainer, and the loss of an objective."""


def word_tokenizer(lines: list[str]) -> PreTrainedTokenizerFast:
    """Return a tokenizer of the words in `lines`. Take that of your model instead."""
    names = ["<pad>", "<unk>", "</s>", *dict.fromkeys(" ".join(lines).split())]
    words = Tokenizer(models.WordLevel({name: number for number, name in enumerate(names)}, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>", unk_token="<unk>", eos_token="</s>")


def trainer_of(lines: list[str], name: str | None, folder: str, **settings: Any) -> SFTTrainer:
    """Return a trainer with an objective, or that of TRL if `name` is None."""
    torch.manual_seed(0)
    tokenizer = word_tokenizer(lines)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer), hidden_size=WIDTH, intermediate_size=2 * WIDTH, num_hidden_layers=2,
            num_attention_heads=4, pad_token_id=0, eos_token_id=2, bos_token_id=None,
        )
    )  # fmt: skip
    arguments = {
        "max_steps": 20, "per_device_train_batch_size": BATCH, "gradient_accumulation_steps": ACCUMULATION,
        "learning_rate": 3e-3, "logging_steps": 1, "report_to": [], "use_cpu": not torch.cuda.is_available(),
        "disable_tqdm": True, "save_strategy": "no",
    }  # fmt: skip
    common = {"args": SFTConfig(folder, **arguments | settings), "processing_class": tokenizer}
    common |= {
        "train_dataset": Dataset.from_dict({"text": lines[16:]}),
        "eval_dataset": Dataset.from_dict({"text": lines[:16]}),
    }
    if name is None:
        return SFTTrainer(model, **common)
    # SFTTrainer appends the end of text to each line, so the line end counts as well.
    known = facts_of_text(
        tokenizer, lines[16:], line_end=tokenizer.eos_token, rows=len(tokenizer), width=WIDTH,
        tokens_per_step=BATCH * ACCUMULATION * TOKENS,
    )  # fmt: skip
    options = {"alpha": alpha_for(known)} if name == "agg" else {}
    return ObjectiveSFTTrainer(model, **common, objective=build(name, known, **options))


def main(file: str, name: str = "agg") -> list[float]:
    lines = Path(file).read_text(encoding="utf-8").splitlines()
    with tempfile.TemporaryDirectory() as folder:
        trainer = trainer_of(lines, name, folder)
        trainer.train()
        print({name: value for name, value in trainer.evaluate().items() if "loss" in name or "ppl" in name})
        return [row["loss"] for row in trainer.state.log_history if "loss" in row]


if __name__ == "__main__":
    print(main(*sys.argv[1:]))
