"""Learn invariants from healthy runs, for `mothtrap run --invariants`."""

from __future__ import annotations

import os
from pathlib import Path

import click

from mothtrap.cli._group import Refusal
from mothtrap.cli._options import runs_dir_option, warn_of_damage


@click.command(name="learn")
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option("-o", "--output", required=True, metavar="FILE", help="The file to write (TOML).")
@runs_dir_option
def command(runs: tuple[str, ...], output: str, runs_dir: str | None) -> None:
    """Learn invariants from healthy runs, for `mothtrap run --invariants`.

    An invariant is kept only if it holds at every step of all runs. Pass several runs that differ
    in seed and data, as your next runs will. Runs of different programs give invariants that hold
    for any training. You can read and edit the file.

    \b
    mothtrap learn good-1 good-2 good-3 -o invariants.toml
    mothtrap run --invariants invariants.toml train.py
    """
    from mothtrap.core.config import load_config
    from mothtrap.core.errors import OutputExistsError
    from mothtrap.core.findings import Severity
    from mothtrap.core.invariants import text
    from mothtrap.monitor.learning import MIN_STEPS, learn, trainings_of
    from mothtrap.reader.run import open_run

    target = Path(output)
    if target.exists():
        raise OutputExistsError(f"{output} already exists; remove it, or choose another name")
    overrides = {"runs_dir": runs_dir}
    config, _ = load_config(start=Path.cwd(), environ=os.environ, overrides=overrides)
    trainings = []
    opened = [open_run(run, config.runs_dir) for run in dict.fromkeys(runs)]
    for each in opened:
        warn_of_damage(each)
    for number, run in enumerate(opened, start=1):
        click.echo(f"reading {run.path.name} ({number} of {len(opened)})", err=True)
        found = trainings_of(run)
        if not found:
            raise Refusal(
                f"nothing can be learned from {run.path.name}: none of its attempts has "
                f"{MIN_STEPS} steps; pass runs that trained longer"
            )
        errors = sum(finding.severity is Severity.ERROR for finding in run.findings)
        if errors:
            click.echo(
                f"warning: {run.path.name} is not healthy (findings of severity error: {errors}); "
                "invariants learned from it may also hold in faulty runs",
                err=True,
            )
        trainings += found
    if len(opened) == 1:
        click.echo(
            "warning: bounds learned from one run are very wide; pass two or three runs", err=True
        )
    learned = learn(trainings)
    if not learned:
        raise Refusal("no invariant holds in all of these runs; pass runs that are more alike")
    target.write_text(text(learned, [run.path.name for run in opened]), encoding="utf-8")
    plural = "" if len(opened) == 1 else "s"
    click.echo(f"{output}: {len(learned)} invariants, from {len(opened)} run{plural}")
