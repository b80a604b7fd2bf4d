"""Module states that share memory with the module, and are loaded again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from mothtrap.core.facts.workers import RestoredNothing
from mothtrap.tracing.jobs.identity import ByIdentity
from mothtrap.tracing.source import frames

if TYPE_CHECKING:
    from mothtrap.adapters.torch.job.job import Job

MAX_STATES = 64
"""Maximum number of states that are tracked while the script keeps them."""
MAX_REPORTED = 16


class RestoreObserver:
    """Detects a state loaded into the module whose own tensors it contains."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._states: ByIdentity[Any, tuple[int, str | None]] = ByIdentity()
        self._reported = 0

    def given(self, state: Any) -> None:
        """Record the state that `module.state_dict` returned."""
        if len(self._states) < MAX_STATES and isinstance(state, OrderedDict):
            taken = self._job.grouper.steps_applied, frames.user_location()
            self._states[state] = taken

    def loading(self, module: nn.Module, state: Any) -> None:
        """Handle the start of loading a state into a module."""
        taken = self._states.get(state) if isinstance(state, Mapping) else None
        step = self._job.grouper.steps_applied
        if taken is None or taken[0] >= step or self._reported >= MAX_REPORTED:
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


def _is_same_memory(parameter: torch.Tensor, loaded: Any) -> bool:
    return (
        isinstance(loaded, torch.Tensor)
        and loaded.numel() > 0
        and loaded.layout is torch.strided
        and loaded.data_ptr() == parameter.data_ptr() != 0
        and loaded.shape == parameter.shape
    )
