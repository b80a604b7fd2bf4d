"""Associations between the options of runs and their findings."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from mothtrap.core.findings import Finding, Severity
from mothtrap.core.ledger import LedgerValue

MOST_VALUES = 8
"""Maximum number of distinct values that are compared individually; with more, runs are compared by
quartile. Chosen by hand: a longer table is not read.
"""


class Association(NamedTuple):
    """Frequency of a finding among the runs with a parameter value, and among the other runs.

    Attributes:
        option: name of the parameter.
        value: value as text; a range if there are many different numbers.
        code: code of the finding's rule.
        name: name of the finding's rule.
        found: number of runs with the value and the finding.
        runs: number of runs with the value.
        found_elsewhere: number of runs with another value and the finding.
        runs_elsewhere: number of runs with another value.
        p: probability of at least `found` such runs if the finding did not depend on the value
            (Fisher's exact test, one-sided; R. A. Fisher, 1935), without correction for
            multiple tests.
    """

    option: str
    value: str
    code: str
    name: str
    found: int
    runs: int
    found_elsewhere: int
    runs_elsewhere: int
    p: float


Options = Mapping[str, LedgerValue]
Faults = Mapping[str, str]
"""Codes of the rules that found an error or a warning, and their names."""


def faults_of(findings: Iterable[Finding]) -> dict[str, str]:
    """Return the code and name of each finding that is more than a note."""
    return {f.code: f.name for f in findings if f.severity is not Severity.INFO}


def associations(
    runs: Iterable[tuple[Options, Faults]], names: Sequence[str] = ()
) -> tuple[Association, ...]:
    """Compare runs by the values of some parameters; runs without a parameter are skipped for it.

    Args:
        runs: options and faults of each run.
        names: names of the options; empty: all options.

    Returns:
        An association for each value and each finding that occurs with it, smallest `p` first.
    """
    known = list(runs)
    rows: list[Association] = []
    for name in names or dict.fromkeys(name for options, _ in known for name in options):
        having = [(options[name], codes) for options, codes in known if name in options]
        groups = _groups([value for value, _ in having])
        members: dict[str, list[Faults]] = defaultdict(list)
        for group, (_, codes) in zip(groups, having, strict=True):
            members[group].append(codes)
        if len(members) < 2:
            continue
        every = [codes for _, codes in having]
        for group, inside in members.items():
            rows += _rows(name, group, inside, every)
    return tuple(sorted(rows, key=lambda row: (row.p, row.option, row.code, row.value)))


def _rows(
    option: str, value: str, inside: Sequence[Faults], every: Sequence[Faults]
) -> Iterable[Association]:
    for code, name in sorted({item for codes in inside for item in codes.items()}):
        found = sum(code in codes for codes in inside)
        total = sum(code in codes for codes in every)
        yield Association(
            option=option,
            value=value,
            code=code,
            name=name,
            found=found,
            runs=len(inside),
            found_elsewhere=total - found,
            runs_elsewhere=len(every) - len(inside),
            p=_tail(found, len(inside), total, len(every)),
        )


def _tail(found: int, runs: int, total: int, every: int) -> float:
    """Return the chance of `found` or more hits in `runs` draws from `every` with `total` hits."""
    ways = sum(
        math.comb(total, hits) * math.comb(every - total, runs - hits)
        for hits in range(found, min(runs, total) + 1)
    )
    return ways / math.comb(every, runs)


def _groups(values: Sequence[LedgerValue]) -> list[str]:
    """Return the group of each value: itself, or the quartile of many different numbers."""
    numbers = [v for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
    if len(numbers) < len(values) or len(set(numbers)) <= MOST_VALUES:
        return [_word(value) for value in values]
    ordered = sorted(numbers)
    cuts = sorted({ordered[len(ordered) * part // 4] for part in (1, 2, 3)})
    edges = [ordered[0], *cuts, ordered[-1]]

    def group(value: float) -> str:
        place = sum(value >= cut for cut in cuts)
        return f"{edges[place]:.3g} to {edges[place + 1]:.3g}"

    return [group(number) for number in numbers]


def _word(value: LedgerValue) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
