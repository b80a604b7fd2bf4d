"""Results of checks, as `mothtrap check` prints them below the verdict."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mothtrap.core.facts.checks import CheckResult
from mothtrap.core.rule import Rule
from mothtrap.report.style import Style, count_of, wrapped


def lines(
    results: Iterable[CheckResult], rules: Iterable[type[Rule]], style: Style
) -> Iterator[str]:
    """Yield the results of the checks, and why some could not decide.

    Faults are left out: they are findings of the run.

    Args:
        results: of the run's checks.
        rules: to name checks by their code.
        style: abilities of the stream.
    """
    known = {rule.code: rule for rule in rules}
    made = list(results)
    for result in made:
        if result.passed:
            yield from _wrapped(f"  ✔ {result.passed}{_figures(result)}", style)
    undecided_by: dict[str, list[str]] = {}
    for result in made:
        if result.reason:
            name = known[result.code].name() if result.code in known else ""
            undecided_by.setdefault(result.reason, []).append(f"{result.code} {name}")
    for reason, names in undecided_by.items():
        yield from _wrapped(f"  ? {', '.join(names)}: {reason}", style)
    faults = sum(1 for result in made if result.found)
    passed = sum(1 for result in made if result.state == "done" and not result.found)
    undecided = len(made) - faults - passed
    seconds = sum(result.seconds for result in made)
    yield style.safe(
        f"  {count_of(len(made), 'check')} in {seconds:.0f} s: {passed} passed, "
        f"{faults} found a fault, {undecided} could not decide"
    )


def why_nothing_decided(results: Iterable[CheckResult], steps: int) -> str:
    """Return why a run of kind `check` proved nothing; empty if at least one check decided.

    Args:
        results: of the run's checks.
        steps: of the script that were watched.
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
