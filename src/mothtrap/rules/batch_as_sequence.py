"""STR723: a recurrent or attention layer runs over the batch instead of the sequence."""

from __future__ import annotations

from collections.abc import Sequence

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.layers import RowTaken, SequenceAxes
from mothtrap.core.facts.losses import LossCall
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.steps import Mode
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window


@rule(
    "STR723",
    needs=[
        Need(facts=(SequenceAxes,)),
        Need(facts=(LossCall,)),
        Need(facts=(RowTaken,), optional=True),
    ],
    explains=("loss_not_decreasing", "stuck_at_chance", "overfit"),
)
def batch_as_sequence(
    window: Window,
    *,
    looks: int = threshold(
        2, unit="steps", source="chosen by hand: sizes can agree once by chance"
    ),
    share: float = threshold(
        0.75,
        unit="of the observations",
        source=("chosen by hand: some observations are from evaluations"),
    ),
    backwards: int = threshold(4, unit="backward passes", source="chosen by hand"),
) -> Found | None:
    """A recurrent or attention layer runs over the batch instead of the sequence.

    What it detects:
        A recurrent layer or `nn.MultiheadAttention` without `batch_first`, which treats axis 0 as
        the sequence, although axis 0 is the batch: its size equals the number of rows of the loss,
        or of samples that the `DataLoader` drew, or the targets are the next tokens along axis 1.
        Also `out[-1]` of a recurrent layer with `batch_first=True`.

    Why it matters:
        Information flows between the rows of a batch, and not between the positions of a
        sequence. The loss may still fall, but the model ignores the order of the sequence, and
        each prediction depends on the other rows of its batch. With `batch_first=True`, `out[-1]`
        is the last row of the batch: its positions become the predictions for all rows.

    Fires:
        Warning when in `looks` steps, and in `share` of the steps that were inspected, axis 1 of
        the input has more than one entry and axis 0 is the batch: the loader drew as many samples
        as axis 0 has entries and axis 1 has another size, or, without a loader, every loss has as
        many rows as axis 0 and no axis of the prediction has the size of axis 1. Also when the
        targets are next tokens, with one sequence per entry of axis 0 and the length of axis 1.
        Also when, in `backwards` sampled backward passes, the output of a recurrent layer has its
        axes swapped back, only its last row is used, and the loss has one row for each position.

    Stays quiet:
        For batches of one sequence, batch sizes equal to the sequence length, and hand-written
        attention. Without a loader, for losses over every position, except next-token losses.

    What to do:
        - Set `batch_first=True` on the module, because the batch is axis 0 of the data.
        - Or swap the axes before the module: `x.transpose(0, 1)`.
        - Take the last position of each row: `out[:, -1]` instead of `out[-1]`.

    Example:
        nn.LSTM(8, 64)(x)                       # x has shape (batch, time, 8)
        nn.LSTM(8, 64, batch_first=True)(x)

    References:
        https://docs.pytorch.org/docs/stable/generated/torch.nn.LSTM.html
    """
    taken = next((one for one in window.seen(RowTaken) if one.found >= backwards), None)
    if taken is not None:
        return _of_taken_row(taken, backwards)
    seen: dict[str, list[SequenceAxes]] = {}
    for axes in window.seen(SequenceAxes):
        seen.setdefault(axes.module, []).append(axes)
    if not seen:
        raise NotApplicable("no recurrent or attention layer treats axis 0 as the sequence")
    losses: dict[int, list[LossCall]] = {}
    for call in window.seen(LossCall):
        if call.mode is Mode.TRAIN:
            losses.setdefault(call.step, []).append(call)
    sequences = _next_tokens(window)
    judged = {
        module: [
            _swapped(axes, losses.get(axes.step, ()), sequences)
            for axes in every
            if axes.step in losses or axes.samples or sequences
        ]
        for module, every in seen.items()
    }
    if all(len(verdicts) < looks for verdicts in judged.values()):
        raise NotEnoughData(f"fewer than {looks} steps have both the loss and the module")
    wrong = [
        module for module, found in judged.items() if sum(found) >= max(looks, share * len(found))
    ]
    if not wrong:
        return None
    first = seen[wrong[0]][0]
    batch, length = first.shape[:2]
    source = f"the loss has {batch} rows"
    if sequences is not None:
        source = f"the targets are the next tokens of {batch} sequences along axis 1"
    elif first.samples == batch:
        source = f"the loader drew {batch} samples for the batch"
    return Found.of(
        seen[wrong[0]],
        f"{first.module} ({first.module_type}) treats axis 0 of its input of shape {first.shape} "
        f"as the sequence, but {source}: it runs over the {batch} rows of the batch, and treats "
        f"the {length} positions as separate examples",
        count=len(seen[wrong[0]]),
        layers=tuple(wrong[:10]),
        evidence={"shape": list(first.shape), "modules": len(wrong)},
    )


def _of_taken_row(taken: RowTaken, backwards: int) -> Found:
    """Report that the last row of a batch is taken for the last position of each row."""
    batch, length = taken.shape[:2]
    return Found.of(
        taken,
        f"the last of {batch} rows is taken from an output of shape {taken.shape} (batch, "
        f"sequence, units), and its {length} positions become the predictions for all rows, in "
        f"{taken.found} of {taken.looks} sampled backward passes (limit {backwards})",
        title="last row taken as last position",
        step=0,
        count=taken.found,
        evidence={"shape": list(taken.shape), "found": taken.found, "limit": backwards},
        fixes=(2,),
    )


def _next_tokens(window: Window) -> tuple[int, int] | None:
    """Return number and length of the sequences whose next tokens are the targets."""
    calls = window.seen(LossCall)
    found = {call.targets.sequences for call in calls if call.targets is not None}
    found.discard(None)
    return found.pop() if len(found) == 1 else None


def _swapped(
    axes: SequenceAxes, losses: Sequence[LossCall], sequences: tuple[int, int] | None
) -> bool:
    """Return whether the module's sequence axis is the batch.

    Next tokens know it for certain, then the loader, then the rows of the losses.
    """
    first, second = axes.shape[:2]
    if first == second or second < 2:
        return False
    if sequences is not None:
        count, length = sequences
        return first == count and second in (length, length - 1)
    if axes.samples in (first, second):
        return axes.samples == first
    shapes = [call.prediction_shape for call in losses]
    return bool(shapes) and all(
        shape and shape[0] == first and second not in shape for shape in shapes
    )
