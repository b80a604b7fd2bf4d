"""Find the first step and tensor at which two runs differ."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from mothtrap.cli._options import format_option, runs_dir_option


@click.command(name="diff")
@click.argument("first", metavar="A")
@click.argument("second", metavar="B")
@click.option(
    "--rtol",
    type=click.FloatRange(0),
    metavar="X",
    help="Relative tolerance, as a share of the larger number [default: 0, which "
    "compares bit for bit; 0.001 between runs with different numbers of ranks].",
)
@click.option(
    "--atol",
    type=click.FloatRange(0),
    metavar="X",
    help="Absolute tolerance [default: 0; 1e-7 between runs with different numbers of ranks].",
)
@click.option(
    "--perturbed",
    metavar="RUN",
    help="A run like A, recorded with `mothtrap run --perturb`. It measures the tolerance "
    "between runs with different numbers of ranks.",
)
@click.option(
    "--ignore",
    multiple=True,
    metavar="GLOB",
    help="Names to exclude from the comparison, e.g. 'rng.*' or 'batch:*'; can be repeated.",
)
@format_option
@runs_dir_option
@click.pass_context
def command(
    ctx: click.Context,
    first: str,
    second: str,
    rtol: float | None,
    atol: float | None,
    perturbed: str | None,
    ignore: tuple[str, ...],
    form: str,
    runs_dir: str | None,
) -> None:
    """Find the first step and tensor at which two runs differ.

    A and B are paths or names of runs. In order of execution, the command compares the weights,
    batches, random states, targets, activations, losses, gradients, and optimizer settings that
    both runs captured. Runs recorded with `digests = true` can be compared tensor by tensor at
    every step.

    Exit code 0: the steps of both runs are the same. 1: they differ. 2: nothing could be compared.

    \b
    mothtrap diff before after
    mothtrap diff before after --rtol 1e-3      across devices or element types
    mothtrap diff one many --perturbed rounding   one process and many ranks
    """
    from mothtrap.core import jsonable
    from mothtrap.core.config import load_config
    from mothtrap.reader.run import open_run
    from mothtrap.report.difference import difference, text
    from mothtrap.report.style import Style

    config, _ = load_config(start=Path.cwd(), environ=os.environ, overrides={"runs_dir": runs_dir})
    runs = [open_run(name, config.runs_dir) for name in (first, second)]
    measured = open_run(perturbed, config.runs_dir) if perturbed is not None else None
    found = difference(runs[0], runs[1], rtol=rtol, atol=atol, ignore=ignore, perturbed=measured)
    if form == "json":
        click.echo(jsonable.shown(found))
    else:
        click.echo(text(found, Style.of(sys.stdout)))
    ctx.exit((0 if found.same else 1) if found.compared else 2)
