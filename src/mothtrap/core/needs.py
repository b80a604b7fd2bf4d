"""The tensors, numbers and facts that a rule, or another reader of a run, evaluates."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from mothtrap.core.fact import Fact
from mothtrap.core.schedule import Schedule
from mothtrap.core.steps import Mode
from mothtrap.core.tensors import Role


class Need(msgspec.Struct, frozen=True, kw_only=True):
    """Data that a rule reads: statistics of tensors, facts, and scalars.

    Only data that some selected rule needs is captured. A rule runs only if everything that its
    needs name was captured. If a need lists several `kinds`, one of them is enough. Data of an
    `optional` need may be missing. `any_of` joins alternative needs.

    Attributes:
        kinds: kinds of tensors, e.g. `gradient`.
        statistics: ids of statistics of these tensors, e.g. `l2`.
        roles: roles of the modules whose activations are needed; empty means all modules.
        tensors: patterns of the needed tensors (see `Collection`); empty means all.
        of_root: restrict inputs and outputs to whole models, which user code calls.
        modes: modes in which data is needed; steps of an evaluation are its forward passes.
        every: capture every n-th step, and all steps at the start; ignored with a `schedule`.
        schedule: captured steps, counted in each mode.
        steps: number of captured steps that the rule looks back over.
        facts: types of facts.
        scalars: names of scalars, e.g. `loss`.
        optional: the rule can run without this data.
        each_step: the facts must be observed at every step; otherwise, observers sample steps.
        alternative: set by `any_of`; the same text in all needs that it combines.
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
    """Combine alternative needs.

    Args:
        needs: needs that are all captured; the rule can be evaluated if the data of any of them
            exists.
    """
    name = " or ".join(map(str, needs))
    return tuple(msgspec.structs.replace(need, alternative=name) for need in needs)


def required(needs: Iterable[Need]) -> list[tuple[Need, ...]]:
    """Return the required needs, grouped into alternatives."""
    found: dict[str, list[Need]] = {}
    for number, need in enumerate(needs):
        if not need.optional:
            found.setdefault(need.alternative or str(number), []).append(need)
    return [tuple(alternatives) for alternatives in found.values()]


def facts_of(needs: Iterable[Need], *, each_step: bool = False) -> frozenset[type[Fact]]:
    """Return the facts that any of the needs names.

    Args:
        needs: needs, such as those of rules.
        each_step: only facts that must be observed at every step.
    """
    return frozenset(
        fact for need in needs if need.each_step or not each_step for fact in need.facts
    )
