"""Turn a condition on a curve into a rule, and show where it would have fired."""

from __future__ import annotations

import os
from pathlib import Path

import click

from mothtrap.cli._group import Refusal
from mothtrap.cli._options import runs_dir_option


@click.command(name="condition")
@click.argument("run")
@click.argument("curve")
@click.option("--above", type=float, metavar="LIMIT", help="Fire above this value.")
@click.option("--below", type=float, metavar="LIMIT", help="Fire below this value.")
@click.option(
    "--for-steps",
    type=int,
    default=1,
    metavar="N",
    help="Fire after N captured steps in a row [default: 1].",
)
@click.option("--statistic", default="", metavar="ID", help="Statistic of the tensor, e.g. l2.")
@click.option("--severity", type=click.Choice(["error", "warning", "info"]), default="warning")
@click.option(
    "--code", default="", metavar="CODE", help="Code of the new rule [default: an unused one]."
)
@click.option(
    "-o",
    "--output",
    default="my_rules.py",
    metavar="FILE",
    help="File to write the rule to [default: my_rules.py].",
)
@runs_dir_option
def command(
    run: str,
    curve: str,
    above: float | None,
    below: float | None,
    for_steps: int,
    statistic: str,
    severity: str,
    code: str,
    output: str,
    runs_dir: str | None,
) -> None:
    """Turn a condition on a curve into a rule, and show where it would have fired in RUN.

    CURVE is the name of a scalar, or of a tensor with --statistic.

    \b
    mothtrap condition RUN loss --above 5 --for-steps 3
    mothtrap condition RUN gradient:head.weight --statistic l2 --above 100 -o my_rules.py
    """
    from mothtrap.core.config import load_config
    from mothtrap.monitor.rule_making import Condition, make_rule
    from mothtrap.reader.run import open_run

    if (above is None) == (below is None):
        raise Refusal("pass a limit: --above LIMIT or --below LIMIT")
    config, _ = load_config(start=Path.cwd(), environ=os.environ, overrides={"runs_dir": runs_dir})
    opened = open_run(run, config.runs_dir)
    condition = Condition(
        what=curve,
        side="above" if above is not None else "below",
        limit=above if above is not None else float(below or 0.0),
        for_steps=for_steps,
        statistic=statistic,
        severity=severity,  # type: ignore[arg-type]  # one of the choices
        code=code.upper(),
    )
    made = make_rule(opened, condition, Path(output), further=config.rule_files)
    click.echo(f"{output}: {made.code} {made.name}")
    for finding in made.findings:
        click.echo(f"  would have fired at step {finding.step}: {finding.message}")
    if not made.findings:
        click.echo(f"  would not have fired at any captured step of {opened.id}")
    click.echo(f"  to use it: mothtrap run --rules {output} ...")
