"""The series that show a finding, thinned to a few points."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mothtrap.core.documented import Documented
from mothtrap.core.findings import Finding
from mothtrap.core.rule import Rule
from mothtrap.core.steps import Mode
from mothtrap.core.window import Floats, Ints
from mothtrap.report.answers.answer import MAX_TOKENS, Answer, tokens
from mothtrap.report.answers.questions import find
from mothtrap.report.summary import RunSummary

if TYPE_CHECKING:
    from mothtrap.reader.run import Run

MAX_POINTS = 50
"""Of a series."""
MAX_SERIES = 4
MAX_LAYERS = 2
MAX_RAW = 100_000
"""Number of values of a series that are read before thinning; the last values are used."""


def evidence(
    run: Run, summary: RunSummary, which: str, rules: Sequence[type[Documented]]
) -> Answer:
    """Return the series on which a finding is based, or the losses.

    Points are thinned out evenly; the steps around the onset are kept.

    Raises:
        UnknownNameError: the run has no such finding.
    """
    chosen = find(summary, which)
    rule = next((rule for rule in rules if rule.code == chosen.code), None)
    series = list(_of_layers(run, chosen, rule))[:MAX_SERIES]
    series += list(_losses(run))[: MAX_SERIES - len(series)]
    found = _answer(summary, chosen, series, MAX_POINTS)
    for points in (25, 12, 6):
        if tokens(found.content) <= MAX_TOKENS * 4 // 5:
            break
        found = _answer(summary, chosen, series, points)
    return found


def thinned(steps: Ints, values: Floats, onset: int, most: int) -> list[list[float | int]]:
    """Return at most `most` pairs `[step, value]`, including the ends and the onset."""
    if len(steps) <= most:
        kept = np.arange(len(steps))
    else:
        near = int(np.searchsorted(steps, onset))
        around = np.arange(max(0, near - most // 6), min(len(steps), near + most // 6))
        spread = np.linspace(0, len(steps) - 1, most - len(around)).round().astype(int)
        kept = np.unique(np.concatenate([around, spread]))
    return [[int(steps[at]), _rounded(float(values[at]))] for at in kept]


def _answer(
    summary: RunSummary, chosen: Finding, series: Sequence[tuple[str, Ints, Floats]], points: int
) -> Answer:
    told = [
        {
            "series": name,
            "values": len(steps),
            "points": thinned(steps, values, chosen.step, points),
        }
        for name, steps, values in series
    ]
    content: dict[str, Any] = {
        "run": summary.run.id,
        "code": chosen.code,
        "onset_step": chosen.step,
        "evidence": dict(chosen.evidence),
        "series": told,
    }
    how = "in Python, open_run(RUN).scalars() and .stats() have every value"
    return Answer(question="evidence", content=content, ask={"series": how})


def _of_layers(
    run: Run, chosen: Finding, rule: type[Documented] | None
) -> Iterator[tuple[str, Ints, Floats]]:
    """Yield the first statistic of each need of a rule, of the layers that a finding names."""
    if rule is None or not issubclass(rule, Rule) or not chosen.layers:
        return
    needs = [need for need in rule.needs if need.statistics]
    wanted = [(kind, need.statistics[0]) for need in needs for kind in need.kinds]
    for kind, statistic in dict.fromkeys(wanted):
        for layer in chosen.layers[:MAX_LAYERS]:
            yield from _statistic(run, kind, statistic, layer, chosen.mode)


def _statistic(
    run: Run, kind: str, statistic: str, layer: str, mode: str
) -> Iterator[tuple[str, Ints, Floats]]:
    matrix = run.stats(kind, layer.replace("[", "[[]"), statistic, mode=Mode(mode)).get(statistic)
    if matrix is None or not len(matrix) or not matrix.tensors:
        return
    values_S, there_S = matrix.values_ST[:, 0], matrix.present_ST[:, 0]
    if there_S.any():
        name = f"{kind}.{statistic} of {matrix.tensors[0].name}"
        yield name, matrix.steps_S[there_S][-MAX_RAW:], values_S[there_S][-MAX_RAW:]


def _losses(run: Run) -> Iterator[tuple[str, Ints, Floats]]:
    for one in run.scalars("loss"):
        if len(one.steps_S):
            name = f"{one.mode} loss" + (f" at {one.of}" if one.of else "")
            yield name, one.steps_S[-MAX_RAW:], one.values_S[-MAX_RAW:]


def _rounded(value: float) -> float:
    return float(f"{value:.6g}")
