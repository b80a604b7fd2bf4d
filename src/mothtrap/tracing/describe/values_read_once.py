"""Values of the script that a compiled function read while it was traced, and still uses."""

from __future__ import annotations

import inspect
import random
import weakref
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, Final

import numpy as np

from mothtrap.core.adapters import Job
from mothtrap.core.facts.compiling import ValueReadOnce
from mothtrap.tracing.describe.array_digests import digest_of
from mothtrap.tracing.source.frames import line_of
from mothtrap.tracing.source.outside_values import Chain, outside_values

CHECKED_AT: Final = frozenset(2**n for n in range(3, 21))
"""Numbers of calls after which the values are compared; chosen by hand."""
MOST_REPORTED: Final = 4
Arrays = Callable[[Any], Sequence[np.ndarray[Any, Any]]]
"""Returns the arrays of a value on the host; empty if it has none, or must not be read."""


class ReadOnce:
    """Compares the values that a compiled function read while it was traced with current values.

    Args:
        job: receives the facts.
        functions: the traced functions, with the objects whose attributes they read; they are
            weakly referenced.
        arrays: reads the arrays of a value.
        objects: arguments whose methods they call; weakly referenced, too.

    Attributes:
        traces: number of traces, for the caller.
    """

    def __init__(
        self,
        job: Job,
        functions: Sequence[tuple[Any, object]],
        arrays: Arrays,
        objects: Sequence[object] = (),
    ) -> None:
        self._job, self._arrays = job, arrays
        self._objects = [_reference(one) for one in objects]
        self._functions = [(_reference(one), _reference(owner)) for one, owner in functions]
        self._values: dict[Chain, Any] = {}
        self._random = self._states()
        self._drawn: list[Chain] = []
        self._reported: set[Chain] = set()
        self._calls = self.traces = 0

    def traced(self) -> bool:
        """Record the values after a trace; return whether there is anything to compare."""
        for chain, state in self._states().items():
            if self._random.get(chain, state) != state and chain not in self._drawn:
                self._drawn.append(chain)
        self._values = {
            chain: token
            for chain, value in self._outside().items()
            if (token := self._token(value)) is not None
        }
        self._calls = 0
        return bool(self._values or self._drawn)

    def called(self) -> None:
        """Count a call, and compare the values after some of them."""
        self._calls += 1
        if self._calls not in CHECKED_AT or len(self._reported) >= MOST_REPORTED:
            return
        for chain in self._drawn:
            self._report(chain, "random")
        current = self._outside() if self._values else {}
        for chain, before in self._values.items():
            now = self._token(current[chain]) if chain in current else None
            if now is not None and now != before:
                is_number = not isinstance(now, str)
                numbers = (before, now) if is_number and not isinstance(before, str) else ()
                self._report(chain, "number" if numbers else "array", numbers)

    def _report(self, chain: Chain, kind: str, numbers: Sequence[float] = ()) -> None:
        if chain in self._reported:
            return
        self._reported.add(chain)
        function = self._functions[0][0]()
        plain = inspect.unwrap(getattr(function, "__func__", function))
        code = getattr(plain, "__code__", None)
        fact = ValueReadOnce(
            step=self._job.now.step,
            function=getattr(plain, "__name__", "a function"),
            name=".".join(chain),
            kind=kind,
            before=f"{numbers[0]:.4g}" if numbers else "",
            now=f"{numbers[1]:.4g}" if numbers else "",
            calls=self._calls,
            location=line_of(code.co_filename, code.co_firstlineno) if code else None,
        )
        self._job.fact(fact)
        if not self._job.now.step:
            why = f"`{fact.function}` read `{fact.name}` only while it was traced"
            self._job.never_stepped(why, fact)

    def _outside(self) -> dict[Chain, Any]:
        found: dict[Chain, Any] = {}
        objects = [one() for one in self._objects]
        for function, owner in self._functions:
            if function() is not None:
                found |= outside_values(function(), owner(), objects)
        return found

    def _states(self) -> dict[Chain, bytes]:
        """Return the states of the random generators from which the functions can draw."""
        found = {chain: _state(chain, value) for chain, value in self._outside().items()}
        return {chain: state for chain, state in found.items() if state is not None}

    def _token(self, value: Any) -> Any:
        """Return a number, or the digest of arrays; None for anything else."""
        if isinstance(value, bool | int | float | np.number | np.bool_):
            return float(value)
        arrays = self._arrays(value)
        return digest_of(arrays) if arrays else None


def _reference(value: Any) -> Callable[[], Any]:
    """Return a weak reference to an object or a method; a strong one to None."""
    if value is None:
        return lambda: None
    try:
        return weakref.WeakMethod(value) if inspect.ismethod(value) else weakref.ref(value)
    except TypeError:
        return lambda: None


def _state(chain: Chain, value: Any) -> bytes | None:
    """Return the state of the generator from which a call such as `np.random.normal` draws."""
    if isinstance(value, np.random.Generator):
        return repr(value.bit_generator.state).encode()
    if isinstance(value, np.random.RandomState):
        return repr(value.get_state()).encode()
    owner = getattr(value, "__self__", None)
    if len(chain) > 1 and isinstance(owner, np.random.RandomState):
        _, keys, position, *_ = owner.get_state()
        return np.asarray(keys).tobytes() + bytes(str(position), "ascii")
    if isinstance(owner, random.Random) and not isinstance(value, ModuleType):
        return repr(hash(owner.getstate())).encode()
    return None
