"""Random keys in a jaxpr: reused keys, and the arguments on which keys depend."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from mothtrap.adapters.jax import internals
from mothtrap.adapters.jax.graph import INLINED, OUTSIDE
from mothtrap.adapters.jax.internals import Caller

SAME: Final = frozenset({"random_wrap", "random_unwrap", "convert_element_type", "copy"})
"""Operations whose result is the key that they receive."""
UNKNOWN: Final = "?"
"""Line of a draw that no line of the script makes."""
DERIVING: Final = frozenset(
    {"random_split", "random_fold_in", "slice", "squeeze", "reshape", "gather", "dynamic_slice"}
)
"""Operations that derive keys from a key and constants: the same keys each time."""


@dataclass(frozen=True, slots=True)
class Key:
    """A random key: how it was made, and the arguments on which it depends.

    Attributes:
        made: origin of the key; equal for keys that are known to be the same.
        arguments: positions among the inputs of the function; empty for a key made from constants,
            and None if they are unknown.
    """

    made: Hashable
    arguments: frozenset[int] | None = None


@dataclass(slots=True)
class Draws:
    """Draws of random numbers.

    Attributes:
        lines: lines of each key.
        arguments: positions of the inputs from which a used key derives, with the line of the
            first draw; an empty set for keys made from constants.
        dropouts: lines that draw zeros and ones with a probability, as a dropout does.
    """

    lines: dict[Key, list[str]] = field(default_factory=lambda: defaultdict(list))
    arguments: dict[frozenset[int], str] = field(default_factory=dict)
    dropouts: list[str] = field(default_factory=list)

    def twice(self) -> list[list[str]]:
        """Return the lines of keys that are used more than once."""
        return [lines for lines in self.lines.values() if len(lines) > 1]


def draws_of(closed: Any) -> Draws:
    """Return the draws of random numbers in a function."""
    draws = Draws()
    _Walk(draws).jaxpr(
        closed.jaxpr,
        [Key(("argument", n), frozenset({n})) for n in range(len(closed.jaxpr.invars))],
    )
    return draws


class _Walk:
    def __init__(self, draws: Draws) -> None:
        self._draws, self._made = draws, 0
        self._called: list[str] = []

    def jaxpr(
        self, jaxpr: Any, inputs: Sequence[Key | None], caller: Caller = OUTSIDE
    ) -> list[Key | None]:
        keys: dict[Any, Key | None] = dict(zip(jaxpr.invars, inputs, strict=False))
        for eqn in jaxpr.eqns:
            given = [None if hasattr(atom, "val") else keys.get(atom) for atom in eqn.invars]
            results = self._equation(eqn, given, caller)
            keys.update(zip(eqn.outvars, results, strict=False))
        return [None if hasattr(atom, "val") else keys.get(atom) for atom in jaxpr.outvars]

    def _equation(self, eqn: Any, given: Sequence[Key | None], caller: Caller) -> list[Key | None]:
        name, count = eqn.primitive.name, len(eqn.outvars)
        if name in INLINED:
            inner = eqn.params[INLINED[name]]
            own = str(eqn.params.get("name", ""))
            inside = Caller("", internals.line_of_equation(eqn, caller), own)
            self._called.append(own)
            results = self.jaxpr(getattr(inner, "jaxpr", inner), given, inside)
            self._called.pop()
            return results
        key = given[0] if given else None
        if name == "random_bits":
            line = internals.line_of_equation(eqn, caller) or UNKNOWN
            if key is not None:
                self._drawn(key, line)
            if any(name.strip("_") == "bernoulli" for name in self._called):
                self._draws.dropouts.append(line)
            return [None] * count
        if name == "random_seed":
            constant = hasattr(eqn.invars[0], "val")
            value = str(eqn.invars[0].val) if constant else id(eqn)
            return [Key(("seed", value), frozenset() if constant else None)]
        if name in SAME:
            return [key] * count
        if name in DERIVING and key is not None:
            return self._derived(eqn, key, given[1:], count)
        return [None] * count

    def _derived(
        self, eqn: Any, key: Key, others: Sequence[Key | None], count: int
    ) -> list[Key | None]:
        literals = tuple(str(atom.val) for atom in eqn.invars[1:] if hasattr(atom, "val"))
        known = len(literals) == len(eqn.invars) - 1
        if not known:
            self._made += 1
        how = (key.made, eqn.primitive.name, str(eqn.params), literals, 0 if known else self._made)
        variable = [
            other
            for atom, other in zip(eqn.invars[1:], others, strict=True)
            if not hasattr(atom, "val")
        ]
        on = [one.arguments if one is not None else None for one in (key, *variable)]
        complete = [one for one in on if one is not None]
        made = Key(how, frozenset().union(*complete) if len(complete) == len(on) else None)
        return [made] * count

    def _drawn(self, key: Key, line: str) -> None:
        self._draws.lines[key].append(line)
        if key.arguments is not None:
            self._draws.arguments.setdefault(key.arguments, line)
