"""Facts about reinforcement learning that the source of the running script shows."""

from __future__ import annotations

from collections.abc import Callable
from types import FrameType
from typing import Any

from mothtrap.core.facts.evaluations import BootstrappedTargets
from mothtrap.core.facts.policies import UnreadEnds
from mothtrap.core.facts.targets import TrainedTarget
from mothtrap.tracing.source import frames
from mothtrap.tracing.source.environments import running_files
from mothtrap.tracing.source.episode_ends import discounted_line, multiplied_ends, unread_ends
from mothtrap.tracing.source.frame_variables import variables
from mothtrap.tracing.source.taped_targets import taped_target

MOST_ENDS = 0.5
"""Largest share of ones in a variable that marks ends. Chosen by hand: a variable with more ones
marks the other states."""


def of_running_files(
    step: int, share: Callable[[Any], float | None] | None = None
) -> UnreadEnds | None:
    """Return a fact if a file of the running functions ignores or inverts the ends of episodes.

    Args:
        step: the step in progress.
        share: returns the share of ones in a variable; None if it contains other values.
    """
    files = running_files()
    found = unread_ends(files)
    if found is not None:
        return UnreadEnds(step=step, name=found[0], location=found[1])
    multiplied = multiplied_ends(files) if share is not None else None
    if share is None or multiplied is None:
        return None
    ends = share(_variable(frames.user_frame(), multiplied[0]))
    if ends is None or ends > MOST_ENDS:
        return None
    return UnreadEnds(step=step, name=multiplied[0], inverted=True, location=multiplied[1])


def _variable(frame: FrameType | None, name: str) -> Any:
    """Return the value of a variable in the innermost frame of the user that has it."""
    while frame is not None:
        for own, value in (variables(frame) or []) if frames.is_users(frame) else ():
            if own == name:
                return value
        frame = frame.f_back
    return None


def bootstrapped(step: int, steps: int) -> BootstrappedTargets | None:
    """Return the fact that targets are computed from values, such as `reward + gamma * value`.

    For frameworks in which a target that is computed outside the loss cannot be observed.
    """
    line = discounted_line(running_files())
    if line is None:
        return None
    return BootstrappedTargets(step=step, module="the model", steps=steps, location=line)


def trained_target(step: int, steps: int) -> TrainedTarget | None:
    """Return a fact if the source computes a target under the tape, so that it has a gradient."""
    line = taped_target(running_files())
    if line is None:
        return None
    return TrainedTarget(step=step, looks=steps, trained=steps, location=line)
