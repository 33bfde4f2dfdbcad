"""AGG with the Trainer of the transformers library: a small, randomly initialised GPT-2 on lines of text.

python docs/examples/transformers_trainer.py FILE     # needs `pip install transformers accelerate`
"""

import sys
import tempfile
from pathlib import Path

import torch
from transformers import GPT2Config, GPT2LMHeadModel, TrainingArguments

from raretokens import alpha_for, build, facts_of_text
from raretokens.transformers import ObjectiveTrainer

LENGTH, BATCH, ACCUMULATION, WIDTH = 32, 8, 2, 64


def main(file: str, steps: int = 20) -> list[float]:
    torch.manual_seed(0)
    lines = Path(file).read_text(encoding="utf-8").splitlines()
    vocabulary = {word: number for number, word in enumerate(dict.fromkeys(" ".join(lines).split()))}
    size = len(vocabulary)

    def tokenizer(line: str) -> list[int]:
        return [vocabulary[word] for word in line.split()]

    text = torch.tensor([number for line in lines for number in tokenizer(line)])
    blocks = [{"input_ids": block, "labels": block} for block in text[: len(text) // LENGTH * LENGTH].view(-1, LENGTH)]
    shape = {"vocab_size": size, "n_positions": LENGTH, "n_embd": WIDTH, "n_layer": 2, "n_head": 4}
    model = GPT2LMHeadModel(GPT2Config(**shape, bos_token_id=None, eos_token_id=None))
    known = facts_of_text(
        tokenizer, lines, rows=size, width=WIDTH, tokens_per_step=ACCUMULATION * BATCH * (LENGTH - 1)
    )
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder, max_steps=steps, per_device_train_batch_size=BATCH, gradient_accumulation_steps=ACCUMULATION,
            learning_rate=3e-3, logging_steps=1, report_to=[], use_cpu=not torch.cuda.is_available(), disable_tqdm=True,
        )  # fmt: skip
        trainer = ObjectiveTrainer(
            model,
            arguments,
            train_dataset=blocks[:-16],
            eval_dataset=blocks[-16:],
            objective=build("agg", known, alpha=alpha_for(known)),
        )
        trainer.train()
        print({name: value for name, value in trainer.evaluate().items() if "loss" in name or "ppl" in name})
        return [row["loss"] for row in trainer.state.log_history if "loss" in row]


if __name__ == "__main__":
    print(main(sys.argv[1]))
