"""Do the verdicts on language-model claims depend on the seed? Every run anew with each seed, its claims judged alone.

    python benchmarks/seeds.py [--seeds 1,2,3] [--runs mle,agg] [--out benchmarks/claims-by-seed.csv]

Run from the folder of a scale whose token files exist (`dvc repro encode prepare`). Scratch folders hold a scale each; a run
that has been scored there is not run again.
"""

import argparse
import csv
import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import yaml

SCRATCH = Path("data/scratch/seeds")


def scale(seed: int, runs: list[str]) -> Path:
    """A scale of its own: the same token files, one seed, no repetitions, no translation."""
    folder = SCRATCH / str(seed)
    (folder / "data").mkdir(parents=True, exist_ok=True)
    for part in ("tokens", "corpus"):
        link = folder / "data" / part
        if not link.is_symlink():
            link.symlink_to(Path("data", part).resolve())
    tree = yaml.safe_load(Path("params.yaml").read_text(encoding="utf-8"))
    lines = {name: line for name, line in tree["runs"]["lm"].items() if "seed" not in line}
    lines = {name: lines[name] for name in runs or lines}
    tree |= {"root": os.path.relpath(Path(tree["root"]).resolve(), folder), "seed": seed}
    tree["runs"] = {"lm": lines, "nmt": {}}
    (folder / "params.yaml").write_text(yaml.safe_dump(tree, sort_keys=False), encoding="utf-8")
    return folder


def verdicts(seed: int, runs: list[str]) -> dict[str, dict[str, str]]:
    """claim -> its row of claims.csv."""
    folder = scale(seed, runs)
    tree = yaml.safe_load((folder / "params.yaml").read_text(encoding="utf-8"))
    stage = [str((folder / tree["root"]).resolve() / "stages/run"), str(tree["threads"])]
    shutil.copytree("reports/runs", folder / "reports/runs", ignore=_but_data_rows, dirs_exist_ok=True)
    subprocess.run([*stage, "jobs"], cwd=folder, check=True)
    missing = [name for name in tree["runs"]["lm"] if not (folder / f"reports/runs/lm/{name}.json").exists()]
    with ThreadPoolExecutor(max((os.cpu_count() or 1) // tree["threads"], 1)) as pool:
        list(pool.map(lambda name: _run(folder, stage, name), missing))
    subprocess.run([*stage, "report"], cwd=folder, check=True)
    return judged(folder / "reports/claims.csv")


def _run(folder: Path, stage: list[str], name: str) -> None:
    for step in (["train", "lm"], ["probe"], ["score", "lm"]):
        subprocess.run([*stage, *step, name], cwd=folder, check=True)


def judged(path: Path) -> dict[str, dict[str, str]]:
    with open(path, encoding="utf-8", newline="") as file:
        return {row["claim"]: row for row in csv.DictReader(file) if row["verdict"] != "not run"}


def _but_data_rows(folder: str, names: list[str]) -> list[str]:
    return [name for name in names if Path(folder, name).is_file() and Path(name).stem not in ("human", "copy")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--runs", default="", help="of the run sheet; default: all language models")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    seeds = [int(seed) for seed in arguments.seeds.split(",")]
    judgements = {seed: verdicts(seed, [*filter(None, arguments.runs.split(","))]) for seed in seeds}
    reported = judged(Path("reports/claims.csv"))
    rows = [
        {
            "claim": claim,
            "paper": row["paper"],
            "reported": reported[claim]["verdict"],
            **{f"verdict_{seed}": judgements[seed][claim]["verdict"] for seed in seeds},
            **{f"effect_{seed}": judgements[seed][claim]["ours"] for seed in seeds},
            "same": {judgements[seed][claim]["verdict"] for seed in seeds} == {reported[claim]["verdict"]},
        }
        for claim, row in judgements[seeds[0]].items()
        if claim in reported and row["runs"] not in ("human", "copy", "")
    ]
    print(
        f"{sum(row['same'] for row in rows)} of {len(rows)} verdicts with seeds {arguments.seeds} are those of the reports"
    )
    if arguments.out:
        with open(arguments.out, "w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
