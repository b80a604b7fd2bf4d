"""Summary of a serve run: the calls of an asserted predict function."""

from __future__ import annotations

import msgspec


class Served(msgspec.Struct, frozen=True, kw_only=True):
    """`serve.json` of an attempt: the number of predictions, and the cost of the checks.

    `model` is the name of the predict function. `rows` is the number of predictions, `failing` the
    number of predictions that violated an assertion, `replaced` the number of predictions that a
    correction or the fallback replaced. `added_s` is the time of all checks, in seconds, and
    `errors` the number of errors in checks, corrections, and fallbacks. `kept` is the number of
    recorded rows.
    """

    model: str
    on_fail: str
    calls: int = 0
    rows: int = 0
    failing: int = 0
    replaced: int = 0
    errors: int = 0
    kept: int = 0
    added_s: float = 0.0


UNIT = "prediction"
MODE = "serve"
"""`mode` of the findings of a serve run: they belong to no step."""
