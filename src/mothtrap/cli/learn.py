"""Infer from healthy runs what must hold in others."""

from __future__ import annotations

import os
from pathlib import Path

import click

from mothtrap.cli._group import Refusal
from mothtrap.cli._options import runs_dir_option, warn_of_damage


@click.command(name="learn")
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option("-o", "--output", required=True, metavar="FILE", help="The file to make (TOML).")
@runs_dir_option
def command(runs: tuple[str, ...], output: str, runs_dir: str | None) -> None:
    """Infer from healthy runs what must hold in others.

    Several runs that differ as the next ones will, in seed and data, teach most: what is
    learned holds at every step of all of them. Runs of different programs teach what any
    training keeps. The file is meant to be read, and may be changed.

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
        raise OutputExistsError(f"{output} exists already; remove it, or name another file")
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
                f"nothing can be learned from {run.path.name}: none of its attempts made "
                f"{MIN_STEPS} steps; name runs that trained longer"
            )
        errors = sum(finding.severity is Severity.ERROR for finding in run.findings)
        if errors:
            click.echo(
                f"warning: {run.path.name} is not healthy (findings of severity error: {errors}); "
                "what is learned from it may hold in faulty runs too",
                err=True,
            )
        trainings += found
    if len(opened) == 1:
        click.echo("warning: of one run bounds are very wide; two or three teach more", err=True)
    learned = learn(trainings)
    if not learned:
        raise Refusal("nothing holds in all of these runs; name runs that are more alike")
    target.write_text(text(learned, [run.path.name for run in opened]), encoding="utf-8")
    plural = "" if len(opened) == 1 else "s"
    click.echo(f"{output}: {len(learned)} invariants, from {len(opened)} run{plural}")
