import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

_Entry = tuple[
    weakref.ref[nn.Module],
    weakref.ref[torch.Tensor],
    torch.Tensor | None,
    int | None,
    bytes | None,
]

class Passage:
    room: int
    last: weakref.ref[torch.Tensor] | None
    spent_s: float
    def __init__(
        self,
        report: Callable[[nn.Module, Any], None],
        tensor: type,
        strided: torch.layout,
        detach: Callable[[torch.Tensor], torch.Tensor],
        transforms: Callable[[], object],
        tracing: Callable[[], object],
        look: Callable[[torch.Tensor], bytes | None] | None,
        modes: tuple[Callable[[], int], ...],
    ) -> None: ...
    def __call__(
        self, method: Callable[..., Any], module: nn.Module, *args: Any, **kwargs: Any
    ) -> Any: ...
    def passes(self, module: nn.Module) -> bool: ...
    def open(
        self,
        root: nn.Module,
        keeps: bool,
        room: int,
        last: weakref.ref[torch.Tensor] | None,
        at_once: set[int] = ...,
        looked_at: set[int] = ...,
        /,
    ) -> None: ...
    def take(self) -> list[_Entry]: ...
    def close(self) -> list[_Entry]: ...
