"""Facts about reinforcement learning that the source of the running script shows."""

from __future__ import annotations

from mothtrap.core.facts.evaluations import BootstrappedTargets
from mothtrap.core.facts.losses import TrainedTarget, UnreadEnds
from mothtrap.tracing.source.environments import running_files
from mothtrap.tracing.source.episode_ends import discounted_line, unread_ends
from mothtrap.tracing.source.taped_targets import taped_target


def of_running_files(step: int) -> UnreadEnds | None:
    """Return the fact about the functions that are running."""
    found = unread_ends(running_files())
    return UnreadEnds(step=step, name=found[0], location=found[1]) if found else None


def bootstrapped(step: int, steps: int) -> BootstrappedTargets | None:
    """Return the fact that targets are computed from values, such as `reward + gamma * value`.

    For frameworks in which a target that is computed outside the loss cannot be observed.
    """
    line = discounted_line(running_files())
    if line is None:
        return None
    return BootstrappedTargets(step=step, module="the model", steps=steps, location=line)


def trained_target(step: int, steps: int) -> TrainedTarget | None:
    """Return the fact that a target under a tape has a gradient, as the source shows."""
    line = taped_target(running_files())
    if line is None:
        return None
    return TrainedTarget(step=step, looks=steps, trained=steps, location=line)
