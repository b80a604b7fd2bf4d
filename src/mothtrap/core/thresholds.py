"""Thresholds of rules, with the unit and the source of each value."""

from __future__ import annotations

from dataclasses import field, fields
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from mothtrap.core.documented import Documented

NO_SETTING = {"setting": False}
"""Metadata of a rule's field that is not a threshold: its value is set in another way."""

Value = TypeVar("Value", float, int, str, bool)


def threshold(default: Value, *, unit: str, source: str) -> Value:
    """Declare a threshold as a field of a rule's dataclass.

    Args:
        default: value unless the configuration sets another.
        unit: unit of the number, e.g. `steps` or `times the median`.
        source: source of the default: a paper, a measurement, or `chosen by hand`.
    """
    return field(default=default, metadata={"unit": unit, "source": source})


def describe(rule: Documented | type[Documented]) -> dict[str, tuple[str, str]]:
    """Return `(unit, source)` of every threshold of a rule, in order of declaration."""
    found = fields(rule)  # type: ignore[arg-type]  # every rule is a dataclass
    return {
        f.name: (f.metadata.get("unit", ""), f.metadata.get("source", ""))
        for f in found
        if f.metadata.get("setting", True)
    }
