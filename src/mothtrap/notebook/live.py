"""A strip in a notebook that follows a run: verdict, findings, loss."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np

from mothtrap.core.diagnosis import diagnose, fault_name, in_story_order
from mothtrap.core.errors import MissingExtraError, MothtrapError
from mothtrap.core.findings import Severity
from mothtrap.core.installed_rules import explains
from mothtrap.core.steps import Mode
from mothtrap.core.window import Series
from mothtrap.reader.run import Run

MODULE = Path(__file__).with_name("live.js")
POINTS = 200
FINDINGS = 5
MAX_CHARS = 400


def follow(run: Run, every_s: float) -> Any:
    """Return a widget that shows a run and updates until the run ends.

    Raises:
        MissingExtraError: anywidget is not installed.
    """
    try:
        import anywidget
        import traitlets
    except ImportError as err:
        raise MissingExtraError("live()", "anywidget", "notebook") from err

    class Strip(anywidget.AnyWidget):  # type: ignore[misc]  # of no type where it is missing
        """State of a run, drawn by the browser."""

        _esm = MODULE
        shown = traitlets.Dict().tag(sync=True)

    strip = Strip(shown=strip_of(run))
    if run.state == "running":
        threading.Thread(target=_keep_up, args=(strip, run, every_s), daemon=True).start()
    return strip


def strip_of(run: Run) -> dict[str, Any]:
    """Return the content of the strip as plain values; a loss that is not finite is None."""
    with run.frozen():
        severities = [finding.severity for finding in run.findings]
        ordered = in_story_order(run.findings, diagnose(run.findings, explains()).stories)
        worst = min(severities, key=lambda each: each.rank, default=None)
        curves = [s for s in run.scalars("loss") if s.mode == Mode.TRAIN and len(s.values_S)]
        return {
            "run": run.id,
            "state": str(run.state),
            "steps": run.steps,
            "verdict": run.verdict[:MAX_CHARS],
            "worst": "ok" if worst in (None, Severity.INFO) else str(worst),
            "findings": [
                {
                    "severity": str(finding.severity),
                    "name": fault_name(finding),
                    "step": finding.step,
                    "since": finding.began,
                    "layer": finding.layers[0][:MAX_CHARS] if finding.layers else "",
                }
                for finding in ordered[:FINDINGS]
            ],
            "loss": _points(curves[0]) if curves else [],
        }


def _points(series: Series) -> list[list[float | None]]:
    """Return steps and losses: the highest loss of each part of the steps, or a non-finite loss."""
    values_S = np.asarray(series.values_S, np.float64)
    found: list[list[float | None]] = []
    for part in np.array_split(np.arange(len(values_S)), min(len(values_S), POINTS)):
        finite = np.isfinite(values_S[part])
        at = int(part[values_S[part].argmax()] if finite.all() else part[~finite][0])
        value = float(values_S[at])
        found.append([int(series.steps_S[at]), value if np.isfinite(value) else None])
    return found


def _keep_up(strip: Any, run: Run, every_s: float) -> None:
    closed = threading.Event()
    strip.observe(lambda _: closed.set(), names="comm")
    while not closed.wait(every_s) and strip.comm is not None:
        try:
            run.refresh()
            strip.shown = strip_of(run)
        except MothtrapError as err:
            strip.shown = {**strip.shown, "verdict": str(err)[:MAX_CHARS], "state": "unreadable"}
            return
        if run.state != "running":
            return
