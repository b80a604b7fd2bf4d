"""Weak references to the user's tensors that do not interfere with the program.

`torch.utils.swap_tensors` (PyTorch 2.3 and later) exchanges the content of two tensor objects. It
raises if a tensor has a weak reference, since the content behind it would change unnoticed.
`load_state_dict` and `module.half()` call it if a script asks for that with
`torch.__future__.set_swap_module_params_on_conversion(True)`; `parametrize` and sharding call it,
too. References that mothtrap holds are hidden from the check.
"""

from __future__ import annotations

import types
import weakref
from typing import Any, TypeVar

import torch

from mothtrap.tracing.jobs.identity import OwnRef

T = TypeVar("T")


class ContentRef(OwnRef[T]):
    """Weak reference to a tensor that remembers its content and version.

    Content that was swapped in may have the same version, so `swapped` is also checked. It is an
    attribute, because hooks check it hundreds of times in a step.

    Attributes:
        swapped: the tensor has received other content since the reference was created.
    """

    swapped = False


class UnchangedRef:
    """Weak reference to a tensor that returns it only while its values are unchanged."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self._reference = ContentRef(tensor)
        self._version = _version_of(tensor)

    def __call__(self) -> torch.Tensor | None:
        """Return the tensor; None if it was deleted or written to."""
        tensor = self._reference()
        if tensor is None or self._reference.swapped:
            return None
        return tensor if _version_of(tensor) == self._version else None


def _version_of(tensor: torch.Tensor) -> int | None:
    """Return the count of writes to a tensor; None in inference mode, which does not count."""
    return None if tensor.is_inference() else tensor._version


def _of_others(tensor: Any) -> list[weakref.ref[Any]]:
    """Return the user's weak references to a tensor that is about to be swapped."""
    others = []
    for reference in weakref.getweakrefs(tensor):
        if isinstance(reference, ContentRef):
            reference.swapped = True
        if not isinstance(reference, OwnRef):
            others.append(reference)
    return others


def allow_swaps() -> None:
    """Let `swap_tensors` exchange tensors to which only mothtrap refers.

    The function looks up the references through the name `weakref` in its own module. That name is
    replaced instead of the function, which scripts may have imported before. It stays replaced when
    mothtrap is detached, because references can outlive the hooks.
    """
    module: Any = torch.utils
    if getattr(module, "weakref", None) is weakref:
        view: Any = types.ModuleType(weakref.__name__, weakref.__doc__)
        view.__dict__.update({**vars(weakref), "getweakrefs": _of_others})
        module.weakref = view
