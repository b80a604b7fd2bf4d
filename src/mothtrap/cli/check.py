"""Check a training script before its long run."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mothtrap.cli._findings import fail_on_option, fails, rule_files_option
from mothtrap.cli._group import Refusal
from mothtrap.cli._options import runs_dir_option
from mothtrap.cli._target import TARGET, RunCommand, command_of
from mothtrap.core.run_names import check_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mothtrap.core.check_plan import Part
    from mothtrap.core.config import Config
    from mothtrap.report.summary import RunSummary
    from mothtrap.session.check import CheckOptions


@click.command(cls=RunCommand, name="check")
@runs_dir_option
@click.option("--name", metavar="NAME", help="Name of the run [default: script and time].")
@click.option(
    "--budget",
    type=click.FloatRange(min=5),
    default=120.0,
    show_default=True,
    metavar="SECONDS",
    help="Time for the whole check.",
)
@click.option(
    "--steps",
    type=click.IntRange(min=1),
    default=10,
    show_default=True,
    help="Training steps to watch before the checks start.",
)
@click.option(
    "--select", metavar="CODES", help="Rules and checks to run, by code or family: PRE1,PRE104."
)
@click.option(
    "--restart", is_flag=True, help="Start the script again for each trial, instead of forking it."
)
@click.option(
    "--part",
    type=click.Choice(["data", "model", "loss", "callbacks"]),
    help="Check one part alone; recorded values replace the others.",
)
@click.option(
    "--dummy-loss",
    is_flag=True,
    help="Replace the loss with the mean square of the model's output, to check the model alone.",
)
@click.option(
    "--cut", default="", metavar="LAYER", help="End the network at this layer, with a dummy loss."
)
@click.option(
    "--resume-command",
    default="",
    metavar="COMMAND",
    help='Compare with resumed training: "python train.py --resume last.pt".',
)
@click.option(
    "--human",
    type=click.IntRange(min=1),
    default=None,
    metavar="N",
    help="Show you N samples without labels, and score your answers.",
)
@click.option(
    "--deadline",
    type=click.FloatRange(min=0, min_open=True),
    metavar="HOURS",
    help="Warn if the whole run takes longer.",
)
@click.option("--network", is_flag=True, help="Allow the script to connect to other machines.")
@rule_files_option
@click.option("--report", metavar="FILE", help="Write a report to this file, e.g. report.html.")
@click.option(
    "--layers", metavar="FILE", help="Write a table of the layers to a .txt, .json, or .svg file."
)
@click.option(
    "--save-invariants",
    metavar="FILE",
    help="Save layers and inputs to a file of invariants, to compare later runs with them.",
)
@click.option(
    "--invariants", metavar="FILE", help="Compare layers and inputs with a file of invariants."
)
@click.option("--as-test", metavar="FILE", help="Write a pytest file that repeats the checks.")
@fail_on_option(default="error")
@click.pass_context
def command(
    ctx: click.Context,
    /,
    runs_dir: str | None,
    name: str | None,
    budget: float,
    steps: int,
    select: str | None,
    restart: bool,
    part: Part | None,
    dummy_loss: bool,
    cut: str,
    resume_command: str,
    human: int | None,
    deadline: float | None,
    network: bool,
    rule_files: tuple[str, ...],
    report: str | None,
    layers: str | None,
    save_invariants: str | None,
    invariants: str | None,
    as_test: str | None,
    fail_on: str,
) -> None:
    """Check a training script before its long run.

    Runs the first steps of the unchanged script, then repeats one step several times with one
    change each time. This answers questions such as: Does every parameter get a gradient? Can the
    model learn one batch? Does it use its input? Then the command ends the script. Files that the
    script writes go to a scratch folder; your own files are not changed.

    Options of mothtrap come before the target; everything after it is passed to the script. Exit
    code 1: a finding is at least as severe as --fail-on. Exit code 2: nothing could be checked.

    \b
    mothtrap check train.py --epochs 3
    mothtrap check --budget 60 --select PRE -m package.train
    """
    from mothtrap.session.job_process import inherited_descriptors

    descriptors = inherited_descriptors()  # before libraries open others
    if name is not None:
        check_name(name, "--name")
    arguments = command_of(ctx.meta[TARGET])
    if report is not None:
        from mothtrap.report.formats import form_of

        form_of(report)
    if layers is not None:
        from mothtrap.report.layer_table import form_of as form_of_layers

        form_of_layers(layers)
    from mothtrap.core.config import load_config
    from mothtrap.core.working_folder import working_folder
    from mothtrap.session.check import CheckOptions

    overrides = {
        "runs_dir": runs_dir,
        "rule_files": rule_files or None,
        "select": None if select is None else tuple(filter(None, select.split(","))),
        "overhead": 0.0,
        "invariants": invariants,
    }
    config, warnings = load_config(start=working_folder(), environ=os.environ, overrides=overrides)
    options = CheckOptions(
        steps=steps,
        budget_s=budget,
        restarts=restart,
        network=network,
        part=part,
        dummy_loss=dummy_loss,
        cut=cut,
        learns=save_invariants is not None,
        resume_command=resume_command,
        asks=human or 0,
        deadline_h=deadline,
        name=name,
        report=report,
    )
    files = _Files(layers=layers, as_test=as_test, invariants=save_invariants)
    ctx.exit(_checked(arguments, config, options, files, fail_on, warnings, descriptors))


@dataclass(frozen=True, kw_only=True)
class _Files:
    """Files to write after the checks; None = not wanted."""

    layers: str | None
    as_test: str | None
    invariants: str | None


def _checked(
    arguments: Sequence[str],
    config: Config,
    options: CheckOptions,
    files: _Files,
    fail_on: str,
    warnings: Sequence[str],
    descriptors: Sequence[int],
) -> int:
    """Check a script, and return the exit code."""
    from mothtrap.cli._person import ask
    from mothtrap.monitor.catalogue import load_checks
    from mothtrap.session.check import check

    only_rules = bool(config.select) and not load_checks(config)
    found: list[tuple[RunSummary, str]] = []

    def afterwards(run: Path) -> None:
        found.append(_shown(run, only_rules=only_rules))
        _write(run, files, arguments, options.budget_s)

    code = check(
        arguments,
        config,
        options,
        warnings=warnings,
        descriptors=descriptors,
        afterwards=afterwards,
        ask=ask,
    )
    if not found:
        raise Refusal("nothing was checked")
    [(summary, why_not)] = found
    failed = code or int(fails(summary, fail_on))
    if why_not and not failed:
        raise Refusal(f"nothing was checked: {why_not}")
    return failed


def _shown(run: Path, *, only_rules: bool) -> tuple[RunSummary, str]:
    """Print the results of the checks, and the reasons of those that could not decide.

    Returns:
        The run, and the reason if nothing was checked.
    """
    from mothtrap.core.facts.checks import CheckResult
    from mothtrap.monitor.catalogue import explains, rule_classes
    from mothtrap.reader.run import open_run
    from mothtrap.report.checks import lines, why_nothing_decided
    from mothtrap.report.style import Style
    from mothtrap.report.summary import summarize
    from mothtrap.store.naming import name_here

    opened = open_run(run)
    rules = rule_classes()
    results = opened.observations(CheckResult)
    for line in lines(results, rules, Style.of(sys.stderr)) if results else ():
        click.echo(line, err=True)
    summary = summarize(opened, explains(rules), called=name_here(run))
    why_not = why_nothing_decided(results, summary.run.steps)
    return summary, "" if only_rules and summary.run.steps else why_not


def _write(run: Path, files: _Files, arguments: Sequence[str], budget_s: float) -> None:
    """Write the table of layers, the test, and the invariants, where they are wanted."""
    from mothtrap.core.facts.checks import CheckResult
    from mothtrap.core.invariants import save_contract
    from mothtrap.reader.run import open_run
    from mothtrap.report import layer_table
    from mothtrap.report.as_test import as_test

    results = open_run(run).observations(CheckResult)
    rows = next((result.layers for result in results if result.layers), ())
    if files.layers is not None and rows:
        layer_table.write(rows, files.layers)
        click.echo(f"  layers: {files.layers}", err=True)
    elif files.layers is not None:
        click.echo("  the table of layers was not written; see PRE501 above", err=True)
    if files.invariants is not None:
        learned = [entry for result in results for entry in result.learned]
        count = save_contract(files.invariants, learned, run.name)
        click.echo(f"  invariants: {count} in {files.invariants}", err=True)
    if files.as_test is not None:
        text = as_test(arguments, results, budget_s)
        Path(files.as_test).write_text(text, encoding="utf-8")
        click.echo(f"  test: {files.as_test}", err=True)
