"""Buffers of models that a collection requests, captured after each step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch
from torch import nn

from mothtrap.adapters.torch.job.naming import Root, class_name, strip_wrappers
from mothtrap.adapters.torch.job.readable import is_plain
from mothtrap.core.tensors import TensorInfo
from mothtrap.statistics.torch.dtypes import type_name
from mothtrap.tracing.jobs.identity import ByIdentity

if TYPE_CHECKING:
    from mothtrap.adapters.torch.job.job import Job


class BufferObserver:
    """Captures buffers of all called models, such as running means of batch norms."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._ids: ByIdentity[nn.Module, dict[str, int]] = ByIdentity()

    def closed(self, _: int) -> None:
        """Handle the end of a step, before any further forward pass."""
        if not self._job.recorder.due.is_due("buffer"):
            return
        ids, values = [], []
        for root in self._job.book.roots:
            for number, value in self._buffers_of(root):
                ids.append(number)
                values.append(value)
        self._job.recorder.captures.reduce("buffer", ids, values)

    def _buffers_of(self, root: Root) -> Iterator[tuple[int, torch.Tensor]]:
        whole = root.module()
        if whole is None:
            return
        for path, module in whole.named_modules():
            base = root.prefix + strip_wrappers(path)
            base += "." if base and not base.endswith(".") else ""
            for name, value in module.named_buffers(recurse=False):
                if is_plain(value):
                    yield self._number(module, name, base + name, value), value

    def _number(self, module: nn.Module, name: str, full: str, value: torch.Tensor) -> int:
        known = self._ids.get(module)
        if known is None:
            known = self._ids[module] = {}
        if name not in known:
            book = self._job.book
            known[name] = self._job.recorder.tensors.define(
                TensorInfo(
                    kind="buffer",
                    name=full,
                    module=book.module_name(module),
                    module_type=class_name(module),
                    shape=tuple(value.shape),
                    dtype=type_name(value.dtype),
                    location=book.location(module),
                )
            )
        return known[name]
