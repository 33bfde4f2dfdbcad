"""AGG with the Trainer of the transformers library: a small, randomly initialised GPT-2 on lines of text.

python examples/transformers_trainer.py FILE     # needs `pip install transformers`
"""

import sys
import tempfile
from pathlib import Path

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

from raretokens import Objective, build, facts, target_counts

LENGTH, IGNORED = 32, -100


class ObjectiveTrainer(Trainer):
    """A Trainer whose loss is an objective of raretokens, on the last hidden states and the tied table.

    The counts of an update are those of all its micro-batches, which `get_batch_samples` draws together.
    """

    def __init__(self, *arguments, objective: Objective, **settings) -> None:
        super().__init__(*arguments, **settings)
        self.objective = objective

    def get_batch_samples(self, *arguments, **settings):
        batches, items = super().get_batch_samples(*arguments, **settings)
        targets = [batch["input_ids"][:, 1:] for batch in batches]
        if targets:
            counts = target_counts(targets, self.model.config.vocab_size, IGNORED)
            self.objective.begin_update(counts.to(self.model.device))
            self.targets = int(counts.sum())
        return batches, items

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        ids, table = inputs["input_ids"], model.get_output_embeddings().weight
        hidden = model.transformer(ids).last_hidden_state[:, :-1]
        loss, _ = self.objective.loss(hidden, table, ids[:, 1:])
        loss = loss / self.targets
        penalty = self.objective.penalty(table)
        if penalty is not None:
            loss = loss + penalty / self.args.gradient_accumulation_steps
        return (loss, hidden) if return_outputs else loss


def main(file: str, updates: int = 20) -> list[float]:
    torch.manual_seed(0)
    words = Path(file).read_text(encoding="utf-8").split()
    vocabulary = {word: number for number, word in enumerate(dict.fromkeys(words))}
    text = torch.tensor([vocabulary[word] for word in words])
    blocks = text[: len(text) // LENGTH * LENGTH].view(-1, LENGTH)
    model = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=len(vocabulary),
            n_positions=LENGTH,
            n_embd=64,
            n_layer=2,
            n_head=4,
            bos_token_id=0,
            eos_token_id=0,
        )
    )
    counts = torch.bincount(text, minlength=len(vocabulary))
    objective = build("agg", facts(counts, width=64, updates_per_epoch=max(len(blocks) // 16, 1)), alpha=0.05)
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder, max_steps=updates, per_device_train_batch_size=8, gradient_accumulation_steps=2, learning_rate=3e-3,
            logging_steps=1, save_strategy="no", report_to=[], use_cpu=not torch.cuda.is_available(), disable_tqdm=True,
            remove_unused_columns=False,
        )  # fmt: skip
        trainer = ObjectiveTrainer(
            model, arguments, train_dataset=[{"input_ids": row} for row in blocks], objective=objective
        )
        trainer.train()
        return [row["loss"] for row in trainer.state.log_history if "loss" in row]


if __name__ == "__main__":
    print(main(sys.argv[1]))
