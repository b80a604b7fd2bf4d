"""Modules whose outputs are changed in place before the forward ends.

`ReLU(inplace=True)` writes to the output of the previous layer, and so does `x += y`. The output of
such a layer must be inspected as soon as the layer returns.
"""

from __future__ import annotations

import weakref

import torch
from torch import nn

from mothtrap.adapters.torch.job.readable import has_own_values
from mothtrap.adapters.torch.job.retained_outputs import Noted
from mothtrap.tracing.jobs.identity import ByIdentity, OwnRef

Output = tuple[nn.Module, torch.Tensor | None, bytes | None]
"""A module, its output without a graph, and the row that was computed from it."""
BATCH_BYTES = 64 * 2**20
"""Maximum size of the outputs of a forward that are kept until they are inspected together. Chosen
by hand: little memory, and hundreds of calls at a time.
"""


class RewrittenOutputs:
    """Detects outputs that are changed in place, from each root's first captured forward pass on.

    Attributes:
        modules: identities of the modules whose outputs are changed. The identity of a deleted
            module is harmless: a new module with the same identity is only inspected earlier.
    """

    def __init__(self) -> None:
        self.modules: set[int] = set()
        self._known: ByIdentity[nn.Module, bool] = ByIdentity()
        self.learning: nn.Module | None = None
        self._seen: list[tuple[nn.Module, torch.Tensor | weakref.ref[torch.Tensor], int]] = []
        self._bytes = 0

    def knows(self, root: nn.Module) -> bool:
        """Return whether a forward pass of this root was analyzed."""
        return root in self._known

    def root_called(self) -> None:
        """Handle the start of a forward pass, discarding an interrupted one."""
        self.learning = None
        self._seen.clear()
        self._bytes = 0

    def learn(self, root: nn.Module) -> None:
        """Analyze the forward pass that begins; inference mode counts no versions."""
        self.learning = None if torch.is_inference_mode_enabled() else root

    def returned(self, module: nn.Module, output: torch.Tensor) -> None:
        """Store the current state of an output, as long as there is room."""
        if self.learning is None or output.is_inference() or not has_own_values(output):
            return
        self._bytes += output.nbytes
        kept = OwnRef(output) if self._bytes > BATCH_BYTES else output.detach()
        self._seen.append((module, kept, output._version))

    def root_returned(self) -> None:
        """Handle the end of the forward pass."""
        if self.learning is not None:
            for module, kept, version in self._seen:
                values = kept() if isinstance(kept, weakref.ref) else kept
                if values is not None and values._version != version:
                    self.modules.add(id(module))
            self._seen.clear()
            self._known[self.learning] = True
            self.learning = None

    def intact(self, noted: Noted) -> list[Output]:
        """Return modules with their returned values; None if values no longer exist.

        From now on, outputs of modules whose values no longer exist are inspected immediately.
        """
        outputs: list[Output] = []
        for owner, _, values, version, row in noted:
            module = owner()
            if module is None or values is None:
                continue
            if values._version != version:
                self.modules.add(id(module))
                outputs.append((module, None, None))
            else:
                outputs.append((module, values, row))
        return outputs
