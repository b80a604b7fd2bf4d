"""What a rule wants to see."""

from __future__ import annotations

import msgspec

from mothtrap.core.schedule import Schedule
from mothtrap.core.steps import Mode
from mothtrap.core.tensors import Kind, Role


class Need(msgspec.Struct, frozen=True, kw_only=True):
    """Tensors of some kinds, reduced to some statistics, every so many steps.

    Capture takes the union of the needs of the rules in force: no rule, no cost.
    Scalars and observations cost nothing extra and need not be asked for.
    `roles` narrows activations to modules of these roles; empty means all modules.
    `tensors` narrows to those that match one of its patterns (see `Collection`).
    `of_root` leaves only inputs and outputs of whole models, those that user code calls.
    `modes`: in which of them; an evaluation's steps are its forwards. `schedule` says when,
    counted in steps of a mode; without one it is every `every` steps, and all at the start.
    `steps` is how many captured steps the rule looks back over.
    """

    kinds: tuple[Kind, ...]
    statistics: tuple[str, ...]
    roles: tuple[Role, ...] = ()
    tensors: tuple[str, ...] = ()
    of_root: bool = False
    modes: tuple[Mode, ...] = (Mode.TRAIN,)
    every: int = 1
    schedule: Schedule | None = None
    steps: int = 500
