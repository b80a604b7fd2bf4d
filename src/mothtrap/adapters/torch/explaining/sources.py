"""Origin of a tensor on which an operation failed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from mothtrap.adapters.torch.data.data_sources import Batch, Source
from mothtrap.adapters.torch.data.inputs import argument_names
from mothtrap.adapters.torch.data.samplers import samples_of
from mothtrap.adapters.torch.explaining import wording
from mothtrap.adapters.torch.explaining.scene import Call, Scene
from mothtrap.adapters.torch.job.nested import placed_tensors
from mothtrap.adapters.torch.job.readable import is_plain

if TYPE_CHECKING:
    from mothtrap.adapters.torch.job.naming import NameBook
    from mothtrap.adapters.torch.job.retained_outputs import RetainedOutputs


@dataclass(frozen=True, slots=True)
class Sources:
    """Names of modules, and origins of tensors.

    Attributes:
        book: names of modules.
        held: outputs of the latest forward pass.
        batch: latest data from a loader; None if there is none.
        asked: a loader that failed, and the samples that it should have loaded.
        recomputes: segments of the forward pass run again in the backward pass.
    """

    book: NameBook
    held: RetainedOutputs
    batch: Batch | None = None
    asked: tuple[Source, tuple[int, ...]] | None = None
    recomputes: bool = False

    def named(self, module: nn.Module) -> str:
        """Return a module as text."""
        return wording.named(module, self.book)

    def maker(self, tensor: torch.Tensor) -> tuple[nn.Module, torch.Tensor] | None:
        """Return the module whose output uses a tensor's memory, with the output."""
        if not is_plain(tensor) or not tensor.numel():
            return None
        memory = tensor.untyped_storage().data_ptr()
        found: tuple[nn.Module, torch.Tensor] | None = None
        for module, output in self.held:
            if module is None or output is None or not is_plain(output):
                continue
            if output.untyped_storage().data_ptr() == memory:
                found = module, output
        return found

    def told(self, tensor: torch.Tensor, scene: Scene) -> str:
        """Return the origin of a tensor as part of a sentence; empty if unknown."""
        made = self.maker(tensor)
        if made is not None and not any(made[0] is call.module for call in scene.calls):
            text = f"comes from {self.named(made[0])}"
            if made[1].shape != tensor.shape:
                text += f", which gave {wording.shape(made[1])}"
            return text
        for call in scene.calls[:1] if len(scene.calls) > 1 else ():
            for name, given in arguments(call):
                if isinstance(given, torch.Tensor) and given is tensor:
                    model = wording.path_of(call.module, self.book)
                    return f"is the argument {name} of {model}"
        return ""

    def samples(self) -> tuple[int, ...]:
        """Return the samples in the latest batch; empty if its loader does not report them."""
        loader = self.batch.source.loader() if self.batch is not None else None
        if self.batch is None or loader is None:
            return ()
        return samples_of(loader, self.batch.drawn)

    def provenance(self) -> str:
        """Return the origin of the latest batch; empty if no loader provided it."""
        if self.batch is None:
            return ""
        source, rows, samples = self.batch.source, _rows(self.batch), self.samples()
        text = source.label + (f" ({source.location})" if source.location else "")
        if rows is not None:
            size = source.plan.batch_size
            text += f" gave {rows} row{'' if rows == 1 else 's'}"
            if is_short(self.batch):
                text += f", fewer than its batch size {size}"
        if samples:
            text += f"; {wording.samples(samples)} of its data"
        return text


def is_short(batch: Batch | None) -> bool:
    """Return whether a batch has fewer rows than the loader's other batches."""
    if batch is None:
        return False
    rows, size = _rows(batch), batch.source.plan.batch_size
    return rows is not None and size is not None and rows < size


def arguments(call: Call) -> Iterator[tuple[str, Any]]:
    """Yield the arguments of a module call, by their names in `forward`."""
    kind: type = type(call.module)
    names = argument_names(kind)
    for place, value in enumerate(call.args):
        yield names[place] if place < len(names) else str(place), value
    yield from call.kwargs.items()


def first_tensor(call: Call) -> tuple[str, torch.Tensor] | None:
    """Return the first tensor passed to a module, with the argument name."""
    for name, value in arguments(call):
        for place, tensor in placed_tensors(value, name):
            return place, tensor
    return None


def _rows(batch: Batch) -> int | None:
    drawn = batch.drawn
    if isinstance(drawn, list | tuple):
        return len(drawn)
    counts = {rows for rows, _ in batch.sizes}
    return counts.pop() if len(counts) == 1 else None
