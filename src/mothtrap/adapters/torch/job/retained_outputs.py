"""The outputs of the latest forward, kept until it is known whether the step was faulty."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence

import torch
from torch import nn

from mothtrap.adapters.torch.job.readable import has_own_values, is_readable
from mothtrap.tracing.jobs.identity import OwnRef

nodes_made: Callable[[], int] = torch.autograd._get_sequence_nr  # type: ignore[attr-defined]
"""Function that returns the number of graph nodes made by this thread; private, with a test."""

RETAINED_BYTES = 64 * 2**20
"""Maximum size of outputs whose values are kept alive; others exist as long as the training needs
them.

They are kept without their graph, so that nothing else stays alive with them. Chosen by hand so
that users do not notice.
"""
RETAINED_OUTPUTS = 4096
"""Number of outputs after which the next root starts over, for forwards without a backward."""

Noted = list[
    tuple[
        "weakref.ref[nn.Module]",
        "weakref.ref[torch.Tensor]",
        torch.Tensor | None,
        int | None,
        bytes | None,
    ]
]
"""For each completed module, in order of completion: the module, its output, the values of the
output without a graph if there was room for them, the version of these values if all values are
needed, and their row (`row_reader`) if it was computed immediately.
"""
Retained = tuple[nn.Module | None, torch.Tensor | None]
_Entry = tuple[weakref.ref[nn.Module] | None, torch.Tensor | weakref.ref[torch.Tensor] | None]


class RetainedOutputs:
    """Outputs of modules in order of completion, and inputs of root modules.

    Attributes:
        room: bytes of values that can still be kept.
        ended: number of the first operation after the latest forward pass.
        used: a backward pass has run, so the outputs are only needed until the next forward.
    """

    def __init__(self) -> None:
        self._entries: list[_Entry] = []
        self.room = RETAINED_BYTES
        self.used = False
        self._began = self.ended = 0

    def root_called(
        self, args: Sequence[object], kwargs: Mapping[str, object], *, keep: bool
    ) -> None:
        """Handle the start of a forward pass, releasing data that a backward has used.

        Args:
            args: arguments of the root.
            kwargs: its keyword arguments.
            keep: the forward pass belongs to training.
        """
        self._began = self.ended = nodes_made()
        if self.used or len(self._entries) > RETAINED_OUTPUTS:
            self._entries.clear()
            self.room = RETAINED_BYTES
            self.used = False
        if keep:
            for value in (*args, *kwargs.values()):
                if isinstance(value, torch.Tensor):
                    self._entries.append((None, OwnRef(value)))

    def made(self, node: torch.autograd.graph.Node) -> bool:
        """Return whether an operation of the graph ran inside the latest forward pass."""
        return self._began <= node._sequence_nr() < self.ended

    def add(self, module: nn.Module, output: torch.Tensor) -> None:
        """Store an output."""
        kept: torch.Tensor | weakref.ref[torch.Tensor]
        size = output.nbytes if output.layout is torch.strided else RETAINED_BYTES + 1
        if size <= self.room and has_own_values(output):
            self.room -= size
            kept = output.detach()
        else:
            kept = OwnRef(output)
        self._entries.append((weakref.ref(module), kept))

    def extend(self, noted: Noted) -> None:
        """Store noted outputs, as `add` does."""
        for owner, output, values, _, _ in noted:
            size = values.nbytes if values is not None else 0
            if values is None or size > self.room:
                self._entries.append((owner, output))
            else:
                self.room -= size
                self._entries.append((owner, values))

    def release(self) -> None:
        """Release all values, because the loss is finite, and the backward pass needs the memory.

        Otherwise a residual network causes twice as many page faults as without mothtrap.
        """
        if self.room < RETAINED_BYTES:
            for place, (owner, kept) in enumerate(self._entries):
                if not isinstance(kept, weakref.ref):
                    self._entries[place] = owner, None
            self.room = RETAINED_BYTES

    def __iter__(self) -> Iterator[Retained]:
        """Yield modules and outputs; None for the module of a root's input, or a deleted tensor."""
        for owner, kept in self._entries:
            tensor = kept() if isinstance(kept, weakref.ref) else kept
            if tensor is not None and not is_readable(tensor):
                tensor = None
            module = owner() if owner is not None else None
            if owner is None or module is not None:
                yield module, tensor
