"""The Trainer of transformers with objectives where FSDP2 shards the model: two processes equal one."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

pytest.importorskip("transformers", reason="optional: pip install transformers accelerate")

from tiny import fine_tuning as tiny  # noqa: E402
from tiny import served, sharded_tuning  # noqa: E402
from torch.distributed.fsdp import CPUOffloadPolicy, OffloadPolicy  # noqa: E402
from torch.distributed.fsdp.wrap import size_based_auto_wrap_policy  # noqa: E402
from transformers import AutoModelForCausalLM  # noqa: E402

from raretokens import UserError  # noqa: E402
from raretokens.objectives.registry import known  # noqa: E402
from raretokens.transformers.sharded_embeddings import check_fsdp  # noqa: E402

HERE = Path(__file__).parent
WHOLE = {"adversarial", "soft_cap", "tied_gradient"}  # their loss needs the whole matrix
SHARES, FILE = "SHARDED_STATE_DICT", "FULL_STATE_DICT"  # a checkpoint of each process' share, or one file
OTHERS = [("marian", "agg", FILE), ("t5", "coupled_adam", SHARES), ("gemma2", "ember", FILE), ("cohere", "frage", SHARES)]
CASES = {
    "tied": [*(("gpt2", name, SHARES) for name in known()), *OTHERS],
    "untied": [*(("llama", name, FILE) for name in known()), ("gptj", "frage", SHARES)],
}
MIXED = {"tied": ["gpt2", "marian"], "untied": ["llama"]}  # also in bfloat16


@pytest.mark.slow
@pytest.mark.parametrize("kind", CASES)
def test_sharded_trainings_equal_one_process(tmp_path, other_accelerator, kind):
    """With micro-batches, clipping and a resumption, in float64. FRAGE's discriminator is in float32."""
    environment = {"PYTHONPATH": f"{HERE.parent / 'src'}:{HERE}", "OMP_NUM_THREADS": "1", "PATH": "/usr/bin:/bin"}
    cases, mixed = [*map("-".join, CASES[kind])], {model: f"{model}-agg-{FILE}-bf16" for model in MIXED[kind]}
    served.on_two_processes(environment, "tiny.sharded_tuning", str(tmp_path), *cases, *mixed.values(), limit=4 * served.LIMIT)
    for model, name, stored in CASES[kind]:
        alone, place = sharded_tuning.trainer(tmp_path / "alone", model, name), tmp_path / f"{model}-{name}-{stored}"
        alone.train()
        expected, both = sharded_tuning.found(alone), torch.load(f"{place}.pt")
        assert both["losses"] == pytest.approx(expected["losses"], rel=1e-6), place
        assert both["metrics"] == pytest.approx(expected["metrics"], rel=1e-6), place
        assert str(both["objective"]) == str(expected["objective"]), place
        for key, weight in expected["weights"].items():
            what = f"{place} {key}"
            torch.testing.assert_close(both["weights"][key], weight, atol=1e-7, rtol=1e-6, msg=lambda text, of=what: of + text)
        assert max(both["sizes"]) == tiny.N // 2 * tiny.D, place  # rows and moments that a process holds
        assert both["gathered"] == 0 or kind == "tied" or name in WHOLE, place  # tied: gathered to look up the inputs
        if name == "agg" and model in mixed:
            assert torch.load(tmp_path / f"{mixed[model]}.pt")["losses"] == pytest.approx(expected["losses"], rel=0.02)
        if kind == "untied" and stored == FILE:
            saved = AutoModelForCausalLM.from_pretrained(place / f"checkpoint-{sharded_tuning.STEPS}", dtype=torch.float64)
            assert all(torch.equal(value, both["weights"][key]) for key, value in saved.named_parameters())


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"fsdp_version": 1}, "fsdp_config version is not allowed with an objective: should be 2"),
        ({"cpu_offload": CPUOffloadPolicy()}, "fsdp_config cpu_offload is not allowed with an objective: should be false"),
        ({"cpu_ram_efficient_loading": True}, "fsdp_config cpu_ram_efficient_loading is not allowed"),
        ({"auto_wrap_policy": size_based_auto_wrap_policy}, "fsdp_config auto_wrap_policy is not allowed"),
        ({"activation_checkpointing": True}, "fsdp_config activation_checkpointing is not allowed .* false with NO_WRAP"),
        ({"parallelism_config": {}}, "^parallelism_config is not allowed with an objective: should be none"),
        ({"ignored_modules": []}, "fsdp_config ignored_modules is not allowed"),
        ({"mixed_precision": "fp16"}, "fp16 is not allowed with an objective and FSDP: should be bf16, or float32"),
        ({"peft_config": {}}, "PEFT is not allowed with an objective and FSDP"),
    ],
)
def test_settings_of_fsdp_without_sharded_rows_are_refused(changed, message):
    allowed = {"fsdp_version": 2, "cpu_offload": OffloadPolicy(), "cpu_ram_efficient_loading": False, "ignored_modules": None,
               "auto_wrap_policy": None, "activation_checkpointing": False}  # fmt: skip
    plugin = SimpleNamespace(**{**allowed, **changed})
    accelerator = SimpleNamespace(
        state=SimpleNamespace(fsdp_plugin=plugin), mixed_precision=changed.get("mixed_precision", "no"),
        parallelism_config=changed.get("parallelism_config"),
    )  # fmt: skip
    model = torch.nn.Linear(1, 1)
    if "peft_config" in changed:
        model.peft_config = changed["peft_config"]
    with pytest.raises(UserError, match=message):
        check_fsdp(accelerator, model)
