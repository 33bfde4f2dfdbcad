"""Test perplexity of a scale's likelihood beside other people's model and loop: GPT-2 and the Trainer of transformers.

    OMP_NUM_THREADS=1 python benchmarks/quality.py small/lm/small [--seed 1] [--out benchmarks/quality-cpu.csv]

The same subword tokens, layers, width, heads, dropout, tokens per step, peak learning rate and schedule; GPT-2's own start,
activation and learnt positions, the Trainer's own AdamW and clipping. The last weights are measured, as our runs are: windows
of the text with so much context. Ours is the committed score of the run `mle` of that seed, so only the peer is trained here.
"""

import argparse
import json
import math
import platform
import tempfile
from pathlib import Path

import numpy as np
import torch
from records import keep
from torch.nn import functional as F
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments
from workload import ROOT, Workload

from raretokens.vocabulary import EOS
from reproduction.corpora.tokenization import token_files as streams

KEY = ("size", "seed", "engine")
AT_ONCE = 64  # windows


def trained(work: Workload, text: np.ndarray, seed: int) -> GPT2LMHeadModel:
    """A GPT-2 of the size after as many updates, on blocks of the text."""
    training, shape = work.training, work.shape
    torch.manual_seed(seed)
    blocks = torch.from_numpy(text[: len(text) // training.block * training.block].astype(np.int64)).view(
        -1, training.block
    )
    model = GPT2LMHeadModel(GPT2Config(
        vocab_size=work.vocabulary, n_positions=training.block, n_embd=shape["width"], n_layer=shape["layers"],
        n_head=shape["heads"], n_inner=shape["feedforward"], resid_pdrop=shape["dropout"], embd_pdrop=shape["dropout"],
        attn_pdrop=shape["attention_dropout"], bos_token_id=EOS, eos_token_id=EOS,
    ))  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        Trainer(model, TrainingArguments(
            folder, max_steps=training.steps, per_device_train_batch_size=training.tokens_per_step // training.block,
            learning_rate=training.peak_lr, lr_scheduler_type="inverse_sqrt", warmup_steps=training.warmup,
            adam_beta1=training.betas[0], adam_beta2=training.betas[1], weight_decay=training.weight_decay, seed=seed,
            bf16=training.precision == "bfloat16", use_cpu=not torch.cuda.is_available(), save_strategy="no", report_to=[],
            logging_steps=100, disable_tqdm=True,
        ), train_dataset=[{"input_ids": block, "labels": block} for block in blocks]).train()  # fmt: skip
    return model.eval()


@torch.inference_mode()
def perplexity(model: GPT2LMHeadModel, text: np.ndarray, window: int, context: int) -> float:
    """Of each piece with at least `context` pieces before it in its window, or all that there are; the text begins after EOS."""
    ids, step, nll = torch.from_numpy(np.concatenate(([EOS], text)).astype(np.int64)), window - context, 0.0
    starts = range(0, len(text) - context, step)
    for first in range(0, len(starts), AT_ONCE):
        for length, group in _of_one_length(
            [ids[start : start + window + 1] for start in starts[first : first + AT_ONCE]]
        ):
            logits = model(group[:, :-1]).logits
            losses = F.cross_entropy(logits.flatten(0, 1), group[:, 1:].flatten(), reduction="none").view(
                -1, length - 1
            )
            known = torch.full((len(group),), context)
            known[0] = 0 if first == 0 and length == window + 1 else context
            nll += sum(float(loss[start:].double().sum()) for loss, start in zip(losses, known.tolist(), strict=True))
    return math.exp(nll / len(text))


def _of_one_length(windows: list[torch.Tensor]) -> list[tuple[int, torch.Tensor]]:
    lengths = dict.fromkeys(map(len, windows))
    return [(length, torch.stack([window for window in windows if len(window) == length])) for length in lengths]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("size", help="SCALE/TASK/SIZE of a language model")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    scale = asked.size.split("/")[0]
    place = ROOT if scale == "demo" else ROOT / "scales" / scale
    work, tokens = Workload.named(asked.size), place / "data/tokens/lm"
    name = "mle" if asked.seed == 1 else f"mle-{asked.seed}"
    score = json.loads((place / f"reports/runs/lm/{name}.json").read_text(encoding="utf-8"))
    signature = dict(part.split(":") for part in dict(score["signatures"])["ppl"].split("|"))
    window, context = int(signature["window"]), int(signature["context"])
    model = trained(work, streams.tokens(tokens, "train"), asked.seed)
    found = perplexity(model, streams.tokens(tokens, "test"), window, context)
    ours = score["metrics"]["ppl"]["total"]
    machine = f"{platform.machine()}, {torch.get_num_threads()} thread(s)"
    rows = [{"size": asked.size, "seed": asked.seed, "engine": engine, "updates": work.training.steps,
             "parameters": parameters, "ppl": f"{ppl:.2f}", "to_ours": f"{ppl / ours:.3f}", "machine": machine}
            for engine, parameters, ppl in (("transformers", model.num_parameters(), found), ("ours", "", ours))]  # fmt: skip
    print(*rows, sep="\n")
    if asked.out:
        keep(rows, asked.out, KEY)


if __name__ == "__main__":
    main()
