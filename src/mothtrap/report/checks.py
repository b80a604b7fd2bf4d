"""Results of checks, as `mothtrap check` prints them below the verdict."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from mothtrap.core.facts.checks import CheckResult
from mothtrap.core.findings import Severity
from mothtrap.core.rule import Rule
from mothtrap.report.style import Style, count_of, wrapped


def lines(
    results: Iterable[CheckResult], rules: Iterable[type[Rule]], style: Style
) -> Iterator[str]:
    """Yield the results of checks: proved, undecided, and not applicable, with reasons.

    Faults are omitted because they are findings of the run.

    Args:
        results: results of the run's checks.
        rules: rules to name checks by their code.
        style: capabilities of the stream.
    """
    made, names = list(results), {rule.code: rule.name() for rule in rules}
    for text in passed_lines(made):
        yield from _wrapped(f"  ✔ {text}", style)
    idle = [result for result in made if result.state == "not_applicable"]
    open_ = [result for result in made if result.state in ("not_enough_data", "failed")]
    for text in undecided_lines(open_, names):
        yield from _wrapped(f"  ? {text}", style)
    for text in undecided_lines(idle, names):
        yield from _wrapped(f"  - {text}", style)
    found = [result for result in made if result.found]
    faults = sum(
        1 for result in found if any(f.severity is not Severity.INFO for f in result.found)
    )
    notes = f"{len(found) - faults} made a note, " if len(found) > faults else ""
    passed = sum(1 for result in made if result.state == "done" and not result.found)
    verb = "does" if len(idle) == 1 else "do"
    unfit = f"{len(idle)} {verb} not apply, " if idle else ""
    seconds = sum(result.seconds for result in made)
    yield from _wrapped(
        f"  {count_of(len(made), 'check')} in {seconds:.0f} s: {passed} passed, "
        f"{faults} found a fault, {notes}{unfit}{len(open_)} could not decide",
        style,
    )


def passed_lines(results: Iterable[CheckResult]) -> list[str]:
    """Return the lines for passed checks, with their measured numbers."""
    return [f"{result.passed}{_figures(result)}" for result in results if result.passed]


def undecided_lines(results: Iterable[CheckResult], names: Mapping[str, str]) -> list[str]:
    """Return the lines for checks without a result, grouped by reason.

    Args:
        results: results of the run's checks.
        names: names of checks, by their code.
    """
    by_reason: dict[str, list[str]] = {}
    for result in results:
        if result.reason:
            named = f"{result.code} {names.get(result.code, '')}".strip()
            by_reason.setdefault(result.reason, []).append(named)
    return [f"{', '.join(named)}: {reason}" for reason, named in by_reason.items()]


def why_nothing_decided(results: Iterable[CheckResult], steps: int) -> str:
    """Return why a check run has no result; empty if at least one check has a result.

    Args:
        results: results of the run's checks.
        steps: steps of the script that were watched.
    """
    made = list(results)
    if any(result.state == "done" for result in made):
        return ""
    if not steps:
        return "no training step was observed"
    if not made:
        return "only the rules ran, because there are no checks for its framework"
    reasons = list(dict.fromkeys(result.reason for result in made))
    return reasons[0] if len(reasons) == 1 else "no check could decide, for the reasons above"


def _figures(result: CheckResult) -> str:
    shown = ", ".join(f"{name} {_number(value)}" for name, value in result.figures.items())
    return f" ({shown})" if shown else ""


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == round(value, 0) and abs(value) < 1e9 else f"{value:.4g}"


def _wrapped(text: str, style: Style) -> list[str]:
    return [style.safe(line) for line in wrapped(text, indent="    ")]
