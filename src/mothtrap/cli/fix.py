"""Print a patch for each finding whose fix is certain."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import click

from mothtrap.cli._options import runs_dir_option


@click.command(name="fix")
@click.argument("run", required=False)
@click.option(
    "--try", "tries", is_flag=True, help="Run the patched script in a copy of its folder."
)
@click.option(
    "--anyway", is_flag=True, help="With --try: run it even if another user recorded the run."
)
@click.option(
    "--timeout",
    type=float,
    default=600.0,
    show_default=True,
    metavar="S",
    help="Seconds to wait for the patched script.",
)
@runs_dir_option
@click.pass_context
def command(
    ctx: click.Context,
    run: str | None,
    tries: bool,
    anyway: bool,
    timeout: float,
    runs_dir: str | None,
) -> None:
    """Print a patch for each finding whose fix is certain.

    Without RUN, the latest run. Your files are not changed. If no fix is certain, a line states
    what you have to decide instead. The exit code is 1 if there is no patch.

    \b
    mothtrap fix                    print the patch, and the finding that it fixes
    mothtrap fix | patch -p1        apply it in the folder of the script
    mothtrap fix --try              is the finding gone, and how does the loss change?
    """
    from mothtrap.core.config import load_config
    from mothtrap.core.diagnosis import fault_name
    from mothtrap.monitor.catalogue import explains
    from mothtrap.reader.run import open_run
    from mothtrap.repairs.catalogue import Patch
    from mothtrap.report.style import Style
    from mothtrap.report.summary import summarize
    from mothtrap.session.fixing import repairs, tried

    config, _ = load_config(start=Path.cwd(), environ=os.environ, overrides={"runs_dir": runs_dir})
    opened = open_run(run, config.runs_dir)
    summary = summarize(opened, explains())
    safe = Style.of(sys.stderr).safe
    patches = decided = 0
    for found in repairs(opened, summary):
        head = f"{found.finding.code} {fault_name(found.finding)}"
        decided += 1
        if not isinstance(found, Patch):
            click.echo(f"no patch for {safe(head)}: {safe(found.reason)}", err=True)
            continue
        patches += 1
        click.echo(f"{safe(head)}: {safe(found.finding.message)}", err=True)
        click.echo(found.diff, nl=False)
        if tries:
            with tempfile.TemporaryDirectory(prefix="mothtrap-fix-") as scratch:
                trial = tried(opened, found, Path(scratch), timeout, anyway=anyway)
            click.echo("the finding is gone" if trial.gone else "the finding is still there")
            if trial.loss_before is not None and trial.loss_after is not None:
                click.echo(
                    f"loss at step {trial.steps}: {trial.loss_before:.4g} in the run, "
                    f"{trial.loss_after:.4g} with the patch"
                )
            click.echo(f"verdict of the patched script: {safe(trial.verdict)}")
    if not patches:
        if not decided:
            click.echo("nothing was found in this run that needs a fix", err=True)
        ctx.exit(1)
