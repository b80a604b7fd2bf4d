"""Shared parts of the rules on attention: the looks at each attention of a model."""

from __future__ import annotations

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.layers import AttentionLook
from mothtrap.core.window import Window


def by_operation(window: Window) -> dict[str, list[AttentionLook]]:
    """The looks at each attention, by its place in words, in order.

    Looks at graphs with another number of attentions than the first are left out: which
    of theirs is which is not known.

    Raises:
        CannotJudge: no attention was looked at.
    """
    looks = list(window.seen(AttentionLook))
    if not looks:
        if window.total_steps < 1:
            raise NotEnoughData("no graph of a loss was looked at")
        raise NotApplicable("no attention was seen in the graph of a loss")
    found: dict[str, list[AttentionLook]] = {}
    for look in looks:
        if look.of == looks[0].of and look.location == looks[0].location:
            found.setdefault(f"attention {look.number + 1} of {look.of}", []).append(look)
    return found
