"""OPT628: the last batches of a pass do not fill a group of accumulated gradients."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.data import BatchesLoaded, LoaderBegan
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.proof import Proof
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Ints, Window


@dataclass(frozen=True, slots=True)
class _Passes:
    """Passes over a training loader of `batches` batches, which ended before the steps `ends`."""

    began: LoaderBegan
    batches: int
    ends: tuple[int, ...]


@rule(
    "OPT628",
    title="last batches of a pass are left over",
    needs=[Need(facts=(BatchesLoaded, LoaderBegan), scalars=("micro_batches",))],
    proof=Proof(title="Micro-batches per step", scalars=("micro_batches",)),
)
def accumulation_left_over(
    window: Window,
    *,
    share: float = threshold(0.1, unit="of the batches of a pass", source="chosen by hand"),
    num_passes: int = threshold(2, unit="passes", source="chosen by hand"),
) -> Found | None:
    """The last batches of a pass do not fill a group of accumulated gradients.

    What it detects:
        A loop that steps after every k batches, counts the batches of each pass from 0, and has a
        number of batches that k does not divide. The gradients of the last batches are cleared, or
        are added to the first step of the next pass.

    Why it matters:
        Cleared gradients are computed for nothing, and a part of each pass is not trained on. If
        they are added to the next step, its gradient has too many batches and is too large.

    Fires:
        When in at least `num_passes` passes all steps have the same number of batches, and the
        batches left over at the end are in no step, or all in the first step of the next pass.
        Warning if they are at least `share` of the batches of a pass, otherwise a note.

    Stays quiet:
        If the last batches make a smaller step. If the batches are counted across passes, so that
        a group can begin in one pass and end in the next. If a pass ends early. While too few
        passes have ended to distinguish these cases.

    What to do:
        - Step at the end of the pass, too:
          `if (i + 1) % k == 0 or i + 1 == len(loader):`.
        - Or count the batches across passes, and clear gradients only after a step.

    Example:
        for i, (x, y) in enumerate(loader):
            (criterion(model(x), y) / k).backward()
            if (i + 1) % k == 0 or i + 1 == len(loader):
                optimizer.step()
                optimizer.zero_grad()

    References:
        https://huggingface.co/docs/accelerate/usage_guides/gradient_accumulation
    """
    counted = [one for one in window.scalars("micro_batches") if len(one)]
    if not counted:
        raise NotEnoughData("no backward pass was recorded")
    step_S, count_S = counted[0].steps_S, counted[0].values_S.astype(np.int64)
    group = int(np.bincount(count_S).argmax())
    if group < 2:
        raise NotApplicable("most steps have one backward pass: nothing is accumulated")
    for one in _of_training(window):
        found = _left_over(one, group, step_S, count_S, num_passes)
        if found is None:
            continue
        rest, added = found
        of_pass = rest / one.batches
        words = (
            f"are added to the first step of the next pass, which then has {group + rest}"
            if added
            else f"are cleared: {of_pass:.0%} of each pass is not trained on"
        )
        return Found(
            step=one.ends[0],
            last_step=one.ends[-1],
            count=len(one.ends),
            severity="warning" if of_pass >= share else "info",
            message=(
                f"{one.began.loader} has {one.batches} batches per pass, and each step accumulates "
                f"{group}. The gradients of the last {rest} batches {words}"
            ),
            evidence={
                "batches": one.batches,
                "accumulates": group,
                "left_over": rest,
                "share": of_pass,
                "limit": share,
            },
            location=one.began.location,
        )
    return None


def _of_training(window: Window) -> list[_Passes]:
    """Return the training loaders whose first passes all ended.

    Raises:
        NotEnoughData: No pass has ended.
        NotApplicable: The numbers of batches are unknown.
    """
    ended = [one for one in window.seen(BatchesLoaded) if one.ended and one.trained]
    if not ended:
        raise NotEnoughData("no pass over training data has ended")
    found = []
    for began in window.seen(LoaderBegan):
        own = [one for one in ended if one.loader == began.loader]
        whole = [one.pass_number for one in own] == list(range(1, len(own) + 1))
        if own and whole and began.batches and {one.batches for one in own} == {began.batches}:
            found.append(_Passes(began, began.batches, tuple(one.step for one in own)))
    if not found:
        raise NotApplicable("no training loader has a known number of batches in every pass")
    return found


def _left_over(
    one: _Passes, group: int, step_S: Ints, count_S: Ints, passes: int
) -> tuple[int, bool] | None:
    """Return the number of batches that are left over, and whether the next step gets them."""
    groups, rest = divmod(one.batches, group)
    first, number = one.began.step, len(one.ends)
    if not rest or not groups or number < passes:
        return None
    if one.ends != tuple(first + (at + 1) * groups for at in range(number)):
        return None
    inside_S = (step_S >= first) & (step_S < one.ends[-1])
    own_S = count_S[inside_S]
    if len(own_S) != groups * number:
        return None
    own_PG = own_S.reshape(number, groups)
    if (own_PG[:, 1:] != group).any() or own_PG[0, 0] != group:
        return None
    if (own_PG[1:, 0] == group + rest).all():
        return rest, True
    across = number * rest >= group  # a counter that runs on would have made another step
    return (rest, False) if across and (own_PG[1:, 0] == group).all() else None
