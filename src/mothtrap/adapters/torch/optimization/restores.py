"""Module states that restore nothing: they share memory with the module, or have other names."""

from __future__ import annotations

import difflib
from collections import OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from mothtrap.core.facts.workers import RestoredNothing, UnmatchedState
from mothtrap.tracing.jobs.identity import ByIdentity
from mothtrap.tracing.source import frames

if TYPE_CHECKING:
    from mothtrap.adapters.torch.job.job import Job

MAX_STATES = 64
"""Maximum number of states that are tracked while the script keeps them."""
MAX_REPORTED = 16
LEAST_SHARED = 0.1
"""Share of matching names below which a state counts as unmatched; chosen by hand."""


class RestoreObserver:
    """Detects a loaded state that contains the module's own tensors, or hardly any of its names.

    A state is recognized by its first tensor, because a shallow copy has the same tensors.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._states: ByIdentity[torch.Tensor, tuple[int, str | None]] = ByIdentity()
        self._reported = 0

    def given(self, state: Any) -> None:
        """Record the state that `module.state_dict` returned."""
        first = _first_tensor(state) if isinstance(state, OrderedDict) else None
        if first is not None and len(self._states) < MAX_STATES:
            self._states[first] = self._job.grouper.steps_applied, frames.user_location()

    def loading(self, module: nn.Module, state: Any, *, strict: bool = True) -> None:
        """Handle the start of loading a state into a module."""
        if not isinstance(state, Mapping) or self._reported >= MAX_REPORTED:
            return
        if not strict:
            self._compare_names(module, state)
        first, step = _first_tensor(state), self._job.grouper.steps_applied
        taken = self._states.get(first) if first is not None else None
        if taken is None or taken[0] >= step:
            return
        own = dict(module.named_parameters())
        pairs = [(parameter, state.get(name)) for name, parameter in own.items()]
        if not pairs or not all(_is_same_memory(*pair) for pair in pairs):
            return
        self._reported += 1
        self._job.recorder.notes.observe(
            RestoredNothing(
                step=step,
                module=self._job.book.module_name(module) or type(module).__name__,
                kept_step=taken[0],
                taken_at=taken[1],
                location=frames.user_location(),
            )
        )

    def _compare_names(self, module: nn.Module, state: Mapping[Any, Any]) -> None:
        """Report a state whose names hardly match those of the module."""
        own = [name for name, _ in (*module.named_parameters(), *module.named_buffers())]
        given = [name for name in state if isinstance(name, str)]
        shared = len(set(own) & set(given))
        if not own or not given or shared >= LEAST_SHARED * min(len(own), len(given)):
            return
        self._reported += 1
        left = next(name for name in own if name not in state)
        similar = difflib.get_close_matches(left, given, 1, 0.0)
        self._job.recorder.notes.observe(
            UnmatchedState(
                step=self._job.grouper.steps_applied,
                module=self._job.book.module_name(module) or type(module).__name__,
                names=len(own),
                given=len(given),
                shared=shared,
                own=left,
                other=next((n for n in given if n.endswith(left)), similar[0]),
                location=frames.user_location(),
            )
        )


def _first_tensor(state: Mapping[Any, Any]) -> torch.Tensor | None:
    return next((value for value in state.values() if isinstance(value, torch.Tensor)), None)


def _is_same_memory(parameter: torch.Tensor, loaded: Any) -> bool:
    return (
        isinstance(loaded, torch.Tensor)
        and loaded.numel() > 0
        and loaded.layout is torch.strided
        and loaded.data_ptr() == parameter.data_ptr() != 0
        and loaded.shape == parameter.shape
    )
