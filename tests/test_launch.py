"""What machine.yaml says: a run over several processes through torch's launcher, and mistakes in one line."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from tiny import world

from raretokens.errors import UserError
from reproduction.pipeline import full_size, settings

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The tiny world with token files, from which the stages before training are not needed."""
    path = world.create(tmp_path_factory.mktemp("launch"))
    parameters = path / "params.yaml"  # without dropout: each process draws masks of its own
    parameters.write_text(re.sub(r"dropout: 0\.1", "dropout: 0.0", parameters.read_text()))
    world.run(path, "stages/run", "1", "jobs")
    full_size.write_random_tokens(path / "data/tokens/lm", 40, {"train": 2500, "valid": 500})
    return path


def train(folder: Path, machine: str) -> subprocess.CompletedProcess[str]:
    file = folder / "data/scratch/machine.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(machine)
    return world.run(folder, "stages/run", "1", "train", "lm", "agg", check=False)


def losses(folder: Path) -> np.ndarray:
    rows = [line.split("\t") for line in (folder / "data/runs/lm/agg/log.tsv").read_text().splitlines()]
    return np.array(
        [[float(row[rows[0].index(name)]) for name in ("loss", "nll", "rare_group_size")] for row in rows[1:]]
    )


def test_the_launch_command_starts_a_run_on_two_processes(folder):
    """The same losses as alone; facts about the speed are kept."""
    alone = train(folder, "report_seconds: 0.0\n")
    assert alone.returncode == 0, alone.stderr
    expected = losses(folder)
    both = train(folder, "launch: torchrun --standalone --nproc-per-node 2\nreport_seconds: 0.0\n")
    assert both.returncode == 0, both.stderr
    assert losses(folder) == pytest.approx(expected, rel=1e-4)
    assert both.stdout.count("step 12/12") == 1
    facts = json.loads((folder / "data/scratch/timing/lm-agg.json").read_text())
    assert facts["processes"] == 2 and facts["tokens_per_second"] > 0 and facts["peak_memory_bytes"] > 1e8
    assert not list((folder / "data/scratch/runs").iterdir())


def test_alpha_is_of_every_text_that_is_encoded(folder, tmp_path):
    command = ["python", "-m", "reproduction", "alpha", "--share", "0.2"]
    environment = world.served_environment() | {"PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0 and "lm, steps of 128 tokens (lm, demo)" in done.stdout
    assert done.stderr.startswith("no tokens yet of ") and "encode@nmt" in done.stderr and "encode@lm" not in done.stderr
    shutil.copy(folder / "params.yaml", tmp_path)
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert "encode@lm" in done.stderr


@pytest.mark.parametrize(
    ("machine", "message"),
    [
        ("lunch: torchrun", "lunch: unknown key (value 'torchrun'); the nearest is launch"),
        ("micro_batch: 0", "micro_batch: 0 is not allowed: input should be greater than 0"),
        ("compile: 3", "compile: 3 is not allowed: input should be a valid boolean, or input should be 'auto'"),
        ("launch: [", "not YAML"),
        ("trackers: [wandbb]", "trackers: ['wandbb'] is not allowed: should be names, or options by name; names are aim, "),
        ("trackers: [wandb: {mode: offline}]", "is not allowed: should be names, or options by name"),
        ("trackers: {wandb: offline}", "trackers.wandb: 'offline' is not allowed: input should be a valid dictionary"),
    ],
)
def test_a_mistake_in_the_machine_s_settings_is_one_line(tmp_path, machine, message):
    (tmp_path / "machine.yaml").write_text(machine)
    with pytest.raises(UserError, match="machine.yaml: ") as found:
        settings.read(tmp_path / "machine.yaml")
    assert message in str(found.value) and "\n" not in str(found.value)


def test_a_launch_command_that_cannot_work_is_refused(monkeypatch):
    with pytest.raises(UserError, match="launch: 'no-such-launcher -n 8': no-such-launcher cannot be started"):
        settings.launch("no-such-launcher -n 8")
    monkeypatch.setenv(settings.LAUNCHED, "1")
    with pytest.raises(UserError, match="launch: 'nice' started a process without a rank"):
        settings.launch("nice")
    monkeypatch.setenv("RANK", "0")
    settings.launch("nice")  # what the launcher started trains
