"""Run a training script, unchanged, and watch it."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import click

from mothtrap.cli._findings import rule_files_option
from mothtrap.cli._group import Refusal
from mothtrap.cli._options import runs_dir_option
from mothtrap.cli._target import TARGET, RunCommand, command_of
from mothtrap.core.run_names import check_name

BEGAN_S = time.time() - time.process_time()
"""Unix time at which this program began; waits for the disk before this line are missing. The age
of the process is no measure: after `exec`, and as the last command of a shell, the program has the
process of the shell, which can be hours old."""


@click.command(cls=RunCommand, name="run")
@runs_dir_option
@click.option("--name", metavar="NAME", help="Name of the run [default: script and time].")
@click.option("--resume", is_flag=True, help="Continue the run --name, if it exists.")
@click.option("--join", is_flag=True, help="Join the run --name that another machine started.")
@click.option(
    "--capture",
    type=click.Choice(["default", "everything", "off"]),
    help="What to capture [default: what the rules need].",
)
@click.option(
    "--overhead",
    metavar="SHARE",
    help="Limit of mothtrap's overhead, as a share of the training time, below 1; 0 = no "
    "limit [default: 0.02, which is 2 %].",
)
@rule_files_option
@click.option(
    "--no-rules",
    is_flag=True,
    help="Only capture; `mothtrap monitor` evaluates the rules and runs the actions.",
)
@click.option("--reference", metavar="RUN", help="A run that this run should reproduce.")
@click.option(
    "--invariants",
    metavar="FILE",
    help="Invariants of healthy runs: a file from `mothtrap learn`, or `pytorch`.",
)
@click.option(
    "--on-nonfinite",
    type=click.Choice(["report", "skip", "stop", "raise"]),
    help="What to do with a step whose loss or gradients are not finite [default: report].",
)
@click.option(
    "--snapshot-at",
    type=int,
    multiple=True,
    metavar="STEP",
    help="Keep a snapshot of this step for `mothtrap replay`; can be repeated.",
)
@click.option(
    "--replay",
    "replay_at_end",
    is_flag=True,
    default=None,
    help="At the end, replay the first bad step; this starts the script a second time.",
)
@click.option(
    "--recheck",
    is_flag=True,
    default=None,
    help="Recompute the first bad step while the job runs, and compare the results bit for bit.",
)
@click.option(
    "--perturb",
    is_flag=True,
    default=None,
    help="Change the initial weights by their rounding error, for `mothtrap diff --perturbed`.",
)
@click.option(
    "--report", metavar="FILE", help="At the end, write a report to this file, e.g. report.html."
)
@click.option(
    "--keep-output",
    "keeps_output",
    is_flag=True,
    help="Keep the end of the output in the run, even if it goes to a terminal or a pipe.",
)
@click.option("--quiet", "-q", is_flag=True, default=None, help="Print only findings.")
@click.pass_context
def command(
    ctx: click.Context,
    /,
    name: str | None,
    resume: bool,
    join: bool,
    report: str | None,
    no_rules: bool,
    keeps_output: bool,
    **overrides: Any,
) -> None:
    """Run a training script, unchanged, and watch it.

    Output, exit code, and signals of the script pass through. Options of mothtrap come before the
    target; everything after it is passed to the script.

    \b
    mothtrap run train.py --epochs 3
    mothtrap run --name lr-3e-4 -m package.train
    mothtrap run -- torchrun --nproc-per-node 2 train.py
    """
    from mothtrap.session.job_process import inherited_descriptors

    descriptors = inherited_descriptors()  # before libraries open others
    if name is not None:
        check_name(name, "--name")
    elif resume or join:
        option, aim = ("--resume", "continue") if resume else ("--join", "join")
        raise Refusal(f"{option} needs the name of the run to {aim}; give it with --name")
    if resume and join:
        raise Refusal(
            "--resume and --join cannot be combined: --resume starts a new attempt of a run, "
            "--join joins the current one"
        )
    arguments = command_of(ctx.meta[TARGET])
    if report is not None:
        from mothtrap.report.formats import form_of

        form_of(report)  # a name without a format is refused before the job
    from mothtrap.core.config import load_config
    from mothtrap.core.working_folder import working_folder
    from mothtrap.session.launch import launch

    for several in ("rule_files", "snapshot_at"):
        overrides[several] = overrides[several] or None  # none: as configured
    overrides["evaluate"] = "monitor" if no_rules else None
    config, warnings = load_config(start=working_folder(), environ=os.environ, overrides=overrides)
    if config.reference:
        from mothtrap.store.find_runs import find_run

        find_run(config.reference, config.runs_dir)  # if there is none, nothing is started
    ctx.exit(
        launch(
            arguments,
            config=config,
            name=name,
            resume=resume,
            join=join,
            warnings=warnings,
            report=report,
            after_verdict=_replay if config.replay_at_end else None,
            descriptors=descriptors,
            began_s=BEGAN_S,
            keeps_output=keeps_output,
        )
    )


def _replay(run: Path) -> None:
    from mothtrap.session.replay_at_end import replay_at_end  # heavy: only when the job has ended

    replay_at_end(run)
