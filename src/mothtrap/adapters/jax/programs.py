"""Static properties of a compiled function, read from its jaxpr."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from mothtrap.adapters.jax import internals, keys

CALLBACKS: Final = frozenset({"debug_callback", "debug_print", "pure_callback", "io_callback"})

FILLING: Final = frozenset({"broadcast_in_dim", "convert_element_type"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """Static facts of a function, found without running it.

    Attributes:
        callbacks: lines that call back into Python.
        draws: draws of random numbers.
        zeros: positions of the results that are 0 for all arguments.
        read: positions of the arguments on which a result depends.
    """

    callbacks: tuple[str, ...]
    draws: keys.Draws
    zeros: frozenset[int]
    read: frozenset[int]


def read(closed: Any) -> Program:
    """Return the operations in a function's jaxpr."""
    callbacks = [
        internals.line_of_equation(eqn) or "?"
        for eqn in equations(closed.jaxpr)
        if eqn.primitive.name in CALLBACKS
    ]
    return Program(
        callbacks=tuple(dict.fromkeys(callbacks)),
        draws=keys.draws_of(closed),
        zeros=frozenset(_zeros(closed.jaxpr)),
        read=internals.inputs_read(closed.jaxpr),
    )


def equations(jaxpr: Any) -> Iterator[Any]:
    """Yield the operations of a jaxpr, and of the jaxprs inside it."""
    for eqn in jaxpr.eqns:
        yield eqn
        for value in eqn.params.values():
            for inner in value if isinstance(value, tuple | list) else (value,):
                inner = getattr(inner, "jaxpr", inner)
                if hasattr(inner, "eqns"):
                    yield from equations(inner)


def _zeros(jaxpr: Any) -> Iterator[int]:
    made = {out: eqn for eqn in jaxpr.eqns for out in eqn.outvars}
    for index, atom in enumerate(jaxpr.outvars):
        while not hasattr(atom, "val"):
            eqn = made.get(atom)
            if eqn is None or eqn.primitive.name not in FILLING:
                break
            atom = eqn.invars[0]
        if hasattr(atom, "val") and not getattr(atom.val, "ndim", 0) and float(atom.val) == 0.0:
            yield index
