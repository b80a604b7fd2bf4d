"""Modules of the user whose `forward` depends on the training mode.

It calls `functional.dropout(x, training=self.training)`, or updates buffers if `self.training`.
Neither is a module that could be recognized by its type, so the code of `forward` is read.
"""

from __future__ import annotations

import dis
import inspect
from functools import lru_cache
from itertools import pairwise
from typing import Any

from torch import nn

DROPOUTS = frozenset(["dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout"])
MAX_CLASSES = 1024
"""Number of classes whose code is remembered."""


def drops_values(module: nn.Module) -> bool:
    """Return whether the `forward` of a module calls a dropout function that is active in training.

    The rate is unknown. A module whose attributes for it, such as `self.dropout`, are all 0 drops
    nothing.
    """
    if not _reads(type(module))[1]:
        return False
    rates = [
        value
        for name, value in vars(module).items()
        if "drop" in name.lower() and isinstance(value, int | float)
    ]
    return not rates or any(rates)


def updates_buffers(module: nn.Module) -> bool:
    """Return whether a module has buffers of its own, and a `forward` that reads the mode."""
    return _reads(type(module))[0] and any(
        buffer.is_floating_point() for buffer in module.buffers(recurse=False)
    )


def _reads(kind: type[nn.Module]) -> tuple[bool, bool]:
    """Return whether the `forward` of a class reads `training`, and also calls a dropout."""
    forward = getattr(kind, "forward", None)  # the class of scripted modules has none
    return _code_reads(inspect.unwrap(forward)) if forward is not None else (False, False)


@lru_cache(maxsize=MAX_CLASSES)
def _code_reads(forward: Any) -> tuple[bool, bool]:
    code = getattr(forward, "__code__", None)
    library = getattr(forward, "__module__", None) or ""
    if code is None or library.startswith("torch.") or "training" not in code.co_names:
        return False, False
    pairs = pairwise(dis.get_instructions(code))
    return True, any(_is_dropout(before, instruction) for before, instruction in pairs)


def _is_dropout(before: dis.Instruction, instruction: dis.Instruction) -> bool:
    """Return whether an instruction reads `F.dropout`, and not a module such as `self.dropout`."""
    if instruction.argval not in DROPOUTS:
        return False
    return "GLOBAL" in before.opname or before.argval == "functional"
