"""The identity of a tensor that can be captured."""

from __future__ import annotations

from typing import Literal

import msgspec

Role = Literal["", "rectifier", "saturating"]


class TensorInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Description of a tensor apart from its values.

    `name` is the framework's own qualified name. `module` is the path of the module
    that owns or produces the tensor, `module_type` its class name, `role` what the
    module does to its input where rules care (`rectifier`: ReLU and its kin,
    `saturating`: sigmoid, tanh). `location` is `file:line` of the module's
    construction. `shape` is the shape when first seen. `scope` says what part of the
    whole a worker holds, in words (`shard 1/2 of dim 0`); empty means all of it;
    `global_shape` is the shape of the whole where it differs from `shape`. `of_root`: an
    input or output of a module that user code calls, not of a part of one.
    """

    kind: str
    name: str
    module: str = ""
    module_type: str = ""
    role: Role = ""
    shape: tuple[int, ...] = ()
    dtype: str = ""
    location: str | None = None
    scope: str = ""
    global_shape: tuple[int, ...] = ()
    of_root: bool = False

    @property
    def identity(self) -> str:
        """The text form `kind:name`."""
        return f"{self.kind}:{self.name}"
