"""Summary of a probe run, as it is stored with its findings."""

from __future__ import annotations

import msgspec


class Probed(msgspec.Struct, frozen=True, kw_only=True):
    """`probe.json` of an attempt: the size and the cost of a probe run.

    `rows` were given, `judged` are those of them that the probes looked at. `task` is
    `classification` or `regression`, `answers` the form of the model's answers. `left_out` counts
    confirmed findings beyond the most that are reported.
    """

    rows: int
    judged: int
    columns: tuple[str, ...] = ()
    task: str = ""
    answers: str = ""
    loss: float = 0.0
    predicted: int = 0
    seconds: float = 0.0
    left_out: int = 0
    seed: int = 0


UNIT = "row"
MODE = "probe"
"""`mode` of the findings of a probe run: they belong to no step."""
