"""Sentences per second of beam search: CTranslate2 as the pipeline calls it, beside transformers' generate() on the same weights.

    OMP_WAIT_POLICY=PASSIVE python benchmarks/decoding.py [--sizes demo,base] [--out benchmarks/decoding-cpu.csv]

`demo`: a trained run of the demo and its test set, so `make demo` first. `base`: 6 + 6 layers of width 512 and 40,624 types,
random weights and sentences; nothing ends there before the longest translation that is allowed. The engines take turns in one
process, with the same beam, length penalty and batches (in source tokens, sorted by length); the best round counts. Ratios
are of the wall clock; cpu_seconds, of all threads, suffer less from other work on the machine. On a GPU transformers also
runs in bfloat16. `same` is the share of sentences with the translation of float32 transformers.
"""

import argparse
import csv
import os
import platform
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from measuring import devices
from safetensors.torch import load_file
from transformers import MarianConfig, MarianMTModel, logging

from raretokens.vocabulary import EOS, PAD, SPECIALS, Vocabulary
from reproduction.corpora.tokenization.token_files import Bitext
from reproduction.tasks.evaluation.job_specs import Decoding
from reproduction.training.example_batches import packed, padded
from reproduction.training.models.encoder_decoder import EncoderDecoder
from reproduction.training.models.registry import build

DECODING = Decoding(beam=4, length_penalty=0.6)
POSITIONS = 512
BASE = (6, 512, 8, 2048, 40624)  # layers, width, heads, feedforward, vocabulary
SENTENCES, LONGEST = {"demo": 300, "base": 48}, {"demo": 128, "base": 32}  # on a CPU, minutes
MEAN_LENGTH = 28  # of random sentences, about that of newstest2014 in pieces
COMPUTE_TYPES = ("float32", "bfloat16", "int8")


def demo(run: Path, tokens: Path, sentences: int) -> tuple[EncoderDecoder, tuple[str, ...], list[list[int]]]:
    pieces, weights = Vocabulary.read(tokens / "vocabulary.tsv").tokens, load_file(run / "model.safetensors")
    feedforward, width = weights["encoder.layers.0.linear1.weight"].shape
    layers = 1 + max(int(name.split(".")[2]) for name in weights if name.startswith("encoder.layers."))
    model = network(layers, width, 4, feedforward, len(pieces))
    model.load_state_dict(weights)
    pairs = Bitext(tokens, "test")
    return model, pieces, [pairs.pair(i)[0].tolist() for i in range(min(sentences, len(pairs)))]


def base(sentences: int, shape: tuple[int, ...] = BASE) -> tuple[EncoderDecoder, tuple[str, ...], list[list[int]]]:
    random = np.random.default_rng(0)
    pieces = (*SPECIALS, *(f"piece{i}" for i in range(shape[-1] - len(SPECIALS))))
    lengths = np.clip(random.poisson(MEAN_LENGTH, sentences), 2, 100)
    return network(*shape), pieces, [[*random.integers(len(SPECIALS), shape[-1], n).tolist(), EOS] for n in lengths]


def network(layers: int, width: int, heads: int, feedforward: int, vocabulary: int) -> EncoderDecoder:
    torch.manual_seed(0)
    shape = {"layers": layers, "width": width, "heads": heads, "feedforward": feedforward, "activation": "relu"}
    shape |= {"dropout": 0.0, "attention_dropout": 0.0}
    return build("encoder_decoder", shape, vocabulary, POSITIONS).eval()


def marian(model: EncoderDecoder) -> MarianMTModel:
    """The same function in transformers: its Marian, with our positions in the place of its own."""
    layer, (vocabulary, width) = model.encoder.layers[0], model.embedding.shape
    layers, heads, feedforward = len(model.encoder.layers), layer.self_attn.num_heads, layer.linear1.out_features
    shape = {f"{side}_layers": layers for side in ("encoder", "decoder")}
    shape |= {f"{side}_attention_heads": heads for side in ("encoder", "decoder")}
    shape |= {f"{side}_ffn_dim": feedforward for side in ("encoder", "decoder")}
    config = MarianConfig(
        vocab_size=vocabulary, d_model=width, max_position_embeddings=POSITIONS, activation_function="relu", **shape,
        scale_embedding=True, pad_token_id=PAD, eos_token_id=EOS, decoder_start_token_id=EOS, forced_eos_token_id=None,
    )  # fmt: skip
    other, state = MarianMTModel(config).eval(), {}
    attention = {"self_attn": "self_attn", "multihead_attn": "encoder_attn"}
    for side, stack in (("encoder", model.encoder), ("decoder", model.decoder)):
        state[f"model.{side}.embed_positions.weight"] = model.positions
        for number, layer in enumerate(stack.layers):
            prefix, last = f"model.{side}.layers.{number}.", "norm2" if side == "encoder" else "norm3"
            norms = {"norm1": "self_attn_layer_norm", "norm2": "encoder_attn_layer_norm", last: "final_layer_norm"}
            parts = {"linear1": "fc1", "linear2": "fc2", **norms}
            for ours, theirs in attention.items():
                if part := getattr(layer, ours, None):
                    state |= projections(part, f"{prefix}{theirs}.")
            for ours, theirs in parts.items():
                state |= {f"{prefix}{theirs}.{key}": value for key, value in getattr(layer, ours).state_dict().items()}
    tables = ("model.shared", "model.encoder.embed_tokens", "model.decoder.embed_tokens", "lm_head")
    state |= {f"{name}.weight": model.embedding.detach() for name in tables}
    other.load_state_dict({**state, "final_logits_bias": torch.zeros(1, vocabulary)})
    return other


