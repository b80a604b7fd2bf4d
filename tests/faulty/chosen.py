"""Faulty programs that `make test` runs: few, but they provide all data that rules read.

A rule reads facts, statistics of a kind of tensor, and scalars, which adapters report. A program
for each of them, and for each field of a fact, shows that the adapter still does. The conclusions
of a rule are tested in `tests/rules`, and by the other programs with `HARNESS=full`.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections import Counter
from collections.abc import Mapping, Set

from mothtrap.core.fact import Fact
from mothtrap.core.rule import Rule


def times(thing: str) -> int:
    """Return the number of programs for data that rules read: two, or one for a field."""
    return 1 if "." in thing else 2


def reads(rule: type[Rule]) -> set[str]:
    """Return the data that a rule reads, in words."""
    found: set[str] = set()
    text = inspect.getsource(sys.modules[rule.__module__])
    for need in rule.needs:
        found |= {f"{statistic} of {kind}" for kind in need.kinds for statistic in need.statistics}
        found |= set(need.scalars)
        for fact in need.facts:
            fields = set(fact.__struct_fields__) - set(Fact.__struct_fields__)
            found.add(fact.__name__)
            found |= {f"{fact.__name__}.{f}" for f in fields if re.search(rf"\.{f}\b", text)}
    return found


def chosen(read: Mapping[str, Set[str]]) -> list[str]:
    """Return the programs to run, starting with those that provide the most missing data.

    Args:
        read: what the rule of a program reads, by program.
    """
    left = Counter({thing: times(thing) for things in read.values() for thing in things})
    names, found = list(read), []
    while names:
        best = max(names, key=lambda name: sum(left[thing] > 0 for thing in read[name]))
        names.remove(best)
        if not any(left[thing] > 0 for thing in read[best]):
            break
        found.append(best)
        left.subtract(read[best])
    return found
