"""The fact about ends of episodes that the running script receives, but never reads."""

from __future__ import annotations

from mothtrap.core.facts.losses import UnreadEnds
from mothtrap.tracing.source.environments import running_files
from mothtrap.tracing.source.episode_ends import unread_ends


def of_running_files(step: int) -> UnreadEnds | None:
    """Return the fact for the functions from which the running line is called."""
    found = unread_ends(running_files())
    return UnreadEnds(step=step, name=found[0], location=found[1]) if found else None
