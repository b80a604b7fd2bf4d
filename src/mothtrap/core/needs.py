"""The tensors, numbers and facts that a rule, or another reader of a run, judges by."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from mothtrap.core.fact import Fact
from mothtrap.core.schedule import Schedule
from mothtrap.core.steps import Mode
from mothtrap.core.tensors import Role


class Need(msgspec.Struct, frozen=True, kw_only=True):
    """Tensors of some kinds reduced to some statistics, facts, and scalars.

    Capture takes the union of the needs of the rules in force: no rule, no cost. All that a
    need names is required, of tensors any of the kinds, unless it is `optional`: then it is
    read where it is there. Where one of several needs is enough, `any_of` joins them.

    `facts` are reported by observers that look now and then; with `each_step` one must look
    at every step. `scalars` are numbers of a step by name.
    `roles` narrows activations to modules of these roles; empty means all modules.
    `tensors` narrows to those that match one of its patterns (see `Collection`).
    `of_root` leaves only inputs and outputs of whole models, those that user code calls.
    `modes`: in which of them; an evaluation's steps are its forwards. `schedule` says when,
    counted in steps of a mode; without one it is every `every` steps, and all at the start.
    `steps` is how many captured steps the rule looks back over.
    `alternative` is the same in needs that `any_of` joined, and empty in others.
    """

    kinds: tuple[str, ...] = ()
    statistics: tuple[str, ...] = ()
    roles: tuple[Role, ...] = ()
    tensors: tuple[str, ...] = ()
    of_root: bool = False
    modes: tuple[Mode, ...] = (Mode.TRAIN,)
    every: int = 1
    schedule: Schedule | None = None
    steps: int = 500
    facts: tuple[type[Fact], ...] = ()
    scalars: tuple[str, ...] = ()
    optional: bool = False
    each_step: bool = False
    alternative: str = ""

    def __str__(self) -> str:
        """Return the need in words."""
        of = " of " if self.kinds and self.statistics else ""
        tensors = f"{'/'.join(self.statistics)}{of}{'/'.join(self.kinds)}"
        return ", ".join(filter(None, (tensors, *self.scalars, *(f.__name__ for f in self.facts))))


def any_of(*needs: Need) -> tuple[Need, ...]:
    """Join needs of which one is enough.

    Args:
        needs: each is captured; a rule can judge where what one of them names is there.
    """
    name = " or ".join(map(str, needs))
    return tuple(msgspec.structs.replace(need, alternative=name) for need in needs)


def required(needs: Iterable[Need]) -> list[tuple[Need, ...]]:
    """Return what must be there, as alternatives of which one is enough."""
    found: dict[str, list[Need]] = {}
    for number, need in enumerate(needs):
        if not need.optional:
            found.setdefault(need.alternative or str(number), []).append(need)
    return [tuple(alternatives) for alternatives in found.values()]


def facts_of(needs: Iterable[Need], *, each_step: bool = False) -> frozenset[type[Fact]]:
    """Return the facts that any of some needs names.

    Args:
        needs: of rules, say.
        each_step: only those that an observer must look for at every step.
    """
    return frozenset(
        fact for need in needs if need.each_step or not each_step for fact in need.facts
    )
