"""Identity of a tensor that can be captured."""

from __future__ import annotations

from typing import Literal

import msgspec

Role = Literal["", "rectifier", "saturating"]


class TensorInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Description of a tensor, without its values.

    `name` is the qualified name in the framework. `module` is the path of the module that owns or
    produces the tensor, `module_type` its class name, and `role` its role for rules (`rectifier`:
    ReLU and variants, `saturating`: sigmoid, tanh). `location` is the `file:line` that constructs
    the module. `shape` is the shape at the first observation. `scope` describes the part of the
    tensor that a worker holds (`shard 1/2 of dim 0`); empty means all of it. `global_shape` is the
    shape of the whole tensor if it differs from `shape`. `of_root` is True for inputs and outputs
    of a model that user code calls, and False for its submodules. `held_before` is True if
    a worker of lower rank holds the same values.
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
    held_before: bool = False

    @property
    def identity(self) -> str:
        """Kind and name as `kind:name`."""
        return f"{self.kind}:{self.name}"
