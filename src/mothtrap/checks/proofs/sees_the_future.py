"""PRE102: a model that predicts the next step of a sequence sees that step."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from mothtrap.checks.check import Check
from mothtrap.checks.step import Array, Forward, LossSeen
from mothtrap.checks.subject import Subject
from mothtrap.core.errors import NotApplicable
from mothtrap.core.found import Found
from mothtrap.core.frozen import frozen
from mothtrap.core.thresholds import threshold

LEAST_KNOWN = 0.2
"""Least share of the targets that the loss does not ignore; chosen by hand."""


@frozen
class SeesTheFuture(Check):
    """A model that predicts the next step of a sequence sees that step.

    What it detects:
        Outputs before a position that change when the input from that position on changes, although
        the targets are the inputs shifted by one.

    Why it matters:
        The model copies the answer from its input. The training loss falls to almost nothing, but
        generation fails, because the next tokens do not exist yet.

    Fires:
        Error when an output at a position changes by more than `least`, and the target at that
        position is the input at a later position. The check replaces the end of the sequence at
        three positions, in evaluation mode.

    Stays quiet:
        Targets that are not the shifted inputs; classification of sequences.

    What to do:
        - Pass a causal mask, and check its diagonal: position t may only see positions up to t.
        - Keras: Pass `use_causal_mask=True` to `MultiHeadAttention`.
        - PyTorch: A boolean mask has opposite meanings in `nn.MultiheadAttention` (True = hidden)
          and `scaled_dot_product_attention` (True = visible).

    Example:
        torch.triu(torch.ones(n, n), diagonal=2).bool()   # shows one token too many

    References:
        https://arxiv.org/abs/1706.03762
    """

    code = "PRE102"
    title = "the model sees the future"
    uses = ("step",)
    passed = "no output sees a later step of its sequence"
    costs = 1
    least: float = threshold(
        1e-4, unit="standard deviations", source="measured: healthy models differ by at most 4e-7"
    )

    def run(self, subject: Subject) -> Iterable[Found]:
        """Report outputs that see the future."""
        forward, loss = subject.forward, subject.step.loss
        if loss is None:
            raise NotApplicable("no loss function call was recorded")
        path = _shifted(forward, loss, subject.step.target)
        tokens = forward.inputs[path]
        length = tokens.shape[1]
        usual = forward.outputs()
        for position in sorted({length // 4, length // 2, 3 * length // 4}, reverse=True):
            if position < 1:
                continue
            changed = tokens.copy()
            changed[:, position:] = _other(tokens[:, position:])
            other = forward.outputs({path: changed})
            size = self._change(usual, other, tokens.shape, position)
            if size > self.least:
                where = self._first_part(forward, path, changed, tokens.shape, position)
                yield Found(
                    step=0,
                    severity="error",
                    message=f"outputs of {forward.model} before position {position} change by "
                    f"{size:.2g} standard deviations when the input from {position} on changes"
                    + (f"; the first layer that sees the future is {where}" if where else ""),
                    layers=(where,) if where else (),
                    location=forward.location,
                    evidence={"position": position, "change": size},
                )
                return

    def _change(
        self,
        usual: tuple[Array, ...],
        other: tuple[Array, ...],
        shape: tuple[int, ...],
        position: int,
    ) -> float:
        found = [
            _change_before(position, rows, _in_rows(after, shape), axes)
            for before, after in zip(usual, other, strict=True)
            if (axes := _axes_of_steps(rows := _in_rows(before, shape), shape))
        ]
        if not found:
            raise NotApplicable("no output of the model has one row for each position")
        return max(found)

    def _first_part(
        self, forward: Forward, path: str, changed: Array, shape: tuple[int, ...], position: int
    ) -> str:
        parts = zip(forward.parts(), forward.parts({path: changed}), strict=False)
        for (name, before), (_, after) in parts:
            axes = _axes_of_steps(before, shape) if before.shape == after.shape else ()
            if axes and _change_before(position, before, after, axes) > self.least:
                return name
        return ""


def _in_rows(array: Array, shape: tuple[int, ...]) -> Array:
    """Return an output with an axis of rows, if rows and steps share its first axis."""
    rows, steps = shape[:2]
    is_flat = array.ndim == 2 and len(array) == rows * steps
    return array.reshape(rows, steps, -1) if is_flat else array


def _axes_of_steps(array: Array, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the axes that may be the steps of sequences; `shape` is the shape of the tokens.

    Steps are on the axis after the rows, on the last axis (convolutions), on the last but one
    (weights of attention, of which the last axis is attended to), or before the rows (recurrent
    layers).
    """
    rows, steps = shape[:2]
    if array.ndim < 2:
        return ()
    if array.shape[0] == rows:
        places = {1, array.ndim - 2, array.ndim - 1} - {0}
        return tuple(axis for axis in places if array.shape[axis] == steps)
    return (0,) if array.shape[:2] == (steps, rows) else ()


def _change_before(position: int, before: Array, after: Array, axes: tuple[int, ...]) -> float:
    """Return the largest change before a position, in standard deviations.

    With several axes of the same size, the axis with the smallest change is the axis of the steps.
    """
    difference = np.abs(after - before)
    spread = float(before.std()) or 1.0
    return min(
        float(difference.take(range(position), axis=axis).max(initial=0.0)) / spread
        for axis in axes
    )


def _other(tokens: Array) -> Array:
    """Return other values of the same kind: the values of the next row, shifted by one."""
    changed = np.roll(np.roll(tokens, 1, axis=0), 1, axis=1)
    if np.array_equal(changed, tokens):
        changed = tokens[:, ::-1].copy()
    return changed


def _shifted(forward: Forward, loss: LossSeen, target: Array | None) -> str:
    """Return the path of the input whose next step is the target.

    Targets that the loss ignores, such as padding, are left out. `target` is the target of the step
    whose inputs `forward` has, if it is known; `loss` may be of an earlier step.

    Raises:
        NotApplicable: there is none.
    """
    target = loss.target if target is None else target
    for path, array in forward.inputs.items():
        if array.ndim >= 2 and array.shape[1] > 3:
            following = array[:, 1:].reshape(-1)
            shaped = _as_sequence(target, array)
            if shaped is None:
                continue
            for candidate in (shaped[:, :-1], shaped):
                if candidate.size != following.size:
                    continue
                flat = candidate.reshape(-1)
                known = flat != loss.options.get("ignore_index", -100)
                if known.mean() >= LEAST_KNOWN and np.array_equal(flat[known], following[known]):
                    return path
    raise NotApplicable("the targets are not the inputs of the next step")


def _as_sequence(target: Array, tokens: Array) -> Array | None:
    rows, length = tokens.shape[:2]
    rest = int(np.prod(tokens.shape[2:], dtype=int))
    for size in (length, length - 1):
        if target.size == rows * size * rest:
            return target.reshape(rows, size, *tokens.shape[2:])
    return None
