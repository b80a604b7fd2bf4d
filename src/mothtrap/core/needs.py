"""What a rule wants to see."""

from __future__ import annotations

import msgspec

from mothtrap.core.tensors import Kind, Role


class Need(msgspec.Struct, frozen=True, kw_only=True):
    """Tensors of some kinds, reduced to some statistics, every so many steps.

    Capture takes the union of the needs of the rules in force: no rule, no cost.
    Scalars and observations cost nothing extra and need not be asked for.
    `roles` narrows activations to modules of these roles; empty means all modules.
    `steps` is how many captured steps the rule looks back over.
    """

    kinds: tuple[Kind, ...]
    statistics: tuple[str, ...]
    roles: tuple[Role, ...] = ()
    every: int = 1
    steps: int = 500
