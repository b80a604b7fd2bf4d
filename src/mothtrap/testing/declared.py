"""A window that gives a rule only its declared data."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

from mothtrap.core.fact import Fact
from mothtrap.core.needs import Need, facts_of
from mothtrap.core.steps import Mode
from mothtrap.core.window import FactT, Matrix, Series, Window


class UndeclaredRead(AssertionError):
    """A rule reads data that none of its needs names."""


class DeclaredWindow(Window):
    """A window that refuses reads that no need names; made by `declared`."""

    __slots__ = ("_needs",)
    _needs: tuple[Need, ...]

    def scalars(self, name: str, mode: Mode = Mode.TRAIN) -> tuple[Series, ...]:
        """Like `Window.scalars`, for scalars that a need names."""
        if name not in _scalars(self._needs):
            raise UndeclaredRead(f'the rule reads {name}; declare Need(scalars=("{name}",))')
        return super().scalars(name, mode)

    def matrix(self, kind: str, statistic: str, mode: Mode = Mode.TRAIN) -> Matrix | None:
        """Like `Window.matrix`, for statistics that a need names."""
        if (kind, statistic) not in _statistics(self._needs):
            raise UndeclaredRead(
                f"the rule reads {statistic} of {kind}; declare "
                f'Need(kinds=("{kind}",), statistics=("{statistic}",))'
            )
        return super().matrix(kind, statistic, mode)

    def seen(self, kind: type[FactT], *, steps: int = 0) -> Iterator[FactT]:
        """Like `Window.seen`, for facts that a need names."""
        if not any(issubclass(declared, kind) for declared in facts_of(self._needs)):
            name = kind.__name__
            raise UndeclaredRead(f"the rule reads {name}; declare Need(facts=({name},))")
        return super().seen(kind, steps=steps)

    def of_library(self, library: str) -> Window:
        """Like `Window.of_library`, with the same restrictions on reads."""
        found = super().of_library(library)
        object.__setattr__(found, "_needs", self._needs)
        return found


def declared(window: Window, needs: Iterable[Need]) -> Window:
    """Return a window, with its companions, that shows only data named by the needs.

    Reading other data by name raises `UndeclaredRead`.
    """
    needs = tuple(needs)
    facts, statistics, scalars = facts_of(needs), _statistics(needs), _scalars(needs)
    values = {
        field.name: getattr(window, field.name)
        for field in dataclasses.fields(window)
        if field.init
    }
    values |= {
        "series": tuple(s for s in window.series if s.name in scalars),
        "matrices": tuple(m for m in window.matrices if (m.kind, m.statistic) in statistics),
        "observations": tuple(o for o in window.observations if _is_among(o, facts)),
        "peers": tuple(declared(peer, needs) for peer in window.peers),
        "reference": declared(window.reference, needs) if window.reference else None,
    }
    made = DeclaredWindow(**values)
    object.__setattr__(made, "_needs", needs)
    return made


def _is_among(fact: Fact, kinds: frozenset[type[Fact]]) -> bool:
    return isinstance(fact, tuple(kinds))


def _scalars(needs: Iterable[Need]) -> frozenset[str]:
    return frozenset(name for need in needs for name in need.scalars)


def _statistics(needs: Iterable[Need]) -> frozenset[tuple[str, str]]:
    return frozenset((k, s) for need in needs for k in need.kinds for s in need.statistics)
