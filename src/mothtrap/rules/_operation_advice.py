"""Words on the operation that made a loss or gradient NaN or infinite."""

from __future__ import annotations

from mothtrap.core.facts.nonfinite import FirstBadOperation
from mothtrap.core.window import Window

REPLAY_NAMES_IT = (
    "Replay the step with `mothtrap replay`: it names the operation, its line and its values. "
    "If no step was kept, start the job with `mothtrap run --replay`."
)
"""First fix if the operation is unknown."""


def operation_at(window: Window, step: int, *, backward: bool = False) -> FirstBadOperation | None:
    """Return the operation that broke in a step, if it is known for certain."""
    for seen in window.seen(FirstBadOperation):
        if seen.step == step and seen.since is None and seen.backward is backward:
            return seen
    return None


def operation_in_words(seen: FirstBadOperation) -> str:
    """Describe an operation with its module, operands, and rows."""
    where = f" in {seen.module}" if seen.module else ""
    given = f" ({'; '.join(seen.inputs)})" if seen.inputs else ""
    shown = ", ".join(map(str, seen.rows))
    rows = f", in row{'s' * (len(seen.rows) > 1)} {shown}" if seen.rows else ""
    if seen.backward:
        return f"the derivative of {seen.operation}{where} is infinite{given}{rows}"
    return f"{seen.operation}{where} produced it from finite values{given}{rows}"
