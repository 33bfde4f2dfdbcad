"""The commands of `python -m reproduction`."""

import argparse

from raretokens.cli import Program

PLAN, OWN, SCALE = (f"reproduction.commands.{name}" for name in ("plan_commands", "own_scale", "scale_commands"))
REPRODUCTION = Program(
    "python -m reproduction",
    "Plan, run, check and export the runs of a clone, in the folder of a scale.",
    {
        "to plan and to run": {
            "own": (f"{OWN}:write_own_scale", "Write a scale for your own text, with runs of mle, agg, freeze and ember"),
            "plan": (f"{PLAN}:show_plan", "Estimate parameters, tokens, FLOPs, hours, memory and disk of every run"),
            "check": (f"{PLAN}:try_runs", "Try a few training steps and an evaluation of each run at full size"),
            "alpha": (f"{PLAN}:show_alpha", "Print the types and target tokens that each alpha of AGG makes rare"),
            "stages": (f"{SCALE}:show_stages", "Print the stages of dvc.yaml, a line for all runs of each"),
            "runs": (f"{SCALE}:show_runs", "Print the DVC targets of each run, a line for each run"),
            "cluster": (f"{SCALE}:submit", "Submit the scale to Slurm: what runs share, an array of runs, reports"),
        },
        "for the reports": {
            "summary": (f"{SCALE}:show_summary", "Print the findings, the number of tables, and where the pages are"),
            "table": (f"{SCALE}:show_table", "Write one report table and print it"),
            "needs": (f"{SCALE}:show_needs", "Print the DVC targets that a table needs"),
            "plots": (f"{SCALE}:draw_plots", "Draw the curves of all runs on a page, or compare them between git revisions"),
            "diff": (f"{SCALE}:show_diff", "Compare the reports with a git revision; exit 1 if a cell moved too far"),
            "verify": (f"{SCALE}:show_verification", "Check that code and parameters made the reports; exit 1 if not"),
            "adopt": (f"{SCALE}:adopt_code", "Accept changed code that is shown to do the same; exit 1 if not"),
            "trained": (f"{SCALE}:write_trained", "Write hours, machine and weights of each run to trained.csv"),
            "readme": (f"{SCALE}:refresh", "Update the pages of docs from the reports; --check: exit 1 if one is old"),
        },
        "for trained runs": {
            "export": (f"{SCALE}:export", "Export a trained run to transformers or CTranslate2"),
        },
    },
    lambda command, library: f"pip install '.[{'site' if library == 'vl_convert' else 'pipeline'}]' in the clone",
)


def parser() -> argparse.ArgumentParser:
    """Return the parser of all commands with all arguments, for the documentation."""
    return REPRODUCTION.parser(REPRODUCTION.commands)


def main() -> None:
    """Run `python -m reproduction COMMAND`."""
    REPRODUCTION.run()
