"""Answer about the checks of a run of `mothtrap check`: results, path of the data, layers."""

from __future__ import annotations

import msgspec

from mothtrap.core.facts.checks import CheckResult
from mothtrap.monitor.catalogue import rule_classes
from mothtrap.report.checks import passed_lines, undecided_lines
from mothtrap.report.layer_table import boxes_of, table_of
from mothtrap.web.opened import OpenRun


class Stage(msgspec.Struct, frozen=True, kw_only=True):
    """A stage of the data flow; `gradient` is `none`, `zero`, or empty."""

    title: str
    about: str
    gradient: str


class CheckedAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Results of checks as text, the stages from the datasets to the loss, and their table."""

    passed: tuple[str, ...]
    undecided: tuple[str, ...]
    stages: tuple[Stage, ...]
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def answer(opened: OpenRun) -> CheckedAnswer:
    """Return the results of the checks of a run."""
    results = opened.run.observations(CheckResult)
    names = {rule.code: rule.name() for rule in rule_classes()}
    layers = next((result.layers for result in results if result.layers), ())
    head, *rows = table_of(layers)
    stages = (Stage(title=a, about=b, gradient=c) for a, b, c in boxes_of(layers))
    return CheckedAnswer(
        passed=tuple(passed_lines(results)),
        undecided=tuple(undecided_lines(results, names)),
        stages=tuple(stages),
        head=head,
        rows=tuple(rows),
    )
