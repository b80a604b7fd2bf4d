"""Reduce a failing call as long as it fails with the same bits.

Tensors are replaced with zeros, and lists and axes are cut. An axis is first cut together with axes
of the same length in other arguments (such as the batch axis), and then alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch

from mothtrap.adapters.torch.origin.failing_calls import (
    CallOutcome,
    FailingCall,
    outcome_of,
)

MAX_TRIALS = 600
"""Maximum number of calls. Chosen by hand: enough to find one element in each of six axes of length
10^6.
"""
MAX_S = 20.0
"""Maximum time for all calls in seconds. Chosen by hand: about as long as a script needs to start.
"""


class Minimizer:
    """Reduces one failing call.

    Args:
        failure: outcome that must be preserved.
        outcome: runs a call.
    """

    def __init__(
        self, failure: CallOutcome, outcome: Callable[[FailingCall], CallOutcome] = outcome_of
    ) -> None:
        self._failure, self._outcome = failure, outcome
        self._trials = 0
        self._until_s = time.monotonic() + MAX_S

    def smallest(self, call: FailingCall) -> FailingCall:
        """Return the smallest call found that fails in the same way."""
        call = self._with_zeros(call)
        call = self._with_shorter_lists(call)
        for length in sorted(_lengths(call.tensors()), reverse=True):
            call = self._shorter(call, length, None)
        for place in range(len(call.tensors())):
            for axis in range(call.tensors()[place].dim()):
                call = self._shorter(call, call.tensors()[place].shape[axis], (place, axis))
        return self._with_zeros(call)

    def _fails(self, call: FailingCall) -> bool:
        self._trials += 1
        if self._trials > MAX_TRIALS or time.monotonic() > self._until_s:
            return False
        return self._outcome(call).shows(self._failure)

    def _with_zeros(self, call: FailingCall) -> FailingCall:
        for place in range(len(call.tensors())):
            chosen = call.tensors()[place]
            if not bool(chosen.detach().any()):
                continue
            tried = call.with_arguments(lambda one, it=chosen: _zeros(one) if one is it else one)  # type: ignore[misc]
            call = tried if self._fails(tried) else call
        return call

    def _with_shorter_lists(self, call: FailingCall) -> FailingCall:
        """Cut all lists of tensors of one length at the same positions."""
        lengths = {len(one) for one in call.args if _is_list(one)}
        for length in sorted(lengths):
            kept = self._kept(length, lambda places, n=length, it=call: _listed(it, n, places))  # type: ignore[misc]
            call = _listed(call, length, kept) if len(kept) < length else call
        return call

    def _shorter(self, call: FailingCall, length: int, only: tuple[int, int] | None) -> FailingCall:
        """Cut the axes of a length: all of them, or one axis of one tensor."""
        if length < 2:
            return call
        kept = self._kept(length, lambda places: _cut(call, length, places, only))
        return _cut(call, length, kept, only) if len(kept) < length else call

    def _kept(self, length: int, made: Callable[[Sequence[int]], FailingCall]) -> Sequence[int]:
        """Return the fewest positions of an axis with which the call still fails (ddmin)."""
        kept: list[int] = list(range(length))
        parts = 2
        while len(kept) > 1:
            size = -(-len(kept) // parts)
            pieces = [kept[begin : begin + size] for begin in range(0, len(kept), size)]
            others = [[at for at in kept if at not in set(piece)] for piece in pieces]
            tried = pieces if parts == 2 else [*pieces, *others]
            smaller = next((one for one in tried if self._fails(made(one))), None)
            if smaller is not None:
                kept, parts = smaller, 2
            elif parts >= min(len(kept), 16) or self._trials > MAX_TRIALS:
                break  # a sixteenth is small enough
            else:
                parts = min(parts * 2, len(kept))
        return kept


def _lengths(tensors: Sequence[torch.Tensor]) -> set[int]:
    return {length for tensor in tensors for length in tensor.shape if length > 1}


def _cut(
    call: FailingCall, length: int, places: Sequence[int], only: tuple[int, int] | None
) -> FailingCall:
    chosen = call.tensors()[only[0]] if only is not None else None

    def cut(tensor: torch.Tensor) -> torch.Tensor:
        if chosen is not None and tensor is not chosen:
            return tensor
        found = tensor.detach()
        for axis in range(found.dim()):
            if found.shape[axis] == length and (only is None or only[1] == axis):
                found = found.index_select(axis, torch.tensor(places, device=found.device))
        return found.contiguous().requires_grad_(tensor.requires_grad)

    return call.with_arguments(cut)


def _listed(call: FailingCall, length: int, places: Sequence[int]) -> FailingCall:
    args = tuple(
        [one[place] for place in places] if _is_list(one) and len(one) == length else one
        for one in call.args
    )
    return replace(call, args=args)


def _is_list(value: Any) -> bool:
    return isinstance(value, list) and len(value) > 1 and isinstance(value[0], torch.Tensor)


def _zeros(tensor: torch.Tensor) -> torch.Tensor:
    return torch.zeros_like(tensor.detach()).requires_grad_(tensor.requires_grad)
