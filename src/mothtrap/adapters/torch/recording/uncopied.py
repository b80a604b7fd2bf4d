"""Tensors that are too large to copy at every step, and are looked up when a step is kept."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import msgspec
import torch

from mothtrap.adapters.torch.job.tensor_refs import ContentRef
from mothtrap.adapters.torch.recording.values import array_of
from mothtrap.core.snapshots import Array, RecordedEvent, RecordedStep

GONE = (
    "was already gone when the snapshot was taken, and is too large to copy at every step (ring_mb)"
)


class Uncopied:
    """A tensor that is not copied, but available while the script keeps it unchanged.

    Attributes:
        key: key that refers to it in trees.
        what: description of the tensor.
        nbytes: size in memory: 0.
        tree: dictionary that refers to it, see `Copy`.
    """

    __slots__ = ("__weakref__", "_tensor", "_version", "key", "tree", "what")
    nbytes = 0

    def __init__(self, key: str, tensor: torch.Tensor, what: str) -> None:
        self.key, self.what, self.tree = key, what, {"tensor": key}
        self._tensor, self._version = ContentRef(tensor), tensor._version

    def array(self) -> Array | None:
        """Return the tensor in stored form; None if it was deleted or written to."""
        tensor = self._tensor()
        if tensor is None or self._tensor.swapped or tensor._version != self._version:
            return None
        return array_of(tensor.detach())


def without(recorded: RecordedStep, gone: Collection[Uncopied]) -> RecordedStep:
    """Return the step with descriptions instead of missing tensors."""
    texts = {uncopied.key: f"{uncopied.what} {GONE}" for uncopied in gone}
    missing = (*recorded.missing, *dict.fromkeys(texts.values()))
    events = tuple(_event(event, texts) for event in recorded.events)
    return msgspec.structs.replace(recorded, events=events, missing=missing)


def _event(event: RecordedEvent, texts: dict[str, str]) -> RecordedEvent:
    trees = {
        name: _tree(getattr(event, name), texts)
        for name in ("value", "args", "kwargs")
        if hasattr(event, name)
    }
    return msgspec.structs.replace(event, **trees)


def _tree(tree: Any, texts: dict[str, str]) -> Any:
    if isinstance(tree, list):
        return [_tree(part, texts) for part in tree]
    if not isinstance(tree, dict):
        return tree
    if tree.get("tensor") in texts:
        return {"opaque": texts[tree["tensor"]]}
    return {name: _tree(part, texts) for name, part in tree.items()}
