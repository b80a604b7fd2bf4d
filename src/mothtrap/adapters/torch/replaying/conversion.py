"""Create the values of a snapshot on this machine's devices and in the requested type.

If a replay uses another device or another floating-point type than the run, all tensors that the
script creates or moves are converted, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from mothtrap.adapters.torch.recording.values import framework_value
from mothtrap.core.replays import ReplayPlan
from mothtrap.core.snapshots import Array, Tree
from mothtrap.snapshot.tree import value_of

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
CASTS = frozenset({"float", "half", "bfloat16", "double"})
MOVES = frozenset({"cuda", "xpu", "cpu"})


class Conversion:
    """Creates values from trees; every call creates new values."""

    def __init__(self, arrays: Mapping[str, Array], plan: ReplayPlan) -> None:
        self._arrays = arrays
        self.device = plan.device
        self.dtype: torch.dtype | None = getattr(torch, plan.dtype) if plan.dtype else None

    @property
    def converts(self) -> bool:
        """Return whether any value is converted."""
        return self.device is not None or self.dtype is not None

    def install(self) -> None:
        """Redirect tensors that the script creates and moves to the requested device and type."""
        if not self.converts:
            return
        if self.dtype is not None:
            torch.set_default_dtype(self.dtype)
        Elsewhere(self.device, self.dtype).__enter__()  # type: ignore[no-untyped-call]
        _lead_autocast(self.device, enabled=self.dtype is None)

    def made(self, tree: Tree) -> Any:
        """Return the value of a tree."""
        return self.made_together(tree)[0]

    def made_together(self, *trees: Tree) -> list[Any]:
        """Return the values of several trees, sharing tensors with the same key."""
        make = framework_value(self._arrays, self.device)
        known: dict[str, torch.Tensor] = {}

        def once(tree: dict[str, Any]) -> Any:
            if "tensor" not in tree:
                return make(tree)
            key = repr(tree)
            if key not in known:
                known[key] = self._converted(make(tree))
            return known[key]

        return [value_of(tree, self._arrays, once) for tree in trees]

    def _converted(self, tensor: torch.Tensor) -> torch.Tensor:
        if self.dtype is None or tensor.dtype not in FLOATS:
            return tensor
        return tensor.detach().to(self.dtype).requires_grad_(tensor.requires_grad)


class Elsewhere(TorchFunctionMode):
    """Creates every tensor on one device and in one floating-point type.

    Args:
        device: device that replaces every specified device; None = unchanged.
        dtype: dtype that replaces every specified floating-point type; None = unchanged.
    """

    def __init__(self, device: str | None, dtype: torch.dtype | None) -> None:
        super().__init__()
        self._device = torch.device(device) if device else None
        self._dtype = dtype

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],  # PyTorch's signature
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Call a PyTorch function with the requested device and type."""
        name = getattr(func, "__name__", "")
        if self._dtype is not None and name in CASTS and args:
            return args[0].to(self._dtype)
        if self._device is not None and name in MOVES and args:
            return args[0].to(self._device)
        given = {key: self._led(value, key) for key, value in (kwargs or {}).items()}
        return func(*(self._led(value) for value in args), **given)

    def _led(self, value: Any, key: str = "") -> Any:
        if self._dtype is not None and isinstance(value, torch.dtype) and value in FLOATS:
            return self._dtype
        if self._device is not None and (
            isinstance(value, torch.device) or (key == "device" and value is not None)
        ):
            return self._device
        return self._device if self._names_device(value) else value

    def _names_device(self, value: Any) -> bool:
        return (
            self._device is not None
            and isinstance(value, str)
            and value.partition(":")[0] in ("cuda", "xpu", "mps", "cpu")
        )


def _lead_autocast(device: str | None, *, enabled: bool) -> None:
    """Make autocast use the requested device; disable it if a type is requested."""
    original = torch.autocast.__init__

    def begin(self: Any, device_type: str, *args: Any, **kwargs: Any) -> None:
        if not enabled:
            kwargs["enabled"] = False
            args = args[:1]
        kind = device.partition(":")[0] if device else device_type
        original(self, kind, *args, **kwargs)

    setattr(torch.autocast, "__init__", begin)  # noqa: B010  # for the type checker
