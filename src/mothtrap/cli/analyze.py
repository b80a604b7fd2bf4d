"""Evaluate rules on stored runs, with other thresholds or rules."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mothtrap.cli._findings import (
    all_option,
    baseline_option,
    fail_on_option,
    fails,
    format_option,
    read,
    rule_files_option,
    show,
)
from mothtrap.cli._group import USAGE_OR_OWN_ERROR, Refusal
from mothtrap.cli._options import runs_dir_option
from mothtrap.cli._sweep import analyze_sweep, executor_options, is_sweep

if TYPE_CHECKING:
    from mothtrap.core.config import Config
    from mothtrap.core.rule import Rule

Thresholds = dict[str, dict[str, float | int | str | bool]]
"""Settings by rule code and name."""


@click.command(name="analyze")
@click.argument("runs", nargs=-1)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="CODE.THRESHOLD=VALUE",
    help="Change a threshold, e.g. GRD101.ratio_limit=50; can be repeated.",
)
@rule_files_option
@click.option("--select", metavar="CODES", help="Rules to evaluate, by code or family: NUM,GRD101.")
@click.option("--ignore", metavar="CODES", help="Rules to skip, by code or family.")
@click.option("--reference", metavar="RUN", help="A run to compare with.")
@click.option(
    "--invariants",
    metavar="FILE",
    help="Invariants of healthy runs: a file from `mothtrap learn`, or `pytorch`.",
)
@format_option
@fail_on_option(default="error")
@baseline_option
@click.option("--strict", is_flag=True, help="Exit with 2 if a rule itself fails.")
@all_option
@executor_options
@runs_dir_option
@click.pass_context
def command(
    ctx: click.Context,
    runs: tuple[str, ...],
    settings: tuple[str, ...],
    rule_files: tuple[str, ...],
    select: str | None,
    ignore: str | None,
    reference: str | None,
    invariants: str | None,
    form: str,
    fail_on: str,
    baseline: str | None,
    strict: bool,
    everything: bool,
    executor: str | None,
    workers: int | None,
    by: str | None,
    skip_done: bool,
    runs_dir: str | None,
) -> None:
    """Evaluate rules on stored runs, with other thresholds or rules (by default on the latest run).

    The current rules and settings apply, not the rules and settings of the recorded run. Rules see
    only the data that the run captured. With one run, nothing is written. With several (RUNS can be
    runs, folders of runs, globs, or URLs), the command prints one line for each run, and stores the
    result in the run for --skip-done.

    \b
    mothtrap analyze RUN --set GRD101.ratio_limit=50
    mothtrap analyze RUN --rules my_rules.py --select ZZZ --format json
    mothtrap analyze 'runs/sweep-*' --executor processes --by lr,batch_size
    """
    from mothtrap.core.config import load_config, with_thresholds
    from mothtrap.core.findings import RuleState
    from mothtrap.core.quiet import Quiet
    from mothtrap.monitor.afterwards import judge_again
    from mothtrap.monitor.catalogue import explains, rule_classes, switched_off
    from mothtrap.monitor.reference import Reference, open_reference
    from mothtrap.reader.run import open_run
    from mothtrap.report.summary import summarize
    from mothtrap.store.naming import name_here

    overrides = {
        "runs_dir": runs_dir,
        "rule_files": rule_files or None,
        "select": _codes(select),
        "ignore": _codes(ignore),
        "reference": reference,
        "invariants": invariants,
    }
    config, _ = load_config(start=Path.cwd(), environ=os.environ, overrides=overrides)
    rules = _rules(config, _thresholds(settings))
    if is_sweep(runs, executor, by, skip_done=skip_done):
        if reference or baseline:
            option = "--reference" if reference else "--baseline"
            raise Refusal(f"{option} works with one run only; analyze the runs one by one")
        ctx.exit(
            analyze_sweep(
                runs,
                with_thresholds(config, _thresholds(settings)),
                executor=executor,
                workers=workers,
                by=by,
                skip_done=skip_done,
                form=form,
                fail_on=fail_on,
                strict=strict,
            )
        )
    opened = open_run(runs[0] if runs else None, config.runs_dir)
    needs = [need for rule in rules for need in rule.needs]

    def beside(worker: int) -> Reference:
        return open_reference(config.reference, config.runs_dir, needs, worker)

    judged = judge_again(
        opened,
        rules,
        Quiet.of(config),
        beside if config.reference else None,
        switched_off(config),
    )
    known = explains(rule_classes(config.rule_files))
    summary = summarize(
        opened, known, judged=judged, baseline=read(baseline), called=name_here(opened.path)
    )
    show(summary, form, everything=everything)
    if strict and summary.in_state(RuleState.RULE_FAILED):
        ctx.exit(USAGE_OR_OWN_ERROR)
    if fails(summary, fail_on):
        ctx.exit(1)


def _rules(config: Config, thresholds: Thresholds) -> tuple[Rule, ...]:
    """Return the active rules; report errors in `thresholds` as errors of --set."""
    from mothtrap.core.config import with_thresholds
    from mothtrap.core.errors import ConfigError
    from mothtrap.monitor.catalogue import load_rules

    try:
        return load_rules(with_thresholds(config, thresholds))
    except ConfigError as err:
        load_rules(config)  # raises where the configuration itself is wrong
        said = str(err).removeprefix("configuration: ")
        for code in thresholds:
            said = said.replace(f"[rules.{code}]", code)
        raise Refusal(f"--set: {said}") from err


def _codes(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(filter(None, text.split(",")))


def _thresholds(settings: Iterable[str]) -> Thresholds:
    found: Thresholds = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        code, dot, name = key.strip().partition(".")
        if not (equals and dot and code and name):
            raise Refusal(
                f"--set {setting!r} is not a setting; expected CODE.THRESHOLD=VALUE, e.g. --set "
                "GRD101.ratio_limit=50"
            )
        found.setdefault(code.upper(), {})[name] = _value(value.strip())
    return found


def _value(text: str) -> float | int | str | bool:
    """Parse a TOML value; any other text is a string."""
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
    return value if isinstance(value, float | int | str | bool) else text
