"""Summary of a probe run, stored with its findings."""

from __future__ import annotations

import msgspec

from mothtrap.core.audited import AuditedFile, Origin


class Probed(msgspec.Struct, frozen=True, kw_only=True):
    """`probe.json` of an attempt: size and cost of a probe run.

    `rows` is the number of given rows, `judged` the number of rows that the probes used. `task` is
    `classification` or `regression`, `answers` the form of the model's output. `left_out` is the
    number of confirmed findings beyond the limit on reported findings. `files` are the files named
    in the command, `origin` is the training run that logged the model file.
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
    files: tuple[AuditedFile, ...] = ()
    origin: Origin | None = None


UNIT = "row"
MODE = "probe"
"""`mode` of the findings of a probe run: they belong to no step."""
