"""Observations of attention layers, shared by the rules on attention."""

from __future__ import annotations

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.layers import AttentionLook
from mothtrap.core.window import Window


def by_operation(window: Window) -> dict[str, list[AttentionLook]]:
    """Return the observations of each attention layer, by its description, in order.

    Graphs with a different number of attention layers than the first graph are left out,
    because their layers cannot be matched.

    Raises:
        CannotJudge: No attention layer was observed.
    """
    looks = list(window.seen(AttentionLook))
    if not looks:
        if window.total_steps < 1:
            raise NotEnoughData("no graph of a loss was observed")
        raise NotApplicable("no attention layer was found in the graph of a loss")
    found: dict[str, list[AttentionLook]] = {}
    for look in looks:
        if look.of == looks[0].of and look.location == looks[0].location:
            found.setdefault(f"attention {look.number + 1} of {look.of}", []).append(look)
    return found
