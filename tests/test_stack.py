"""The objectives beside TRL, Muon, torchrun and FSDP2: the scripts of docs/stack.md."""

import subprocess
import sys
from pathlib import Path
from runpy import run_path

import pytest
import torch

from raretokens.errors import UserError

ROOT = Path(__file__).parents[1]


def script(name: str) -> dict:
    return run_path(str(ROOT / f"docs/examples/stack/{name}.py"))


@pytest.fixture
def trl_sft(monkeypatch, other_accelerator) -> dict:
    pytest.importorskip("transformers", reason="optional: pip install '.[transformers]'")
    pytest.importorskip("trl", reason="optional: pip install trl")
    monkeypatch.setattr("trl.trainer.base_trainer.send_telemetry", lambda *_, **__: None)
    return script("trl_sft")


@pytest.fixture
def lines() -> list[str]:
    from tiny.world import lines

    return lines(200, 1)[0]


def weights(trainer) -> dict[str, torch.Tensor]:
    return {name: weight.detach() for name, weight in trainer.model.named_parameters()}


@pytest.mark.parametrize("packing", [False, True])
def test_likelihood_equals_that_of_trl(trl_sft, lines, tmp_path, packing):
    """With accumulation, lines of different lengths, and lines packed into one sequence."""
    settings = {"max_steps": 4, "bf16": False, "packing": packing, "max_length": 32}
    settings |= {"adam_epsilon": 1e-6}  # AdamW would magnify the rounding of gradients near 0
    settings |= {"per_device_train_batch_size": 2} if packing else {}
    ours, theirs = (trl_sft["trainer_of"](lines, name, str(tmp_path), **settings) for name in ("mle", None))
    for trainer in (ours, theirs):
        trainer.train()
    for name, weight in weights(theirs).items():
        torch.testing.assert_close(weights(ours)[name], weight, atol=1e-6, rtol=0)
    own, other = (trainer.evaluate()["eval_loss"] for trainer in (ours, theirs))
    assert own == pytest.approx(other, abs=1e-5)


def test_agg_gates_rare_rows_in_trl_and_never_holds_all_logits(trl_sft, lines, tmp_path):
    trainer, likelihood = (
        trl_sft["trainer_of"](lines, name, str(tmp_path), max_steps=3, bf16=False) for name in ("agg", "mle")
    )
    shapes = []
    trainer.model.lm_head.register_forward_hook(lambda _module, _given, logits: shapes.append(logits.shape[1]))
    trainer.train()
    likelihood.train()
    objective = trainer.loop.objective
    assert objective.step == 3 and objective.rare.any() and (objective.towards_nonrare[objective.rare] < 1).any()
    assert not torch.equal(weights(trainer)["lm_head.weight"], weights(likelihood)["lm_head.weight"])
    of_trial, of_steps = shapes[:2], shapes[2:]
    assert len(of_trial) == 2 and of_steps == [1] * (3 * 2)  # two tries of two sequences, then a position per micro-batch


def test_another_loss_of_trl_is_refused(trl_sft, lines, tmp_path):
    with pytest.raises(UserError, match="^loss_type is not allowed with an objective: should be nll"):
        trl_sft["trainer_of"](lines, "mle", str(tmp_path), loss_type="dft")


def test_the_script_of_trl_trains(trl_sft, lines, tmp_path):
    (tmp_path / "text").write_text("\n".join(lines))
    losses = trl_sft["main"](str(tmp_path / "text"))
    assert losses[-1] < losses[0] - 0.5


@pytest.mark.parametrize("name", ["agg", "freeze", "mu_centering", "coupled_adam"])
def test_muon_trains_hidden_matrices_and_the_objective_s_optimizer_the_rest(name):
    main = script("muon")["main"]
    _, start, before, _ = main(name, 0)
    history, model, loop, (muon, own) = main(name, 12)
    assert history[-1] < history[0] - 0.5
    hidden = {weight for group in muon.param_groups for weight in group["params"]}
    others = {weight for group in own.param_groups for weight in group["params"]}
    assert isinstance(muon, torch.optim.Muon) and not hidden & others
    assert hidden | others == {*model.parameters(), loop.embedding} and loop.embedding in others
    for weight, old in zip(model.parameters(), start.parameters(), strict=True):
        assert (weight in hidden) == (weight.dim() == 2) and not torch.equal(weight, old)
    assert all("momentum_buffer" in muon.state[weight] for weight in hidden)
    assert (own.state[loop.embedding]["exp_avg"] != 0).any()
    rare = loop.objective.facts.rare
    assert not torch.equal(loop.embedding[~rare], before.embedding[~rare])
    assert torch.equal(loop.embedding[rare], before.embedding[rare]) == (name == "freeze")
    if name == "mu_centering":
        assert loop.embedding.mean(0).abs().max() < 1e-6 < before.embedding.mean(0).abs().max()


def torchrun(name: str, *words: str) -> None:
    """Run a script on two processes."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command = [*launcher, str(ROOT / f"docs/examples/stack/{name}.py"), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


def test_torchrun_on_two_processes_trains_as_one_process_does(tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    script("ddp")["main"]("agg", str(tmp_path / "alone"))
    torchrun("ddp", "agg", str(tmp_path / "both"))
    alone, both = (torch.load(tmp_path / name, weights_only=True) for name in ("alone", "both"))
    assert torch.equal(alone["objective"]["appearances"], both["objective"]["appearances"])  # counts of both processes
    for name, weight in alone["model"].items():
        torch.testing.assert_close(both["model"][name], weight, atol=1e-4, rtol=0)


def test_a_sharded_training_goes_on_from_the_checkpoint_of_one_process_and_back(tmp_path, monkeypatch):
    """With agg, whose gates depend on the counts of all steps and processes. The weights are those of one process."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    main, place = script("fsdp")["main"], str(tmp_path)
    alone = main("agg", None, 8)
    main("agg", place, 4)
    torchrun("fsdp", "agg", place, "8")
    assert {path.name for path in (tmp_path / "000008").iterdir()} >= {"__0_0.distcp", "__1_0.distcp"}
    resumed = main("agg", place, 8)  # loads the last step, and takes none
    for name, weight in alone[0].state_dict().items():
        torch.testing.assert_close(resumed[0].state_dict()[name], weight, atol=1e-5, rtol=0)
    (objective, other) = (loop.objective for _, loop in (alone, resumed))
    assert torch.equal(objective.appearances, other.appearances) and objective.step == other.step == 8