def projections(attention: torch.nn.MultiheadAttention, prefix: str) -> dict[str, torch.Tensor]:
    state = {}
    for kind, values in (("weight", attention.in_proj_weight), ("bias", attention.in_proj_bias)):
        state |= {
            f"{prefix}{name}_proj.{kind}": part.detach() for name, part in zip("qkv", values.chunk(3), strict=True)
        }
    return state | {f"{prefix}out_proj.{key}": value for key, value in attention.out_proj.state_dict().items()}


@torch.inference_mode()
def generated(model: MarianMTModel, sources: list[list[int]], longest: int, batch: int) -> list[list[int]]:
    """Translations by transformers; it stops when `beam` of them are finished, as CTranslate2 does."""
    sizes = np.array([len(source) for source in sources])
    best: list[list[int]] = [[] for _ in sources]
    for part in packed(np.argsort(sizes, kind="stable"), sizes, batch):
        inputs = padded([np.array(sources[i]) for i in part]).to(model.device)
        outputs = model.generate(
            inputs, attention_mask=inputs != PAD, num_beams=DECODING.beam, length_penalty=DECODING.length_penalty,
            early_stopping=True, do_sample=False, max_new_tokens=longest, min_new_tokens=1, bad_words_ids=[[PAD]],
            renormalize_logits=True,
        )  # fmt: skip
        for i, row in zip(part, outputs[:, 1:].tolist(), strict=True):
            best[i] = [token for token in row if token not in (EOS, PAD)]
    return best


def compare(size: str, case: tuple, threads: list[int], batch: int, longest: int, rounds: int) -> list[dict]:
    import ctranslate2

    from reproduction.tasks.evaluation.ctranslate2_models import export
    from reproduction.tasks.evaluation.translate import open_translator, search

    (model, pieces, sources), device = case, devices()[0]
    rows_of_pieces, ids = [[pieces[i] for i in source] for source in sources], {p: i for i, p in enumerate(pieces)}
    types = [name for name in COMPUTE_TYPES if name in ctranslate2.get_supported_compute_types(device)]
    library = {"float32": marian(model).to(device)}
    if device == "cuda":
        library["bfloat16"] = marian(model).to(device, torch.bfloat16)
    with tempfile.TemporaryDirectory() as folder:
        begun = time.perf_counter()
        export(model, pieces, "relu", Path(folder))
        exporting = time.perf_counter() - begun
        methods = {("transformers", name, n): None for n in threads for name in library}
        for n in threads:
            methods |= {("CTranslate2", name, n): open_translator(Path(folder), device, name, n) for name in types}
        best, texts = dict.fromkeys(methods, (float("inf"), 0.0)), {}
        for _ in range(rounds):
            for method, translator in methods.items():
                torch.set_num_threads(method[2])
                begun, cpu = time.perf_counter(), time.process_time()
                if translator is None:
                    texts[method] = generated(library[method[1]], sources, longest, batch)
                else:
                    rows = search(translator, rows_of_pieces, DECODING, longest, batch)
                    texts[method] = [[ids[piece] for piece in row] for row in rows]
                best[method] = min(best[method], (time.perf_counter() - begun, time.process_time() - cpu))
    rows = []
    for (engine, compute, n), (seconds, cpu) in best.items():
        reference = ("transformers", "float32", n)
        same = np.mean([a == b for a, b in zip(texts[engine, compute, n], texts[reference], strict=True)])
        row = {"size": size, "sentences": len(sources), "engine": engine, "compute_type": compute, "threads": n}
        row |= {"batch": batch, "seconds": f"{seconds:.2f}", "cpu_seconds": f"{cpu:.2f}"}
        row |= {"sentences_per_second": f"{len(sources) / seconds:.2f}"}
        row |= {"to_transformers": f"{best[reference][0] / seconds:.2f}", "same": f"{same:.4f}"}
        rows.append(row | {"export_seconds": f"{exporting:.2f}" if engine == "CTranslate2" else ""})
        print(rows[-1], flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="demo,base")
    parser.add_argument("--run", type=Path, default=Path("data/runs/nmt/base-mle"))
    parser.add_argument("--tokens", type=Path, default=Path("data/tokens/nmt"))
    parser.add_argument("--sentences", type=int, help=f"default: {SENTENCES}")
    parser.add_argument("--longest", type=int, help=f"pieces of a translation; default: {LONGEST}")
    parser.add_argument("--batch", type=int, help="source tokens; default: 1024, on a GPU 16384")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    logging.set_verbosity_error()
    cuda = devices()[0] == "cuda"
    batch, threads, rows = arguments.batch or (16384 if cuda else 1024), [1], []
    if not cuda:
        threads = [int(n) for n in arguments.threads.split(",")]
    for size in arguments.sizes.split(","):
        count, longest = arguments.sentences or SENTENCES[size], arguments.longest or LONGEST[size]
        case = base(count) if size == "base" else demo(arguments.run, arguments.tokens, count)
        rows += compare(size, case, threads, batch, longest, arguments.rounds)
    if arguments.out:
        machine = torch.cuda.get_device_name() if cuda else f"{platform.machine()}, {os.cpu_count()} CPUs"
        with open(arguments.out, "w", newline="") as file:
            writer = csv.DictWriter(file, [*rows[0], "machine"], lineterminator="\n")
            writer.writeheader()
            writer.writerows({**row, "machine": machine} for row in rows)


if __name__ == "__main__":
    main()
