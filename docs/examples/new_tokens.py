"""Add two tokens to a model and train their rows alone: all other rows of both embeddings stay as they are, to the bit.

python docs/examples/new_tokens.py     # needs `pip install transformers accelerate`
"""

import tempfile

import torch
from transformers import LlamaConfig, LlamaForCausalLM, TrainingArguments

from raretokens import train_only_rows
from raretokens.transformers import ObjectiveTrainer

SIZE, LENGTH, NEW = 100, 16, [100, 101]  # tokens of the model, tokens of a sequence, ids of the new tokens


def main(steps: int = 20) -> tuple[float, float]:
    """Return the largest change of the old rows and of the new rows."""
    torch.manual_seed(0)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=SIZE, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
            max_position_embeddings=LENGTH, tie_word_embeddings=False,
        )
    )  # fmt: skip
    model.resize_token_embeddings(SIZE + len(NEW), mean_resizing=False)
    for parameter in model.parameters():  # the rest of the model may train as well: leave this out
        parameter.requires_grad_(False)
    embeddings = [model.get_input_embeddings().weight, model.get_output_embeddings().weight]
    before = [embedding.requires_grad_(True).detach().clone() for embedding in embeddings]
    text = torch.randint(SIZE + len(NEW), (64, LENGTH))
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder, max_steps=steps, per_device_train_batch_size=8, learning_rate=1e-2, weight_decay=0.1, report_to=[],
            use_cpu=not torch.cuda.is_available(), disable_tqdm=True, save_strategy="no",
        )  # fmt: skip
        ObjectiveTrainer(
            model,
            arguments,
            train_dataset=[{"input_ids": row, "labels": row} for row in text],
            objective=train_only_rows(embeddings[1], NEW),
        ).train()
    changes = [(after.detach().cpu() - old.cpu()).abs() for old, after in zip(before, embeddings, strict=True)]
    return max(float(one[:SIZE].max()) for one in changes), min(float(one[SIZE:].max()) for one in changes)


if __name__ == "__main__":
    print("largest change of the old rows {}, of the new rows {:.3f}".format(*main()))
