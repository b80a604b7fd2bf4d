"""Overhead of mothtrap in a run, in words."""

from __future__ import annotations

from mothtrap.core.runs import Overhead
from mothtrap.core.texts import readable
from mothtrap.report.summary import RunSummary

FEW_STEPS = 100
"""With fewer steps, the fully observed first steps dominate the cost; chosen by hand."""

MAX_SHED = 4
"""Maximum number of capture reasons named in a line; chosen by hand."""


def cost_of(summary: RunSummary) -> str:
    """Describe the overhead of a run; empty without steps or if it is not informative."""
    run = summary.run
    if not run.steps or not run.kind.has_overhead:
        return ""
    return cost_in_words(summary.overhead, run.steps, len(run.workers))


def cost_in_words(cost: Overhead, steps: int, workers: int = 1) -> str:
    """Describe the overhead, its parts, and why it exceeds the budget, if it does.

    Args:
        cost: measured cost.
        steps: steps of each worker.
        workers: workers with these costs.
    """
    if cost.ratio > 1:
        share = f"more than the training time of {cost.seconds / cost.ratio:.2f} s"
    else:
        share = f"{100 * cost.ratio:.1f} % of the training time"
    text = f"{share} ({cost.seconds:.2f} s"
    if cost.capture_seconds:
        text += f": hooks {_hooks_s(cost):.2f} s, statistics {cost.capture_seconds:.2f} s"
    why = f"{_why(cost, steps, workers)}{_unwatched(cost, steps)}{_asked(cost)}{_shed(cost)}"
    return readable(f"{text}){why}{_added(cost, workers)}")


def _added(cost: Overhead, workers: int) -> str:
    """Return the total added time, and its parts other than the hooks."""
    parts = {
        "imports": cost.start_seconds / max(1, workers),
        "threads": cost.beside_seconds / max(1, workers),
        "closing": cost.close_seconds / max(1, workers),
        "slower code between hooks (estimated)": cost.slowed_seconds / max(1, workers),
        "launcher": cost.launcher_seconds,
    }
    named = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in parts.items() if seconds)
    if not named:
        return ""
    saved_s = cost.saved_seconds / max(1, workers)
    saved = f"; shorter garbage collection saved about {saved_s:.1f} s" if saved_s else ""
    return f"; mothtrap added {cost.added_seconds:.2f} s in total: {named}{saved}"


def _why(cost: Overhead, steps: int, workers: int) -> str:
    if not 0 < cost.budget < cost.ratio or not steps or not workers:
        return ""
    above = f"; above the budget of {100 * cost.budget:g} %, because"
    if steps < FEW_STEPS:
        return f"{above} the first steps cost more, and there were only {steps}"
    if cost.unwatched:
        return f"{above} each of the first steps is observed"
    wall_s = cost.seconds / cost.ratio
    if _hooks_s(cost) <= cost.budget * wall_s:
        return f"{above} the first steps and the NaN check at each step are never skipped"
    per_step = 1000 / (steps * workers)
    step_ms, fixed_ms = wall_s * per_step, _hooks_s(cost) * per_step
    return f"{above} steps of {step_ms:.2g} ms are too short for a fixed cost of {fixed_ms:.2g} ms"


def _unwatched(cost: Overhead, steps: int) -> str:
    """Return the number of steps that were not observed, in words."""
    if not cost.unwatched:
        return ""
    return (
        f"; {cost.unwatched:,} of {steps:,} steps were too short to observe "
        "(set overhead = 0 to observe every step)"
    )


def _asked(cost: Overhead) -> str:
    """Return the cost of captures that the user requested, which the budget does not limit."""
    if not cost.asked_seconds:
        return ""
    share = f"{100 * cost.asked_ratio:.1f} % ({cost.asked_seconds:.2f} s)"
    return f"; captures that you requested took {share} more"


def _shed(cost: Overhead) -> str:
    """Return the thinned captures, the most frequent first."""
    if not cost.shed:
        return ""
    more = len(cost.shed) - MAX_SHED
    rest = f"; and {more} more (mothtrap show --format json --all lists all)" if more > 0 else ""
    return f"; skipped to stay in the budget: {'; '.join(cost.shed[:MAX_SHED])}{rest}"


def _hooks_s(cost: Overhead) -> float:
    """Seconds of the hooks, which are the same at each step."""
    return max(0.0, cost.seconds - cost.capture_seconds)
