"""Base of checks that learn entries of a file of invariants, or compare with them."""

from __future__ import annotations

from dataclasses import field

from mothtrap.checks.check import Check
from mothtrap.core.contracts import Entry
from mothtrap.core.frozen import frozen
from mothtrap.core.thresholds import NO_SETTING


@frozen
class ContractCheck(Check):
    """Check that compares with entries of a file of invariants.

    Attributes:
        expected: entries of the file; empty without a file, so nothing is compared.
    """

    expected: tuple[Entry, ...] = field(default=(), metadata=NO_SETTING)
