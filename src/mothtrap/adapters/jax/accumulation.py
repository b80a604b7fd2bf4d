"""Find gradients of micro-batches that a compiled step adds up without averaging them.

The step is traced once more, with a mark on each gradient. The jaxpr then shows what is added.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, Final

from mothtrap.adapters.jax import internals
from mothtrap.adapters.jax.differentiating import MARK
from mothtrap.adapters.jax.functions import Book
from mothtrap.adapters.jax.graph import INLINED
from mothtrap.adapters.jax.jitted import Jitted
from mothtrap.adapters.jax.programs import FILLING, equations
from mothtrap.adapters.jax.shadow import traced

UNCHANGED: Final = frozenset({"convert_element_type", "copy", "reshape", "copy_p"})
ADDITIONS: Final = frozenset({"add", "add_any"})
Sum = tuple[int, str]
"""Number of added gradients, and the mark that all of them have."""


def added(jitted: Jitted, book: Book, args: Any, kwargs: Any) -> int:
    """Return how many gradients of a mean loss a step adds without averaging them.

    Args:
        jitted: the compiled step.
        book: record of the thread.
        args: its arguments, by position.
        kwargs: its arguments, by name.

    Returns:
        0 if it adds none, or may average them.
    """
    book.marks = True
    try:
        with internals.traced_anew():
            jaxpr = traced(jitted, args, kwargs)
    finally:
        book.marks = False
    count = max((number for number, _ in _sums(jaxpr)), default=0)
    return count if count > 1 and _has_mean(jaxpr) and not _averages(jaxpr, count) else 0


def _sums(jaxpr: Any) -> Iterator[Sum]:
    """Yield the sums of gradients in a jaxpr and those inside it."""
    made = {out: eqn for eqn in jaxpr.eqns for out in eqn.outvars}
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == "scan":
            yield from _accumulated(eqn, made)
        elif eqn.primitive.name in ADDITIONS:
            found = _sum(eqn.outvars[0], made)
            if found is not None:
                yield found
        if eqn.primitive.name in INLINED:
            inner = eqn.params[INLINED[eqn.primitive.name]]
            yield from _sums(getattr(inner, "jaxpr", inner))


def _accumulated(scan: Any, made: dict[Any, Any]) -> Iterator[Sum]:
    """Yield the sums that a loop starts at 0 and to which it adds a gradient in each turn."""
    params = scan.params
    fixed, carried = params["num_consts"], params["num_carry"]
    body = params["jaxpr"].jaxpr
    inside = {out: eqn for eqn in body.eqns for out in eqn.outvars}
    starts = scan.invars[fixed : fixed + carried]
    before, after = body.invars[fixed : fixed + carried], body.outvars[:carried]
    for start, given, result in zip(starts, before, after, strict=True):
        eqn = _made(result, inside)
        if eqn is None or eqn.primitive.name not in ADDITIONS or not _is_zero(start, made):
            continue
        others = [atom for atom in eqn.invars if atom is not given]
        found = _sum(others[0], inside) if len(others) == 1 else None
        if found is not None:
            yield found[0] * params["length"], found[1]


def _sum(atom: Any, made: dict[Any, Any]) -> Sum | None:
    """Return the gradients whose sum a value is; None if it is something else."""
    eqn = _made(atom, made)
    if eqn is None:
        return None
    name = eqn.primitive.name
    if name == "name" and str(eqn.params["name"]).startswith(MARK):
        return 1, eqn.params["name"]
    if name in INLINED:
        inner = eqn.params[INLINED[name]]
        inner = getattr(inner, "jaxpr", inner)
        inside = {out: one for one in inner.eqns for out in one.outvars}
        return _sum(inner.outvars[list(eqn.outvars).index(atom)], inside)
    if name not in ADDITIONS:
        return None
    parts = [_sum(one, made) for one in eqn.invars if not _is_zero(one, made)]
    if not parts or None in parts or len({part[1] for part in parts if part}) > 1:
        return None
    return sum(part[0] for part in parts if part), parts[0][1] if parts[0] else ""


def _made(atom: Any, made: dict[Any, Any]) -> Any:
    """Return the equation that made a value, without changes of its type or shape."""
    eqn = None if hasattr(atom, "val") else made.get(atom)
    while eqn is not None and eqn.primitive.name in UNCHANGED:
        atom = eqn.invars[0]
        eqn = None if hasattr(atom, "val") else made.get(atom)
    return eqn


def _is_zero(atom: Any, made: dict[Any, Any]) -> bool:
    while not hasattr(atom, "val"):
        eqn = made.get(atom)
        if eqn is None or eqn.primitive.name not in FILLING:
            return False
        atom = eqn.invars[0]
    return not getattr(atom.val, "ndim", 0) and float(atom.val) == 0.0


def _numbers(jaxpr: Any, operation: str, passed: Collection[int] = ()) -> Iterator[float]:
    """Yield the constant numbers by which a program divides or multiplies.

    Args:
        jaxpr: the program.
        operation: `div` or `mul`.
        passed: identities of operations that do not count.
    """
    for eqn in equations(jaxpr):
        if eqn.primitive.name == operation and id(eqn) not in passed:
            for atom in eqn.invars:
                value = getattr(atom, "val", None)
                if value is not None and not getattr(value, "ndim", 0):
                    yield float(value)


def _is_number(eqn: Any) -> bool:
    return len(eqn.outvars) == 1 and not getattr(eqn.outvars[0].aval, "ndim", 1)


def _has_mean(jaxpr: Any) -> bool:
    return any(number > 1 for number in _numbers(jaxpr, "div"))


def _averages(jaxpr: Any, count: int) -> bool:
    """Return whether a program divides anything by a number of gradients.

    If a loop adds the gradients, a number outside of it is the sum of losses, which is shown.
    """
    loops = any(eqn.primitive.name == "scan" for eqn in jaxpr.eqns)
    shown = {id(eqn) for eqn in jaxpr.eqns if loops and _is_number(eqn)}
    if count in _numbers(jaxpr, "div", shown):
        return True
    factors = _numbers(jaxpr, "mul", shown)
    return any(abs(number * count - 1) < 1e-4 for number in factors)
