import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

class Passage:
    def __init__(
        self,
        original: Callable[..., Any],
        observed: Callable[..., Any],
        odd: Callable[[nn.Module, Any], None],
        tensor: type,
        strided: torch.layout,
        transforms: Callable[[], object],
    ) -> None: ...
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...
    def begin(self, keeps: bool, room: int) -> None: ...
    def take(
        self,
    ) -> list[tuple[weakref.ref[nn.Module], torch.Tensor | weakref.ref[torch.Tensor]]]: ...
    def end(
        self,
    ) -> list[tuple[weakref.ref[nn.Module], torch.Tensor | weakref.ref[torch.Tensor]]]: ...
