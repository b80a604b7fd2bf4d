"""Schedules that lower the learning rate on a plateau, and the metric that they receive."""

from __future__ import annotations

import ast
from types import FrameType
from typing import TYPE_CHECKING, Any

from mothtrap.adapters.torch.source.scopes import running_call
from mothtrap.core.facts.epochs import MetricWatched
from mothtrap.tracing.jobs.identity import ByIdentity
from mothtrap.tracing.source import frames

if TYPE_CHECKING:
    from mothtrap.adapters.torch.job.job import Job

MAX_SCHEDULES = 8
_NAMED = (ast.Name, ast.Attribute, ast.Subscript, ast.Constant)
"""Expressions that do not change the direction of a metric."""


class PlateauObserver:
    """Reports the direction of each schedule, and the name of the metric at its first call."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._known: ByIdentity[Any, bool] = ByIdentity()

    def stepping(self, schedule: Any) -> None:
        """Handle a call of `schedule.step`, whose caller is running."""
        if schedule in self._known or len(self._known) >= MAX_SCHEDULES:
            return
        self._known[schedule] = True
        metric = _metric(frames.user_frame())
        if metric and schedule.mode in ("min", "max"):
            self._job.recorder.notes.observe(
                MetricWatched(
                    step=self._job.grouper.step,
                    fit="",
                    callback=type(schedule).__name__,
                    monitor=metric,
                    metric=metric,
                    direction=schedule.mode,
                    lowers_rate=True,
                    location=frames.user_location(),
                )
            )


def _metric(frame: FrameType | None) -> str:
    """Return the expression that the script passes as the metric; "" if it may change the sign."""
    call = running_call(frame) if frame is not None else None
    if call is None:
        return ""
    named = [key.value for key in call.keywords if key.arg == "metrics"]
    given = next(iter([*call.args[:1], *named]), None)
    return ast.unparse(given) if given is not None and _keeps_direction(given) else ""


def _keeps_direction(node: ast.expr) -> bool:
    """Return whether an expression is a metric, or a metric divided by a number of rows."""
    if isinstance(node, ast.Call):  # `loss.item()`, `np.mean(loss)`
        inner = [node.func.value] if isinstance(node.func, ast.Attribute) else []
        return all(_keeps_direction(one) for one in (*inner, *node.args))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        return _keeps_direction(node.left)
    return isinstance(node, _NAMED)
